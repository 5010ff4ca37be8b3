package report

import (
	"fmt"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// TenantRow is one row of the table of tenants, in words: what every view of it shows.
type TenantRow struct {
	Name  string
	Cells []string // by TenantHeads
}

// TenantHeads name the columns: first what was asked for and came of it, then latencies in milliseconds.
var TenantHeads = []string{
	"ok", "not ok", "asked/s", "req/s", "out tok/s", "seconds", "good", "SLO met",
	"TTFT mean", "TTFT p99", "TPOT mean", "TPOT p99", "ITL mean", "ITL p99",
}

// tenantLoads is how many of the columns are not latencies.
const tenantLoads = 8

// TenantRows are a row for each tenant and one for all; none for a run of one workload.
func TenantRows(run *result.Run) []TenantRow {
	if len(run.Tenants) == 0 {
		return nil
	}
	var out []TenantRow
	met, judged := 0, 0
	for i := range run.Tenants {
		t := &run.Tenants[i]
		slo := ""
		if ok, has := t.Meets(); has {
			slo = fmt.Sprintf("%d of %d", len(t.Checks)-len(t.Missed()), len(t.Checks))
			judged++
			if ok {
				met++
			}
		}
		out = append(out, TenantRow{t.Name, tenantCells(&t.Summary, &t.Plan, slo)})
	}
	slo := ""
	if judged > 0 {
		slo = fmt.Sprintf("%d of %d", met, judged)
	}
	return append(out, TenantRow{"all", tenantCells(&run.Summary, &run.Plan, slo)})
}

func tenantCells(s *metrics.Summary, p *result.Plan, slo string) []string {
	asked, good := "", ""
	if p.RequestRate != nil {
		asked = figure.Rounded(*p.RequestRate)
	}
	if g := s.Goodput; g != nil {
		good = percent(g.Share)
	}
	cells := []string{
		strconv.Itoa(s.Tally.OK), strconv.Itoa(s.ErrorAdjusted.Failures), asked, figure.Rounded(s.RequestThroughput), figure.Rounded(s.OutputThroughput),
		figure.Rounded(s.DurationS), good, slo,
	}
	for _, d := range []*metrics.Dist{&s.TTFT, &s.TPOT, &s.ITL} {
		if d.N == 0 {
			cells = append(cells, "", "")
			continue
		}
		cells = append(cells, figure.Rounded(d.Mean), figure.Rounded(d.P(99)))
	}
	return cells
}

// tenants shows them in two tables that keep within the margin.
func tenants(s *sheet, run *result.Run) {
	rows := TenantRows(run)
	if rows == nil {
		return
	}
	const most = 18
	line := func(name string, cells []string) {
		text := fmt.Sprintf("%-*s", most, escape.Clip(name, most))
		for _, c := range cells {
			text += fmt.Sprintf(" %9s", c)
		}
		s.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	s.WriteByte('\n')
	line("Tenants", TenantHeads[:tenantLoads])
	for _, r := range rows {
		line("  "+r.Name, r.Cells[:tenantLoads])
	}
	line("Latency (ms)", TenantHeads[tenantLoads:])
	for _, r := range rows {
		line("  "+r.Name, r.Cells[tenantLoads:])
	}
	for _, sentence := range TenantFindings(run) {
		s.hang("  ", sentence)
	}
}

// TenantFindings say where tenants fared differently: who met the objectives, and who did not.
func TenantFindings(run *result.Run) []string {
	var met, missed []string
	for i := range run.Tenants {
		t := &run.Tenants[i]
		switch ok, judged := t.Meets(); {
		case ok && judged:
			met = append(met, t.Name)
		case judged:
			c := t.Missed()[0]
			figure := c.Key + " was " + figure.Rounded(float64(c.Value))
			if lack := t.Lack(c); lack != "" {
				figure = "there was no " + c.Key + ": " + lack
			}
			missed = append(missed, fmt.Sprintf("%s missed %s (%s)", t.Name, c.Text, figure))
		}
	}
	if len(met) == 0 || len(missed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The server did not serve all tenants alike: %s met every objective, while %s.", list(met), list(missed))}
}

// list joins names in a sentence.
func list(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
