package report

import (
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// tenantRun has three tenants: one that met its objectives, one that did not, and one without any.
func tenantRun() *result.Run {
	var recs []call.Record
	for id := range 60 {
		r := answered(id, 20, time.Duration(id)*50*time.Millisecond)
		r.Labels = map[string]string{result.TenantLabel: []string{"chat", "batch", "a-tenant-with-a-very-long-name"}[id%3]}
		recs = append(recs, r)
	}
	recs[4].Outcome, recs[4].Fault, recs[4].Err = call.Failed, call.FaultCut, "gone"
	run := &result.Run{Plan: result.NewPlan(metrics.Run{Tokenizer: true}, ""), Dir: "x"}
	run.Tenants = []result.Tenant{
		{Name: "chat", Plan: result.NewPlan(metrics.Run{Tokenizer: true, RequestRate: 7, Objectives: []metrics.Objective{{Metric: "ttft", Bound: 53}}}, ""), SLO: []string{"mean_ttft<1s"}},
		{Name: "batch", Plan: result.NewPlan(metrics.Run{Tokenizer: true}, ""), SLO: []string{"mean_tpot<5", "error_rate<50%"}},
		{Name: "a-tenant-with-a-very-long-name", Plan: result.NewPlan(metrics.Run{Tokenizer: true}, "")},
	}
	run.Compute(call.List(recs))
	return run
}

func TestTenantTable(t *testing.T) {
	run := tenantRun()
	rows := run.Rows()
	if len(rows) != 4 || rows[3].Name != "all" {
		t.Fatalf("rows %v", rows)
	}
	for i := range rows {
		if n := len(tenantCells(&rows[i])); n != len(tenantHeads) {
			t.Errorf("%s has %d cells for %d columns", rows[i].Name, n, len(tenantHeads))
		}
	}
	cell := func(row int, head string) string {
		for i, h := range tenantHeads {
			if h == head {
				return tenantCells(&rows[row])[i]
			}
		}
		t.Fatalf("no column %s", head)
		return ""
	}
	for _, c := range []struct {
		row        int
		head, want string
	}{
		{0, "ok", "20"},
		{1, "ok", "19"},
		{1, "not ok", "1"},
		{2, "ok", "20"},
		{3, "ok", "59"},
		{3, "not ok", "1"},
		{0, "asked/s", "7.00"},
		{1, "asked/s", ""},
		{0, "SLO met", "1 of 1"},
		{1, "SLO met", "1 of 2"},
		{2, "SLO met", ""},
		{3, "SLO met", "1 of 2"},
		{1, "good", ""},
		{0, "TPOT mean", "10.0"},
		{3, "ITL p99", "10.0"},
	} {
		if got := cell(c.row, c.head); got != c.want {
			t.Errorf("%s of %s is %q, want %q", c.head, rows[c.row].Name, got, c.want)
		}
	}
	var out strings.Builder
	if err := Findings(&out, run); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > maxColumns+1 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	want := "The server did not serve all tenants alike: chat met every objective, while batch missed mean_tpot<5 (mean_tpot_ms was 10.0)."
	if !strings.Contains(text, want) || !strings.Contains(text, "Tenants ok not ok asked/s req/s") {
		t.Errorf("findings lack the tenants:\n%s", out.String())
	}
}

// TestTenantWithoutFigure has a tenant none of whose requests was answered.
func TestTenantWithoutFigure(t *testing.T) {
	run := tenantRun()
	run.Tenants[1].Name = "nobody"
	run.Compute(call.List(nil))
	run.Tenants[0].Checks = []result.Check{{Met: true}}
	want := "The server did not serve all tenants alike: chat met every objective, while nobody missed mean_tpot<5 (there was no mean_tpot_ms: no request succeeded)."
	if got := TenantFindings(run); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTenantsAlike(t *testing.T) {
	run := tenantRun()
	run.Tenants = run.Tenants[:1]
	if got := TenantFindings(run); got != nil {
		t.Errorf("one that met its objectives: %q", got)
	}
	run.Tenants = nil
	if run.Rows() != nil {
		t.Error("rows of tenants that are none")
	}
}
