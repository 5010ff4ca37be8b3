package schedule

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"spate/internal/rng"
)

// stretched is the most requests whose schedule is made to end at its nominal time.
const stretched = 10_000_000

// VLLM is the schedule of vLLM's client since 0.10: n gamma gaps, summed, the first request after the first gap,
// then stretched so that the last of them falls on n/rate exactly. An infinite rate is a burst.
func VLLM(n int, rate, burstiness float64, seed uint32) (Plan, error) {
	if err := errors.Join(checkCount(n), checkRate(rate), checkBurstiness(burstiness)); err != nil {
		return Plan{}, err
	}
	// Stretching needs the end before the beginning. A second pass over the re-seeded stream costs some 40 ns a
	// request and no memory. Of very many the sum is so close to its mean that nothing is left to stretch.
	stretch, last := 1.0, 0.0
	if n <= stretched {
		for t := range summed(n, burstiness, seed, steady(rate)) {
			last = t
		}
	}
	if last != 0 {
		stretch = float64(n) / rate / last
	}
	return Plan{N: n, Due: func(yield func(time.Duration) bool) {
		for t := range summed(n, burstiness, seed, steady(rate)) {
			if !yield(duration(float64(t * stretch))) {
				return
			}
		}
	}}, nil
}

// Slept is the schedule of clients that sleep one gap after each send, such as vLLM's before 0.10, SGLang's and
// LMDeploy's: the first request at 0, nothing stretched. Their event loops woke about a millisecond late each time,
// which added up. These times are without it; who follows them adds its own lateness, see Plan.Slept.
func Slept(n int, rate, burstiness float64, seed uint32) (Plan, error) {
	if err := errors.Join(checkCount(n), checkRate(rate), checkBurstiness(burstiness)); err != nil {
		return Plan{}, err
	}
	return Plan{N: n, Slept: true, Due: func(yield func(time.Duration) bool) {
		if !yield(0) || n == 1 {
			return
		}
		for t := range summed(n-1, burstiness, seed, steady(rate)) {
			if !yield(duration(t)) {
				return
			}
		}
	}}, nil
}

// summed are the running sums of n gaps, the i-th at rate(i).
func summed(n int, burstiness float64, seed uint32, rate func(i int) float64) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		g := newGaps(burstiness, seed)
		t := 0.0
		for i := range n {
			t += g.next(rate(i))
			if !yield(t) {
				return
			}
		}
	}
}

func steady(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// Ramp is vLLM's ramp-up: the rate of each gap goes from From to To by the request's index. Since later gaps are
// shorter, the rate over time is not linear; for a ramp that is, see Stages.
type Ramp struct {
	Exponential bool
	From, To    float64 // requests per second
}

// check names the flag values at fault; vLLM's client stops with an assertion in these cases.
func (r Ramp) check() error {
	finite := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	if !finite(r.From) || !finite(r.To) {
		return fmt.Errorf("a ramp needs rates above 0 and below inf at both ends, got %v to %v (a slow start such as 0.1 works, 0 never sends)", r.From, r.To)
	}
	return nil
}

// rate returns the rate of the i-th gap of n.
func (r Ramp) rate(n int) func(i int) float64 {
	steps := float64(max(n-1, 1))
	if r.Exponential {
		ratio := r.To / r.From
		return func(i int) float64 { return float64(r.From * rng.Pow(ratio, float64(i)/steps)) }
	}
	return func(i int) float64 { return r.From + float64((r.To-r.From)*(float64(i)/steps)) }
}

// Ramped is VLLM's schedule with a ramp-up, which it does not stretch.
func Ramped(n int, ramp Ramp, burstiness float64, seed uint32) (Plan, error) {
	if err := errors.Join(checkCount(n), ramp.check(), checkBurstiness(burstiness)); err != nil {
		return Plan{}, err
	}
	return Plan{N: n, Due: func(yield func(time.Duration) bool) {
		for t := range summed(n, burstiness, seed, ramp.rate(n)) {
			if !yield(duration(t)) {
				return
			}
		}
	}}, nil
}

// Step is the first request sent at a whole-numbered rate during a ramp-up, what vLLM's result file lists under
// rps_change_events.
type Step struct {
	Rate    int           // requests per second, rounded down
	Request int           // its index; the time it was sent is the event's
	Due     time.Duration // when it should be sent; 0 for the start of the ramp
}

// Steps are the whole-numbered rates n requests pass on the way up: From at the start, then one for each
// number reached. A ramp that falls has only the first.
func (r Ramp) Steps(n int, burstiness float64, seed uint32) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		reached := int(r.From)
		if !yield(Step{Rate: reached}) {
			return
		}
		rate, i := r.rate(n), 0
		for t := range summed(n, burstiness, seed, rate) {
			for now := int(rate(i)); reached < now; {
				reached++
				if !yield(Step{Rate: reached, Request: i, Due: duration(t)}) {
					return
				}
			}
			i++
		}
	}
}
