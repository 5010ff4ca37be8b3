package report

import (
	"strings"
	"testing"

	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// How many requests a killed run cut off is not known, and its samples are on disk like its records.
func TestReportOfAKilledRun(t *testing.T) {
	run := &result.Run{State: result.Recovered, Dir: "runs/x", Observed: &observe.Summary{}, Verdict: verdict.Judge(verdict.Input{Killed: true})}
	s := new(sheet)
	judgement(s, run)
	files(s, run)
	for line := range strings.SplitSeq(s.String(), "\n") {
		if strings.Contains(line, "cut_off") && strings.Join(strings.Fields(line), " ") != "SUSPECT cut_off not known" {
			t.Errorf("the row is %q", line)
		}
	}
	if !strings.Contains(s.String(), "cut_off") || !strings.Contains(s.String(), observe.File) {
		t.Errorf("no row of cut_off, or %s is not named:\n%s", observe.File, s.String())
	}
}

func TestWaitingIsNamedByWhatItWaitsFor(t *testing.T) {
	for limit, want := range map[int]string{0: "waiting in the client", 4: "waiting for a free slot"} {
		m := &metrics.Summary{Completed: 9, Concurrency: metrics.Concurrency{Cap: limit}}
		m.Clocks.Queue = metrics.Dist{N: 9, Mean: 2, Median: 2}
		s := new(sheet)
		latency(s, m)
		if !strings.Contains(s.String(), want) || strings.Count(s.String(), "waiting") != 1 {
			t.Errorf("with a cap of %d, want %q:\n%s", limit, want, s.String())
		}
	}
}
