// Package result has the two forms of a result. An Entry (entry.go, figures.go) is any result, whoever made it, with
// typed figures: what harvest finds, the store keeps and every view takes. A Run is everything spate wrote down of one
// run of its own; bench creates a Folder for it, hands its log to the driver and finishes it. It comes after metrics
// and verdict. Read entry.go, then this file, folder.go (writing) and open.go (reading, and recovering a run that was
// killed).
package result

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
)

// Schema is the version of result files this package writes. It reads every earlier one.
const Schema = 1

// State says how a run ended.
type State string

// The states of a run.
const (
	Running     State = "running"     // in run.json, before there is a result
	Complete    State = "complete"    // came to its planned end
	Interrupted State = "interrupted" // stopped by the user; what had finished is in it
	Aborted     State = "aborted"     // ended by failed requests; what had finished is in it
	Recovered   State = "recovered"   // computed from the records of a run that never wrote its result
)

// Run is one run.
type Run struct {
	Schema      int               `json:"schema"`
	ID          string            `json:"id"` // the folder's name
	State       State             `json:"state"`
	Started     time.Time         `json:"started"` // wall clock; every other time is an offset from it
	Ended       time.Time         `json:"ended,omitzero"`
	Aborted     string            `json:"aborted,omitempty"` // why failed requests ended it
	Tool        string            `json:"tool"`              // name and version
	Command     []string          `json:"command"`
	Labels      map[string]string `json:"labels,omitempty"`
	Server      Server            `json:"server"`
	Plan        Plan              `json:"plan"`
	Block       Block             `json:"block"`
	Tally       call.Tally        `json:"tally"`
	Verdict     verdict.Verdict   `json:"verdict,omitzero"`
	Summary     metrics.Summary   `json:"summary,omitzero"`
	Spec        *SpecDecode       `json:"spec_decode,omitempty"`
	Observed    *observe.Summary  `json:"observed,omitempty"` // server, GPUs and host during the measured part
	Tenants     []Tenant          `json:"tenants,omitempty"`  // of a run with several workloads
	Workers     []Worker          `json:"workers,omitempty"`  // of a load that several processes sent
	Errors      []string          `json:"errors,omitempty"`   // of the first failures, in dispatch order
	Notes       []string          `json:"notes,omitempty"`
	Records     recorder.Stats    `json:"records"` // how the record log fared
	Damage      *recorder.Damage  `json:"damage,omitempty"`
	Files       []string          `json:"files,omitempty"` // written beside the folder's own, such as vLLM's result
	Config      json.RawMessage   `json:"config,omitempty"`
	Environment json.RawMessage   `json:"environment,omitempty"`

	// Dir is the folder the run was read from or written to.
	Dir string `json:"-"`
}

// Server is what is known of the server that was measured.
type Server struct {
	URLs    []string        `json:"urls,omitempty"`
	Backend string          `json:"backend,omitempty"`
	Model   string          `json:"model,omitempty"`
	Kind    string          `json:"kind,omitempty"` // vllm, sglang ...
	Version string          `json:"version,omitempty"`
	Change  json.RawMessage `json:"change,omitempty"` // of its own counters over the run, as probe tells it
}

// Plan is what was meant to happen, as far as the metrics depend on it. It is written before the
// first request, so that a killed run can be computed from its records.
type Plan struct {
	Text            string          `json:"text,omitempty"` // one line for people
	Start           time.Duration   `json:"start_ns"`
	End             time.Duration   `json:"end_ns"` // not after start: take it from the records
	Due             int             `json:"due,omitempty"`
	Requests        int             `json:"requests,omitempty"`   // 0: bounded by time only
	RequestRate     *float64        `json:"request_rate"`         // null: none
	MaxConcurrency  *int            `json:"max_concurrency"`      // null: no cap
	Objectives      []string        `json:"objectives,omitempty"` // as --goodput takes them
	Percentiles     []float64       `json:"percentiles,omitempty"`
	EndRule         metrics.EndRule `json:"end_rule,omitempty"`
	Tokenizer       bool            `json:"tokenizer"`
	SteadyThreshold float64         `json:"steady_threshold,omitempty"`
	SteadyMinWindow float64         `json:"steady_min_window_s,omitempty"` // 0: max(10 s, a tenth of the run)
	NoSteady        bool            `json:"no_steady,omitempty"`
	Seed            uint64          `json:"seed"`

	// Judge are the choices the verdict depends on; Percentiles may hold more than the user named.
	Judge verdict.Settings `json:"judge"`
}

