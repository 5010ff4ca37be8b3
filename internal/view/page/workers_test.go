package page

import (
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// TestWorkersOnThePage: every row has a cell for each column, also of a worker that told nothing, and one row is for all.
func TestWorkersOnThePage(t *testing.T) {
	run := &result.Run{Summary: metrics.Summary{Tally: call.Tally{Due: 3, OK: 2}}, Tally: call.Tally{Due: 3, OK: 2}}
	if workers(run) != nil {
		t.Error("a run of one process has workers")
	}
	run.Workers = []result.Worker{
		{Name: "a", Host: "<host>", State: result.WorkerFinished, Self: &verdict.Self{CPUShare: 0.5}, Clock: &result.WorkerClock{Uncertainty: time.Millisecond}},
		{Name: "b", State: result.WorkerLost},
	}
	g := workers(run)
	if len(g.Rows) != 3 || g.Rows[2][0].Text != "all" || g.Rows[2][4].Text != "2" {
		t.Fatalf("%+v", g.Rows)
	}
	for i, row := range g.Rows {
		if len(row) != len(g.Head) {
			t.Errorf("row %d has %d cells for %d columns", i, len(row), len(g.Head))
		}
	}
	var texts []string
	for _, c := range g.Rows[0] {
		texts = append(texts, c.Text)
	}
	if all := strings.Join(texts, "|"); !strings.Contains(all, "1.000") || !strings.Contains(all, "50 %") {
		t.Errorf("worker a: %s", all)
	}
}
