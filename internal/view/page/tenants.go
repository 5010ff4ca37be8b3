package page

import (
	"fmt"
	"strings"

	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// tenants is the table of a run's tenants, with a row for all; nil for a run of one workload. Its figures
// are those of the run's own tables, over each tenant's requests.
func tenants(r *result.Run) *grid {
	rows := r.Rows()
	if rows == nil {
		return nil
	}
	g := &grid{Label: "Tenants", Class: "wide sort", Head: []head{{Text: "Tenant"}, {Text: "Model"}, {Text: "Dataset"}, {Text: "Load"}}}
	for _, h := range []string{"ok", "not ok", "duration, s", "requests/s", "output tok/s", "good", "SLO met"} {
		g.Head = append(g.Head, head{Text: h, Class: "n"})
	}
	for _, h := range []string{"TTFT", "TPOT", "ITL"} {
		g.Head = append(g.Head, head{Text: h + " mean, ms", Class: "n"}, head{Text: h + " P99, ms", Class: "n"})
	}
	for i := range rows {
		t := &rows[i]
		row := []cell{{Text: t.Name}, {Text: t.Model}, {Text: t.Dataset}, {Text: t.Plan.Text}}
		g.Rows = append(g.Rows, append(row, tenantFigures(t)...))
	}
	g.Note = "Each row has its own requests and its own measured part; good are requests that met the bounds of their tenant."
	return g
}

func tenantFigures(t *result.Tenant) []cell {
	s, good, slo := &t.Summary, cell{Class: "n"}, cell{Class: "n"}
	if s.Goodput != nil {
		good = withUnit(s.Goodput.Share, "share")
	}
	if n := len(t.Checks); n > 0 {
		missed := t.Missed()
		slo = num(float64(n-len(missed))/float64(n), 2)
		slo.Text = fmt.Sprintf("%d of %d", n-len(missed), n)
		var texts []string
		for _, m := range missed {
			texts = append(texts, m.Text)
		}
		slo.Title = strings.Join(texts, ", ")
	}
	out := []cell{
		num(float64(s.Tally.OK), 0), num(float64(s.ErrorAdjusted.Failures), 0), num(s.DurationS, 2), num(s.RequestThroughput, 2),
		num(s.OutputThroughput, 2), good, slo,
	}
	for _, d := range []*metrics.Dist{&s.TTFT, &s.TPOT, &s.ITL} {
		if d.N == 0 {
			out = append(out, cell{Class: "n"}, cell{Class: "n"})
			continue
		}
		out = append(out, num(d.Mean, 2), num(d.P(99), 2))
	}
	return out
}