// NewPlan keeps what run says; text is one line for people.
func NewPlan(run metrics.Run, text string) Plan {
	p := Plan{
		Text: text, Start: run.Start, End: run.End, Due: run.Due, Requests: run.Requested,
		Percentiles: run.Percentiles, EndRule: run.EndRule, Tokenizer: run.Tokenizer,
		SteadyThreshold: run.SteadyThreshold, SteadyMinWindow: run.SteadyMinWindow, NoSteady: run.NoSteady, Seed: run.Seed,
	}
	if run.RequestRate > 0 && !math.IsInf(run.RequestRate, 0) {
		p.RequestRate = &run.RequestRate
	}
	if run.MaxConcurrency > 0 {
		p.MaxConcurrency = &run.MaxConcurrency
	}
	for _, o := range run.Objectives {
		p.Objectives = append(p.Objectives, o.Metric+":"+strconv.FormatFloat(o.Bound, 'g', -1, 64))
	}
	return p
}

// Metrics is the plan as metrics wants it.
func (p *Plan) Metrics() metrics.Run {
	run := metrics.Run{
		Start: p.Start, End: p.End, Due: p.Due, Requested: p.Requests, RequestRate: p.Rate(),
		Percentiles: p.Percentiles, EndRule: p.EndRule, Tokenizer: p.Tokenizer,
		SteadyThreshold: p.SteadyThreshold, SteadyMinWindow: p.SteadyMinWindow, NoSteady: p.NoSteady, Seed: p.Seed,
	}
	if p.MaxConcurrency != nil {
		run.MaxConcurrency = *p.MaxConcurrency
	}
	for _, text := range p.Objectives {
		if o, err := metrics.ParseObjective(text); err == nil { // NewPlan wrote it from a valid one
			run.Objectives = append(run.Objectives, o)
		}
	}
	return run
}

// Rate is the request rate asked for, +Inf when there was none.
func (p *Plan) Rate() float64 {
	if p.RequestRate == nil {
		return math.Inf(1)
	}
	return *p.RequestRate
}

// Block is how the user asked the result block to look.
type Block struct {
	Style       string    `json:"style,omitempty"`
	Metrics     []string  `json:"metrics,omitempty"`
	Percentiles []float64 `json:"percentiles,omitempty"`
	Tokenizer   bool      `json:"tokenizer"` // false: vLLM's --skip-tokenizer-init
}

// SpecDecode is what the server's speculative decoding did during the run.
type SpecDecode struct {
	Rate        float64   `json:"acceptance_rate_percent"`
	Length      float64   `json:"acceptance_length"` // tokens per step
	Drafts      int       `json:"drafts"`
	DraftTokens int       `json:"draft_tokens"`
	Accepted    int       `json:"accepted_tokens"`
	PerPosition []float64 `json:"per_position_acceptance"` // 0 to 1
}

// Observe fills in what the samples tell of the measured part. Compute comes first.
func (r *Run) Observe(samples []observe.Sample, fates []observe.Fate, pricePerHour float64) {
	from, to := r.Plan.Start, r.Plan.End
	if to <= from {
		to = from + time.Duration(r.Summary.DurationS*float64(time.Second))
	}
	r.Observed = observe.Summarize(samples, fates, observe.Run{
		From: from, To: to, MeanTTFT: r.Summary.TTFT.Mean, Input: r.Summary.TotalInput, Output: r.Summary.TotalOutput,
		PricePerHour: pricePerHour,
	})
}

// PredictedLabel is the label of results that the simulator made: with the value "true".
const PredictedLabel = "predicted"

// Undone is what a stop left undone, in one sentence; empty for a run that was not stopped. None of it is a failure.
func (r *Run) Undone() string {
	if r.State != Interrupted {
		return ""
	}
	f := &r.Summary.Failures
	const stopped = "the run was stopped"
	text := stopped
	if unsent := f.Unsent + max(0, r.Plan.Requests-r.Tally.Due); unsent > 0 {
		text += fmt.Sprintf(": %d of %d requests were not sent", unsent, max(r.Plan.Requests, r.Tally.Due))
	}
	if f.Stopped > 0 {
		text += fmt.Sprintf(", %d in flight were cut off by the stop", f.Stopped)
	}
	if text == stopped {
		return text
	}
	return text + "; none of these counts as failed"
}

// maxErrors is how many failures a result quotes; the records have them all.
const maxErrors = 10

// Compute fills in what follows from the records.
func (r *Run) Compute(recs call.Set) {
	r.Summary = metrics.SummarizeSet(recs, r.Plan.Metrics())
	r.Tally = r.Summary.Tally
	r.Errors = metrics.FirstErrors(recs, maxErrors)
	r.computeTenants(recs)
	r.computeWorkers(recs)
}
