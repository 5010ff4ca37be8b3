package schedule

import "fmt"

var closed = Pattern{
	Name: "closed loop", About: "a number of requests always under way: the next leaves when one is answered",
	asked: func(r *Run) bool { return r.RequestRate.Inf() && r.MaxConcurrency != nil },
	plan: func(r *Run) (Plan, string, error) {
		p, err := Closed(*r.MaxConcurrency, r.N)
		return p, fmt.Sprintf("closed loop, %d at a time", *r.MaxConcurrency), err
	},
	check: func(r *Run, c Problems) {
		c.Want(r.MaxConcurrency == nil || *r.MaxConcurrency > 0, "max-concurrency", "must be at least 1; leave it out for no cap")
	},
}

// Closed is a closed loop: slots requests always under way, n in all (0: until stopped).
func Closed(slots, n int) (Plan, error) {
	if slots < 1 {
		return Plan{}, fmt.Errorf("a closed loop needs at least 1 slot, got %d", slots)
	}
	return Plan{N: n, Slots: slots}, nil
}
