package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// workerRun has n workers that took turns; worker b was lost with two requests.
func workerRun(n int) *result.Run {
	run := &result.Run{Plan: result.NewPlan(metrics.Run{Tokenizer: true}, ""), Dir: "x"}
	for k := range n {
		run.Workers = append(run.Workers, result.Worker{
			Name: string(rune('a' + k)), State: result.WorkerFinished, Skew: 250 * time.Microsecond,
			Self:  &verdict.Self{CPUShare: 0.25},
			Clock: &result.WorkerClock{Uncertainty: 40 * time.Microsecond},
		})
	}
	run.Workers[1].State, run.Workers[1].Self = result.WorkerLost, nil
	var recs []call.Record
	for id := range 10 * n {
		r := answered(id, 20, time.Duration(id)*50*time.Millisecond)
		r.Worker = run.Workers[id%n].Name
		if id%n == 1 && id >= 8*n {
			r.Outcome, r.Fault = call.Canceled, call.FaultLost
		}
		recs = append(recs, r)
	}
	run.Compute(call.List(recs))
	return run
}

func TestWorkerTable(t *testing.T) {
	var b strings.Builder
	if err := Findings(&b, workerRun(3)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Workers (ms, p99)       ok  not ok    lost     lag  began+ clock+-     CPU   steal    TTFT\n",
		"  a                     10       0       0 ",
		"  b                      8       2       2 ",
		"  all                   28       2       2 ",
	}
	for _, w := range want {
		if !strings.Contains(b.String(), w) {
			t.Errorf("no line %q in\n%s", w, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		switch {
		case strings.HasPrefix(line, "  a  ") && !strings.Contains(line, " 0.25 ") && !strings.Contains(line, "25.0 %"):
			t.Errorf("worker a: %s", line)
		case strings.HasPrefix(line, "  b  ") && (!strings.HasSuffix(line, "  lost\n") || strings.Contains(line, "%")):
			t.Errorf("worker b: %s", line)
		case len(line) > maxColumns+1:
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for i, w := range workerRun(3).WorkerRows() {
		if n := len(workerCells(&w)); n != len(workerHeads) {
			t.Errorf("row %d has %d cells for %d columns", i, n, len(workerHeads))
		}
	}
}

// TestManyWorkers shows the lost and late ones of many.
func TestManyWorkers(t *testing.T) {
	run := workerRun(20)
	run.Workers[0].State = result.WorkerFinished
	shown, left := worstWorkers(run.Workers)
	if len(shown) != shownWorkers || left != 4 || fmt.Sprint(shown[0].Name, shown[1].Name) != "ab" {
		t.Errorf("%d shown, %d left", len(shown), left)
	}
	var b strings.Builder
	if err := Brief(&b, run); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "4 more workers") {
		t.Error(b.String())
	}
}
