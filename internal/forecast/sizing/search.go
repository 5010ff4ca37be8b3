package sizing

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Rates are tried on a fixed ladder, each step a little above the last. Because it does not depend on
// the rate asked for, neither does a replica's limit, and more rate never needs fewer replicas.
const (
	lowestRate = 0.001
	rung       = 1.02
	stride     = 70 // rungs that multiply the rate by four
	topRung    = 900
)

func rateAt(i int) float64 { return lowestRate * math.Pow(rung, float64(i)) }

func rungBelow(rate float64) int {
	return min(max(0, int(math.Log(rate/lowestRate)/math.Log(rung))), topRung)
}

// runner asks one variant how it does at some rate.
type runner struct {
	work    *workload
	variant *Variant
	life    time.Duration // of a request on an idle server
	idle    *measurement
	limit   int // the highest rung that meets all objectives; -1: none
	seen    map[int]*measurement
}

func newRunner(w *workload, v *Variant) (*runner, error) {
	r := &runner{work: w, variant: v, seen: map[int]*measurement{}, limit: -1}
	var err error
	r.idle, r.life, err = w.alone(v.Configs[0])
	if err != nil || r.idle.failed != "" {
		return r, err
	}
	for i, o := range w.objectives {
		if math.IsNaN(r.idle.values[i]) {
			return nil, fmt.Errorf("objective %q cannot be computed: answers of one token have no %s", o.Text, o.Metric)
		}
	}
	return r, nil
}

// meets tries one rung.
func (r *runner) meets(i int) (bool, error) {
	m := r.seen[i]
	if m == nil {
		var err error
		if m, err = r.work.at(r.variant.Configs[0], rateAt(i), r.life); err != nil {
			return false, err
		}
		r.seen[i] = m
	}
	ok, _ := r.work.meets(m)
	return ok, nil
}

// search finds the limit, starting at a rung: outwards in strides, then by halving.
func (r *runner) search(from, step int) error {
	if ok, _ := r.work.meets(r.idle); !ok {
		return nil // not even a request alone
	}
	good, bad := -1, topRung+1
	for i := from; ; {
		ok, err := r.meets(i)
		if err != nil {
			return err
		}
		if ok {
			good, i = i, min(i+step, topRung)
		} else {
			bad, i = i, max(i-step, 0)
		}
		if good >= 0 && bad <= topRung || good == topRung || bad == 0 {
			break
		}
	}
	for bad-good > 1 && good >= 0 && good < topRung {
		mid := (good + bad) / 2
		ok, err := r.meets(mid)
		if err != nil {
			return err
		}
		if ok {
			good = mid
		} else {
			bad = mid
		}
	}
	r.limit = good
	return nil
}

// tune finds the limits of a step with which a replica takes most: those of the profile first, then
// others, one flag at a time, each kept when a replica then takes more.
func (o *Options) tune(w *workload, s *Server, tp int) (best *runner, reason, err error) {
	first := Shape{TP: tp}
	if len(o.MaxSeqs) > 0 {
		first.MaxSeqs = o.MaxSeqs[0]
	}
	if len(o.MaxTokens) > 0 {
		first.MaxTokens = o.MaxTokens[0]
	}
	v, reason := s.variant(first)
	if reason != nil {
		return nil, reason, nil
	}
	if best, err = newRunner(w, v); err != nil {
		return nil, nil, err
	}
	if best.idle.failed == "" {
		err = best.search(rungBelow(0.5/best.life.Seconds()), stride)
	}
	if err != nil || best.limit < 0 {
		return best, nil, err
	}
	for _, tokens := range around(o.MaxTokens, v.MaxTokens, 16, 4, 2) {
		seqs := best.variant.MaxSeqs
		if len(o.MaxSeqs) == 0 {
			seqs = min(seqs, tokens) // engines refuse more
		}
		if best, err = best.orBetter(s, Shape{TP: tp, MaxSeqs: seqs, MaxTokens: tokens}); err != nil {
			return nil, nil, err
		}
	}
	for _, seqs := range around(o.MaxSeqs, v.MaxSeqs, 4, 2) {
		if m := best.seen[best.limit+1]; m != nil && min(seqs, best.variant.MaxSeqs) > m.peak {
			continue // neither is ever reached
		}
		if best, err = best.orBetter(s, Shape{TP: tp, MaxSeqs: seqs, MaxTokens: best.variant.MaxTokens}); err != nil {
			return nil, nil, err
		}
	}
	return best, nil, nil
}

// around are the values of a flag to try: those asked for, or some parts and multiples of its own.
func around(asked []int, own int, parts ...int) []int {
	if len(asked) > 0 {
		return asked
	}
	var out []int
	for _, p := range parts {
		out = append(out, own/p)
	}
	return append(out, own*2, own*4)
}

