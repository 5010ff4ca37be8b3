// Package sizing finds the smallest deployment that keeps latency objectives at a request rate: which
// profile, tensor parallel size, scheduler limits and number of replicas. Profiles (package profile)
// and the requests of a workload (package predict) come in, engines run in virtual time
// (sim/cluster), and the command line prints the Plan. Start with Make; server.go says what can be
// varied, measure.go what one simulation shows, search.go how the limit of a replica is found.
package sizing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
)

// Options are what a plan is asked for.
type Options struct {
	Objectives []figure.Objective
	Rate       float64 // requests per second over all replicas
	Servers    []*Server
	Load       *predict.Load // lengths of the requests; its times are not used
	Burstiness float64       // gamma shape of the arrivals at one replica
	TP         []int         // sizes to try; empty: all that a node can hold
	MaxSeqs    []int         // values to try; empty: a range around the profile's
	MaxTokens  []int
	Seed       uint64
	Progress   func(done, total int) // nil: nobody wants to know; called by several goroutines, one at a time
}

// Verdict is what a prediction says about objectives.
type Verdict string

// The verdicts.
const (
	Meets      Verdict = "meets"
	Fails      Verdict = "fails"
	CannotTell Verdict = "cannot tell" // parameters that fit the measurements equally well disagree
)

// Plan is the answer.
type Plan struct {
	Predicted   bool        `json:"predicted_not_measured"`
	Rate        float64     `json:"rate_per_s"`
	Load        string      `json:"load"`
	Objectives  []string    `json:"objectives"`
	Recommended *Candidate  `json:"recommended"` // null: nothing meets the objectives
	Candidates  []Candidate `json:"candidates"`  // best first
	Refused     []Refusal   `json:"refused,omitempty"`
}

// Refusal is something that was not tried, and why.
type Refusal struct {
	Profile string `json:"profile"`
	TP      int    `json:"tensor_parallel_size,omitempty"`
	Reason  string `json:"reason"`
}

// Candidate is one profile at one tensor parallel size, with the limits that let a replica take most.
type Candidate struct {
	Profile    string   `json:"profile"`
	Calibrated bool     `json:"calibrated"`
	GPU        string   `json:"gpu"`
	Shape               // of a replica
	Verdict    Verdict  `json:"verdict"`
	Replicas   int      `json:"replicas,omitempty"` // 0: no number of them is enough
	GPUs       int      `json:"gpus,omitempty"`
	Cost       *float64 `json:"cost_usd_per_hour,omitempty"`
	Limit      float64  `json:"max_rate_per_replica,omitempty"`
	Figures    []Figure `json:"objectives"`
	Breaks     *Break   `json:"breaks_first,omitempty"`
	Certain    int      `json:"replicas_certain,omitempty"` // with which every parameter vector meets all
	Vectors    int      `json:"parameter_vectors"`
	Requests   int      `json:"requests,omitempty"`        // simulated for each replica at the plan's rate
	Wanted     int      `json:"requests_wanted,omitempty"` // that the limit of a replica should rest on, where there were fewer
	Reason     string   `json:"reason,omitempty"`
	Command    string   `json:"command,omitempty"` // of every replica
	runner     *runner  // to ask it further
}

