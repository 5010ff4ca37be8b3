package result

import (
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/load/deal"
)

// WorkerState says how a worker of a run ended.
type WorkerState string

// The states of a worker.
const (
	WorkerFinished WorkerState = "finished" // sent its whole part
	WorkerIdle     WorkerState = "idle"     // had nothing to send: there are more workers than slots or requests
	WorkerStopped  WorkerState = "stopped"  // by the user's word, or because failures ended the run
	WorkerLost     WorkerState = "lost"     // was not heard of any more
)

// Worker is one of several processes that sent the load of a run together. Its times are on the run's clock.
type Worker struct {
	Name    string      `json:"name"`
	Host    string      `json:"host,omitempty"`
	Version string      `json:"version,omitempty"` // of its spate
	Cores   int         `json:"cores,omitempty"`
	Part    deal.Part   `json:"part"`
	State   WorkerState `json:"state"`

	Start   time.Duration `json:"start_ns"`          // the start all were given
	Skew    time.Duration `json:"start_skew_ns"`     // from when its first request was due until it let it go
	Measure time.Duration `json:"measure_ns"`        // when it let its first measured request go; call.Unset for none
	End     time.Duration `json:"end_ns"`            // after its last record
	Starved int           `json:"starved,omitempty"` // requests that were not made in time
	Stopped bool          `json:"stopped,omitempty"`
	Aborted string        `json:"aborted,omitempty"` // why failures ended its part
	Refusal int           `json:"refusal,omitempty"` // the HTTP status of the last of those failures

	Self  *verdict.Self `json:"self,omitempty"`  // what it saw of its own process and host
	Clock *WorkerClock  `json:"clock,omitempty"` // nil: it shares the clock of the run

	metrics.Sender // what the records say of it
}

// WorkerClock is how a worker's clock was set to that of the run.
type WorkerClock struct {
	Offset      time.Duration `json:"offset_ns"` // its own clock minus the run's, as applied
	DriftPPM    float64       `json:"drift_ppm"`
	Uncertainty time.Duration `json:"uncertainty_ns"` // of its times on the run's clock
	Samples     int           `json:"samples"`        // exchanges it was taken from
}

// computeWorkers fills in what the records say of each worker.
func (r *Run) computeWorkers(recs call.Set) {
	if len(r.Workers) == 0 {
		return
	}
	of := metrics.Senders(recs, r.Plan.Tokenizer)
	for i := range r.Workers {
		w := &r.Workers[i]
		w.Sender = metrics.Sender{}
		if s := of[w.Name]; s != nil {
			w.Sender = *s
		}
	}
}

// WorkerRows are the workers, and a last row for all of them; nil for a run of one process.
func (r *Run) WorkerRows() []Worker {
	if len(r.Workers) == 0 {
		return nil
	}
	s := &r.Summary
	all := Worker{Name: "all", Sender: metrics.Sender{
		Tally: r.Tally, Lost: s.Failures.Gone, DispatchLag: s.Clocks.DispatchLag, SendLag: s.Clocks.SendLag, Late10ms: s.Rates.Late10ms,
		TTFT: s.TTFT, Output: s.TotalOutput,
	}}
	for i := range r.Workers {
		w := &r.Workers[i]
		all.Skew, all.Cores = max(all.Skew, w.Skew), all.Cores+w.Cores
	}
	return append(slices.Clone(r.Workers), all)
}

// NotOK is how many of its measured requests did not succeed, lost ones among them.
func (w *Worker) NotOK() int { return w.Tally.Due - w.Tally.OK }

// Lag is the p99 of how late its requests left, in milliseconds, as the verdict takes it; false where none did.
func (w *Worker) Lag() (float64, bool) {
	return max(w.DispatchLag.P(99), w.SendLag.P(99)), w.DispatchLag.N > 0
}

// Judged are the workers as the verdict takes them.
func (r *Run) Judged() []verdict.Worker {
	var out []verdict.Worker
	for i := range r.Workers {
		w := &r.Workers[i]
		one := verdict.Worker{Name: w.Name, Self: w.Self, Sender: w.Sender, Gone: w.State == WorkerLost, Skew: w.Skew}
		if w.Clock != nil {
			one.Uncertainty = w.Clock.Uncertainty
		}
		out = append(out, one)
	}
	return out
}