// orBetter is the runner of another shape if that takes a higher rate than this one.
func (r *runner) orBetter(s *Server, sh Shape) (*runner, error) {
	if sh == r.variant.Shape || sh.MaxSeqs < 1 || sh.MaxTokens < 1 || r.limit >= topRung {
		return r, nil
	}
	v, err := s.variant(sh)
	if err != nil {
		return r, nil //nolint:nilerr // an engine with these flags would not start: nothing to choose
	}
	other, err := newRunner(r.work, v)
	if err != nil {
		return nil, err
	}
	if ok, err := other.meets(r.limit + 1); err != nil || !ok {
		return r, err
	}
	return other, other.search(r.limit+1, 8)
}

// judge predicts the objectives at the plan's rate with every parameter vector.
func (c *Candidate) judge(rate float64) error {
	r := c.runner
	all, err := r.vectors(rate / float64(c.Replicas))
	if err != nil {
		return err
	}
	c.figures(all)
	c.Requests = all[0].sent
	for _, m := range append([]*measurement{r.seen[r.limit]}, all...) {
		if m != nil && m.sent == len(r.work.requests) && m.want > m.sent {
			c.Wanted = max(c.Wanted, m.want)
		}
	}
	if c.Verdict = verdict(r.work, all); c.Verdict == Fails {
		c.Verdict = CannotTell // it holds at a higher rate: the objective is within the simulation's own noise
	}
	return nil
}

// vectors measures every parameter vector at a replica's rate.
func (r *runner) vectors(rate float64) ([]*measurement, error) {
	var all []*measurement
	for _, cfg := range r.variant.Configs {
		m, err := r.work.at(cfg, rate, r.life)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// verdict is what all parameter vectors say together.
func verdict(w *workload, all []*measurement) Verdict {
	met := 0
	for _, m := range all {
		if ok, _ := w.meets(m); ok {
			met++
		}
	}
	switch met {
	case len(all):
		return Meets
	case 0:
		return Fails
	}
	return CannotTell
}

// figures puts the objectives beside their predictions.
func (c *Candidate) figures(all []*measurement) {
	c.Figures = nil
	for i, o := range c.runner.work.objectives {
		var values []float64
		met := 0
		for _, m := range all {
			if len(m.values) <= i {
				continue // it could not serve the requests
			}
			values = append(values, m.values[i])
			if o.Met(m.values[i]) {
				met++
			}
		}
		if len(values) == 0 {
			continue
		}
		f := Figure{
			Objective: o.Text, Unit: o.Unit, Bound: o.Bound, Predicted: values[0], Margin: margin(o, values[0]), Low: slices.Min(values),
			High: slices.Max(values), Verdict: CannotTell,
		}
		switch met {
		case len(values):
			f.Verdict = Meets
		case 0:
			f.Verdict = Fails
		}
		c.Figures = append(c.Figures, f)
	}
}

// impossible says why no number of replicas is enough.
func (c *Candidate) impossible() error {
	r := c.runner
	c.Verdict = Fails
	if r.idle.failed != "" {
		c.Reason = r.idle.failed
		return nil
	}
	var all []*measurement
	for _, cfg := range r.variant.Configs {
		m, _, err := r.work.alone(cfg)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	c.figures(all)
	ok, worst := r.work.meets(all[0])
	switch {
	case ok:
		_, worst = r.work.meets(r.seen[0])
		c.Reason = fmt.Sprintf("%s fails at any rate, although a typical request alone would meet it", worst)
	case verdict(r.work, all) == CannotTell:
		c.Reason = fmt.Sprintf("%s is not met by a request alone on an idle server; other parameters that fit as well would meet it", worst)
	default:
		c.Reason = fmt.Sprintf("%s is not met even by a request alone on an idle server: no number of replicas helps", worst)
	}
	return nil
}

// findBreak names what fails one rung above the limit.
func (c *Candidate) findBreak() error {
	r := c.runner
	if r.limit >= topRung {
		return nil
	}
	if _, err := r.meets(r.limit + 1); err != nil {
		return err
	}
	m := r.seen[r.limit+1]
	_, worst := r.work.meets(m)
	c.Breaks = &Break{Objective: worst, Rate: rateAt(r.limit+1) * float64(c.Replicas), Reason: "it is the first to fail when the rate rises"}
	if worst == queueGrows {
		c.Breaks.Reason = "requests come in faster than they are answered, and the queue grows"
	}
	return nil
}

// makeCertain looks for the number of replicas at which all parameter vectors meet the objectives.
func (c *Candidate) makeCertain(rate float64) error {
	if c.Verdict != CannotTell {
		return nil
	}
	bad, good := c.Replicas, 0
	for n := c.Replicas + 1; n <= 4*c.Replicas+2; n = max(n+1, n*5/4) {
		ok, err := c.certainAt(rate, n)
		if err != nil {
			return err
		}
		if ok {
			good = n
			break
		}
		bad = n
	}
	for good > 0 && good-bad > 1 {
		mid := (good + bad) / 2
		ok, err := c.certainAt(rate, mid)
		if err != nil {
			return err
		}
		if ok {
			good = mid
		} else {
			bad = mid
		}
	}
	c.Certain = good
	return nil
}

func (c *Candidate) certainAt(rate float64, n int) (bool, error) {
	all, err := c.runner.vectors(rate / float64(n))
	if err != nil {
		return false, err
	}
	return verdict(c.runner.work, all) == Meets, nil
}
