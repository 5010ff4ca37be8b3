package schedule

import (
	"errors"
	"fmt"
	"time"
)

var burst = Pattern{
	Name: "burst", About: "all requests at once",
	asked: func(r *Run) bool { return r.RequestRate.Inf() },
	plan: func(r *Run) (Plan, string, error) {
		p, err := Burst(r.N)
		return p, fmt.Sprintf("%d requests at once", r.N), err
	},
}

// Burst has all n requests due at once.
func Burst(n int) (Plan, error) {
	if n < 1 {
		return Plan{}, errors.New("sending everything at once needs a number of requests; give a count, or a rate below inf")
	}
	return Plan{N: n, Due: func(yield func(time.Duration) bool) {
		for range n {
			if !yield(0) {
				return
			}
		}
	}}, nil
}
