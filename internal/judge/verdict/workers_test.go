package verdict

import (
	"strings"
	"testing"
	"time"

	"spate/internal/judge/metrics"
)

// sharedOut is a run whose load two workers sent, each as well as one alone did.
func sharedOut(in Input) Input {
	for _, name := range []string{"a", "b"} {
		in.Workers = append(in.Workers, Worker{Name: name, Self: &Self{}, Sender: metrics.Sender{
			DispatchLag: dist(500, 0), SendLag: dist(500, 0),
		}})
	}
	return in
}

// TestWorkersAreNamed: what is wrong with one of several is said of that one, and what the coordinator's own process
// does to itself is said of nobody.
func TestWorkersAreNamed(t *testing.T) {
	in := sharedOut(healthy())
	in.Self.CPUShare = 1 // the coordinator's
	in.Workers[0].Self.StealShare = 0.2
	in.Workers[1].Self = nil // it was gone before it could tell
	in.Workers[1].Gone, in.Summary.Failures.Gone, in.Summary.Failures.GoneUnsent, in.Summary.Tally.Dropped = true, 7, 3, 3
	v := Judge(in)
	for name, want := range map[string]string{
		"host_steal":   "worker a: other machines on this host took 20.0 %",
		"workers":      "7 of 1000 requests were lost with worker b: how they ended is not known",
		"own_cpu":      "of its cores (worker a, the worst of 2).",
		"dropped_work": "Every request that fell due was sent (997).",
	} {
		if f := find(t, v, name); !strings.Contains(f.Sentence, want) {
			t.Errorf("%s: %q, want %q", name, f.Sentence, want)
		}
	}
	if f := find(t, v, "own_cpu"); f.Level != OK {
		t.Errorf("the coordinator's CPU is judged: %+v", f)
	}
	in = sharedOut(healthy())
	in.Workers[0].Gone = true
	if f := find(t, Judge(in), "workers"); f.Level != OK || !strings.Contains(f.Sentence, "(a) had nothing left to tell") {
		t.Errorf("a worker that was done: %+v", f)
	}
	in.Workers[0].Skew, in.Workers[0].Uncertainty = 3*time.Millisecond, 30*time.Millisecond
	if f := find(t, Judge(in), "worker_clocks"); f.Level != Suspect || !strings.HasPrefix(f.Sentence, "worker a began 3.00 ms late, on a clock known to 30.00 ms") {
		t.Errorf("%+v", f)
	}
	if f := find(t, Judge(healthy()), "workers"); f.Measured {
		t.Errorf("a run without workers: %+v", f)
	}
}
