package schedule

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"spate/internal/rng"
)

// RampShape is how a ramp-up rises.
type RampShape string

// The shapes.
const (
	RampLinear      RampShape = "linear"
	RampExponential RampShape = "exponential"
)

var ramped = Pattern{
	Name: "ramp", About: "vLLM's ramp-up: a rate that rises from request to request",
	asked: func(r *Run) bool { return r.RampUp != "" },
	check: checkRamp,
	plan: func(r *Run) (Plan, string, error) {
		p, err := Ramped(r.N, r.Ramp(), float64(r.Burstiness), r.Seed)
		return p, fmt.Sprintf("%d requests, %s ramp from %d to %d per second", r.N, r.RampUp, *r.RampStart, *r.RampEnd), err
	},
	rate: func(r *Run, _ *Plan) float64 { return float64(*r.RampStart) },
}

func checkRamp(r *Run, c Problems) {
	if r.RampUp == "" {
		c.Needs(r.RampStart != nil, "ramp-up-start-rps", "ramp-up-strategy", "linear or exponential")
		c.Needs(r.RampEnd != nil, "ramp-up-end-rps", "ramp-up-strategy", "linear or exponential")
		return
	}
	c.Clash(!r.RequestRate.Inf(), "ramp-up-strategy", "request-rate", "the ramp sets the rate")
	c.Needs(r.RampStart == nil, "ramp-up-strategy", "ramp-up-start-rps", "the rate to begin with")
	c.Needs(r.RampEnd == nil, "ramp-up-strategy", "ramp-up-end-rps", "the rate to end with")
	if r.RampStart == nil || r.RampEnd == nil {
		return
	}
	c.Want(*r.RampStart >= 0, "ramp-up-start-rps", "%d is negative", *r.RampStart)
	c.Want(*r.RampEnd >= 0, "ramp-up-end-rps", "%d is negative", *r.RampEnd)
	c.Clash(*r.RampStart > *r.RampEnd, "ramp-up-start-rps", "ramp-up-end-rps",
		fmt.Sprintf("a ramp goes up, and %d is above %d", *r.RampStart, *r.RampEnd))
	c.Clash(*r.RampStart == 0, "ramp-up-start-rps", "ramp-up-strategy", "a ramp starts above 0 requests per second")
	c.Needs(r.N == 0, "ramp-up-strategy", "num-prompts", "the ramp is spread over that many requests")
}

// Ramp is the ramp-up that the settings ask for.
func (s *Settings) Ramp() Ramp {
	return Ramp{Exponential: s.RampUp == RampExponential, From: float64(*s.RampStart), To: float64(*s.RampEnd)}
}

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
