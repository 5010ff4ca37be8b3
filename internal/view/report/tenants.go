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

// tenantHeads name the columns: first what was asked for and came of it, then latencies in milliseconds.
var tenantHeads = []string{
	"ok", "not ok", "asked/s", "req/s", "out tok/s", "seconds", "good", "SLO met",
	"TTFT mean", "TTFT p99", "TPOT mean", "TPOT p99", "ITL mean", "ITL p99",
}

// tenantLoads is how many of the columns are not latencies.
const tenantLoads = 8

func tenantCells(t *result.Tenant) []string {
	s, asked, good, slo := &t.Summary, "", "", ""
	if r := t.Plan.RequestRate; r != nil {
		asked = figure.Rounded(*r)
	}
	if g := s.Goodput; g != nil {
		good = percent(g.Share)
	}
	if n := len(t.Checks); n > 0 {
		slo = fmt.Sprintf("%d of %d", n-len(t.Missed()), n)
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
	rows := run.Rows()
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
	show := func(title string, from, to int) {
		line(title, tenantHeads[from:to])
		for i := range rows {
			line("  "+rows[i].Name, tenantCells(&rows[i])[from:to])
		}
	}
	s.WriteByte('\n')
	show("Tenants", 0, tenantLoads)
	show("Latency (ms)", tenantLoads, len(tenantHeads))
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