// Figure is an objective beside its prediction.
type Figure struct {
	Objective string  `json:"objective"`
	Unit      string  `json:"unit"`
	Bound     float64 `json:"bound"`
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"predicted_low"` // over all parameter vectors
	High      float64 `json:"predicted_high"`
	Margin    float64 `json:"margin_pct"` // of the bound; negative: not met
	Verdict   Verdict `json:"verdict"`
}

// Break is what fails first when the rate rises.
type Break struct {
	Objective string  `json:"objective"`
	Rate      float64 `json:"rate_per_s"` // over all replicas
	Reason    string  `json:"reason"`
}

// Make plans.
func Make(o Options) (*Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Plan{Predicted: true, Rate: o.Rate, Load: describe(o.Load)}
	for _, ob := range o.Objectives {
		p.Objectives = append(p.Objectives, ob.Text)
	}
	found, err := o.tryAll(p)
	if err != nil {
		return nil, err
	}
	p.Candidates = found
	slices.SortStableFunc(p.Candidates, better)
	if len(p.Candidates) > 0 && p.Candidates[0].Verdict != Fails {
		best := &p.Candidates[0]
		if err := best.makeCertain(o.Rate); err != nil {
			return nil, err
		}
		chosen := *best
		p.Recommended = &chosen
	}
	return p, nil
}

// check refuses what no plan can be made for.
func (o *Options) check() error {
	switch {
	case !(o.Rate > 0) || math.IsInf(o.Rate, 1):
		return fmt.Errorf("rate %g is not a number of requests per second above 0", o.Rate)
	case len(o.Objectives) == 0:
		return errors.New("a plan needs an objective, such as p99_ttft<500ms")
	case len(o.Servers) == 0:
		return errors.New("a plan needs a profile")
	case !(o.Burstiness > 0):
		return fmt.Errorf("burstiness %g is not above 0", o.Burstiness)
	}
	for _, ob := range o.Objectives {
		switch {
		case ob.Stat == "":
			return fmt.Errorf("objective %q: plans take latencies such as p99_ttft<500ms; the throughput follows from the rate", ob.Text)
		case !slices.Contains(figure.Latencies(), ob.Metric):
			return fmt.Errorf("objective %q: plans take %s, and the simulator has no %s", ob.Text, strings.Join(figure.Latencies(), ", "), ob.Metric)
		case ob.Op != "<" && ob.Op != "<=":
			return fmt.Errorf("objective %q: plans take upper bounds on latencies, with <", ob.Text)
		case ob.Bound == 0:
			return fmt.Errorf("objective %q: the bound must be above 0", ob.Text)
		}
	}
	return nil
}

// better orders candidates: those that meet, then by cost, GPUs, certainty and the rate they could take.
func better(a, b Candidate) int {
	fails := func(c *Candidate) int { return btoi(c.Verdict == Fails) }
	doubt := func(c *Candidate) int { return btoi(c.Verdict != Meets) }
	cost := func(c *Candidate) float64 {
		if c.Cost == nil {
			return 0
		}
		return *c.Cost
	}
	return cmp.Or(
		cmp.Compare(fails(&a), fails(&b)), cmp.Compare(cost(&a), cost(&b)), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(doubt(&a), doubt(&b)),
		cmp.Compare(float64(b.Replicas)*b.Limit, float64(a.Replicas)*a.Limit), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.TP, b.TP),
	)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// trial is one profile at one tensor parallel size.
type trial struct {
	server *Server
	tp     int
	found  *Candidate
	reason error
	err    error
}

// tryAll searches every profile and size, several at once; none depends on another.
func (o *Options) tryAll(p *Plan) ([]Candidate, error) {
	var list []*trial
	for _, s := range o.Servers {
		for _, tp := range s.sizes(o.TP) {
			list = append(list, &trial{server: s, tp: tp})
		}
	}
	w, err := newWorkload(o)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0))
	done := o.counter(len(list))
	for _, t := range list {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			t.found, t.reason, t.err = o.try(w, t.server, t.tp)
			done()
		})
	}
	wg.Wait()
	var out []Candidate
	for _, t := range list {
		switch {
		case t.err != nil:
			return nil, t.err
		case t.reason != nil:
			p.Refused = append(p.Refused, Refusal{Profile: t.server.Name, TP: t.tp, Reason: t.reason.Error()})
		default:
			out = append(out, *t.found)
		}
	}
	return out, nil
}

// counter tells how many of the trials are done, once at the beginning and then at every call.
func (o *Options) counter(total int) func() {
	if o.Progress == nil {
		return func() {}
	}
	var mu sync.Mutex
	done := 0
	o.Progress(done, total)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		o.Progress(done, total)
	}
}

// try finds the best limits of one profile at one size. reason says why it cannot be built at all.
func (o *Options) try(w *workload, s *Server, tp int) (c *Candidate, reason, err error) {
	best, reason, err := o.tune(w, s, tp)
	if reason != nil || err != nil {
		return nil, reason, err
	}
	v := best.variant
	c = &Candidate{
		Profile: s.Name, Calibrated: v.Calibrated, GPU: s.GPU, Shape: v.Shape, Vectors: len(v.Configs), Command: v.Command(), runner: best,
	}
	if best.limit < 0 {
		return c, nil, c.impossible()
	}
	c.Limit = rateAt(best.limit)
	c.Replicas = int(math.Ceil(o.Rate / c.Limit * (1 - 1e-12)))
	c.GPUs = c.Replicas * tp
	if s.Price > 0 {
		cost := s.Price * float64(c.GPUs)
		c.Cost = &cost
	}
	if err := c.judge(o.Rate); err != nil {
		return nil, nil, err
	}
	return c, nil, c.findBreak()
}

func describe(l *predict.Load) string {
	in, out := 0, 0
	for i := range l.Requests {
		for _, s := range l.Requests[i].Prompt {
			in += s.Len
		}
		out += l.Requests[i].Out
	}
	n := float64(max(1, len(l.Requests)))
	return fmt.Sprintf("prompts of %.0f and answers of %.0f tokens on average", float64(in)/n, float64(out)/n)
}
