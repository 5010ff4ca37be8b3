package schedule

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// stretched is the most requests whose schedule is made to end at its nominal time.
const stretched = 10_000_000

var paced = Pattern{
	Name: "rate", About: "a rate, with gaps from bursty over Poisson to even; of a number of requests the last is due at number / rate",
	asked: func(*Run) bool { return true },
	check: func(r *Run, c Problems) {
		c.Want(r.RequestRate > 0, "request-rate", "%v is not a rate above 0; use inf for no pacing, or --max-concurrency for a closed loop", float64(r.RequestRate))
		c.Want(r.Burstiness > 0, "burstiness", "%v is not above 0; 1 is Poisson, inf is constant gaps", float64(r.Burstiness))
	},
	plan: func(r *Run) (p Plan, text string, err error) {
		if r.N > 0 {
			p, err = VLLM(r.N, float64(r.RequestRate), float64(r.Burstiness), r.Seed)
		} else {
			p, err = Gamma(float64(r.RequestRate), float64(r.Burstiness), r.Seed)
		}
		return p, r.atRate(), err
	},
	rate:  (*Run).asGiven,
	lasts: (*Run).byRate,
}

// atRate is what a steady rate comes to, in words.
func (r *Run) atRate() string {
	if r.N > 0 {
		return fmt.Sprintf("%d requests at %g per second", r.N, float64(r.RequestRate))
	}
	return fmt.Sprintf("%g requests per second", float64(r.RequestRate))
}

func (r *Run) asGiven(*Plan) float64 { return float64(r.RequestRate) }

// byRate is how long the requests take at the rate, unless that is so high that the client sets the time.
func (r *Run) byRate() (time.Duration, bool) {
	rate := float64(r.RequestRate)
	return time.Duration(float64(r.N) / rate * float64(time.Second)), rate > 0 && rate < maxRate
}

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
