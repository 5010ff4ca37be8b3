// Package schedule says when requests are due: constant, Poisson and gamma arrivals, vLLM's schedules of past
// and present, ramps, stages, traces, bursts and closed loops. One Plan is made of the user's settings
// before the run; driver sleeps to its times and never changes them, so lateness is visible and does not add up
// (but where a plan is Slept, as older clients are).
//
// Everything here is computed, nothing waits. Times stream out of iterators that can be started any number of
// times and give the same times each time, on every CPU; a million requests need no more memory than ten.
// Read this file first, then pattern.go: every arrival pattern has a file of its own, with its rules and its line in
// one table.
package schedule

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"spate/internal/load/deal"
	"spate/internal/rng"
)

// Plan is when to send, as data.
type Plan struct {
	// Due are the times at which requests should be sent, from the start of the run, never decreasing. Nil is
	// a closed loop: a request is due when a slot becomes free.
	Due iter.Seq[time.Duration]
	// Slept counts each gap between two times of Due from when the request before it was let go, not from when
	// that was due, so that lateness adds up: Due are then the earliest times there can be.
	Slept bool
	// N is how many requests there are at most, 0 when only Until or the workload ends the run.
	N int
	// Slots is how many requests may be under way at once, 0 for no cap.
	Slots int
	// Until ends the sending: no request is due at or after it. 0 is no time bound.
	Until time.Duration
}

// Capped returns the plan with at most slots requests under way at once. Due times stay as they are: waiting
// for a slot is queueing, not a later schedule.
func (p Plan) Capped(slots int) Plan {
	p.Slots = slots
	return p
}

// First returns the plan cut after n requests; n below 1 cuts nothing.
func (p Plan) First(n int) Plan {
	if n < 1 {
		return p
	}
	if p.N == 0 || n < p.N {
		p.N = n
	}
	if due := p.Due; due != nil {
		p.Due = func(yield func(time.Duration) bool) {
			sent := 0
			for t := range due {
				if sent++; !yield(t) || sent == n {
					return
				}
			}
		}
	}
	return p
}

// For returns the plan cut at time d; d not above 0 cuts nothing.
func (p Plan) For(d time.Duration) Plan {
	if d <= 0 {
		return p
	}
	if p.Until == 0 || d < p.Until {
		p.Until = d
	}
	if due := p.Due; due != nil {
		p.Due = func(yield func(time.Duration) bool) {
			for t := range due {
				if t >= d || !yield(t) {
					return
				}
			}
		}
	}
	return p
}

// Dealt returns what a share has of the plan: its requests at the times they have in the whole, and its slots. It ends
// when the whole does.
func (p Plan) Dealt(s deal.Share) Plan {
	p.N, p.Slots = s.Count(p.N), s.Slots()
	if due := p.Due; due != nil {
		p.Due = func(yield func(time.Duration) bool) {
			if s.Idle() {
				return
			}
			i := 0
			for t := range due {
				if s.Has(i) && !yield(t) {
					return
				}
				i++
			}
		}
	}
	return p
}

// Constant has one request every 1/rate seconds, the first at 0, without end.
func Constant(rate float64) (Plan, error) { return Gamma(rate, math.Inf(1), 0) }

// Poisson has independent exponential gaps of mean 1/rate, without end.
func Poisson(rate float64, seed uint32) (Plan, error) { return Gamma(rate, 1, seed) }

// Gamma has independent gamma gaps of mean 1/rate, without end and without rescaling, since nothing is known of
// when it will stop. Burstiness is the shape: 1 is Poisson, below 1 comes in bursts, above 1 is more even, +Inf
// is constant with the first request at 0, so that a second always holds exactly rate requests.
func Gamma(rate, burstiness float64, seed uint32) (Plan, error) {
	if err := errors.Join(checkRate(rate), checkBurstiness(burstiness)); err != nil {
		return Plan{}, err
	}
	if math.IsInf(rate, 1) {
		return Plan{}, errors.New("an infinite rate has no gaps; use a burst or a closed loop")
	}
	return Plan{Due: func(yield func(time.Duration) bool) {
		for u := range unitTimes(burstiness, seed) {
			if !yield(duration(u / rate)) {
				return
			}
		}
	}}, nil
}

// unitTimes are the arrivals of a renewal process of one per second.
func unitTimes(burstiness float64, seed uint32) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		if math.IsInf(burstiness, 1) {
			for k := 0.0; yield(k); k++ {
			}
			return
		}
		g := newGaps(burstiness, seed)
		for t := g.next(1); yield(t); t += g.next(1) {
		}
	}
}

// gaps draws the times between arrivals from the stream vLLM's client draws them from.
type gaps struct {
	shape  float64
	stream *rng.Legacy
}

func newGaps(burstiness float64, seed uint32) gaps {
	return gaps{burstiness, rng.NewLegacy(seed)}
}

// next returns the next gap at a rate, in seconds. The order of operations is vLLM's, to the bit.
func (g gaps) next(rate float64) float64 {
	switch {
	case math.IsInf(rate, 1):
		return 0
	case math.IsInf(g.shape, 1):
		return 1 / rate
	}
	return g.stream.Gamma(g.shape, 1/float64(rate*g.shape))
}

// duration rounds seconds to the nearest nanosecond, and to the end of time where they are beyond it.
func duration(seconds float64) time.Duration {
	ns := math.RoundToEven(float64(seconds * 1e9))
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

func checkRate(rate float64) error {
	if rate > 0 {
		return nil
	}
	return fmt.Errorf("the request rate must be above 0, got %v (inf sends everything at once)", rate)
}

func checkBurstiness(b float64) error {
	if b > 0 {
		return nil
	}
	return fmt.Errorf("the burstiness must be above 0, got %v (1 is Poisson, inf is evenly spaced)", b)
}

func checkCount(n int) error {
	if n > 0 {
		return nil
	}
	return fmt.Errorf("the number of requests must be above 0, got %d", n)
}
