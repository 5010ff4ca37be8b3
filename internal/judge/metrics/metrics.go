// Package metrics defines every figure spate reports: its formula for one request (derive.go) and
// over all of them (summarize.go). Records come from recorder; result keeps the Summary, verdict
// judges it, and report and interop print it. There is no clock and no I/O here, so the same records
// give the same Summary, to the bit. docs/metrics.md lists the definitions; read derive.go first.
//
// Only requests of the measured phase count, and of a retried request only the last attempt.
// Sections about warm-up, probes and retries say so.
package metrics

import (
	"iter"
	"math"
	"slices"
	"time"

	"spate/internal/call"
)

// EndRule says which stamp ends a request's latency.
type EndRule string

// vLLM ends a completion at its last chunk with choices, a chat answer at its last message, and what
// generates nothing when the answer's headers are there.
const (
	LastChunk EndRule = "last_chunk" // completions
	LastEvent EndRule = "last_event" // chat: the usage message counts
	Headers   EndRule = "headers"    // embedding, scoring, ranking
)

// Run is what Summarize needs to know beyond the records.
type Run struct {
	Start time.Duration // just before the first measured dispatch
	End   time.Duration // last response; not after Start means "take it from the records"

	Due            int     // measured requests that fell due; 0 means as many as have records
	Requested      int     // requests asked for; 0 when bounded by time only
	RequestRate    float64 // requests/s asked for; 0 or +Inf when there was none
	MaxConcurrency int     // 0 when uncapped

	Objectives      []Objective
	Percentiles     []float64 // in the order asked for; nil means 99
	EndRule         EndRule   // empty means LastChunk
	Tokenizer       bool      // an output without a count is empty with one, 1 token without
	SteadyThreshold float64   // share of MaxConcurrency; 0 means 0.95
	SteadyMinWindow float64   // seconds; 0 means 10 s or a tenth of the run, whichever is longer
	NoSteady        bool      // leave the plateau out
	Intervals       []string  // latencies that get bootstrap intervals, as in "ttft"; nil: all
	Seed            uint64    // of the bootstrap
}

// alwaysPercentiles are computed whatever was asked for, so that reports can rely on them.
var alwaysPercentiles = []float64{50, 90, 95, 99}

// normal fills in what was left out. counted are the measured final records, n of them.
func (run Run) normal(n int, counted iter.Seq[*call.Record]) Run {
	if run.EndRule == "" {
		run.EndRule = LastChunk
	}
	run.Tokenizer = run.Tokenizer || run.EndRule == Headers // no output is none, not one token nobody counted
	if len(run.Percentiles) == 0 {
		run.Percentiles = []float64{99}
	}
	if run.SteadyThreshold <= 0 {
		run.SteadyThreshold = 0.95
	}
	if run.RequestRate == 0 {
		run.RequestRate = math.Inf(1)
	}
	if run.Due == 0 {
		run.Due = n
	}
	if run.End > run.Start {
		return run
	}
	first := true
	for r := range counted {
		if at := firstSet(r.Dispatched, r.Started, r.Sent); at >= 0 && (first || at < run.Start) {
			run.Start = at
		}
		first = false
		run.End = max(run.End, r.End, r.LastEvent)
	}
	return run
}

// duration is the length of the measured part in seconds: what every throughput is divided by.
func (run Run) duration() float64 { return seconds(run.End - run.Start) }

// percentiles are those asked for, then the standing ones not among them.
func (run Run) percentiles() []float64 {
	ps := slices.Clone(run.Percentiles)
	for _, p := range alwaysPercentiles {
		if !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// seconds converts exactly rounded, as Python's float of a nanosecond clock would be.
func seconds(d time.Duration) float64 { return float64(d) / 1e9 }

// firstSet is the first stamp that was taken, or call.Unset.
func firstSet(stamps ...time.Duration) time.Duration {
	for _, s := range stamps {
		if s >= 0 {
			return s
		}
	}
	return call.Unset
}

// per is a rate; 0 over no time, where vLLM would divide by zero.
func per(n, secs float64) float64 {
	if secs <= 0 {
		return 0
	}
	return n / secs
}

// share is a part of a whole; 0 of nothing.
func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
