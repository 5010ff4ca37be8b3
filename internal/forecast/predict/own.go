package predict

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/judge/metrics"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
	"spate/internal/sim/cluster"
)

// Load is a workload of the user's own.
type Load struct {
	Requests []Request
	Slots    int
	Text     string // one line for people
	Rate     float64
	Seed     uint64
	Until    time.Duration // nothing is sent at or after this time; 0: no bound
	Grace    time.Duration // what is under way then may take this much longer; negative: for ever
	source   source        // of more requests, for a closed loop that ends by time
	asked    int           // requests the user asked for, 0: as many as the time allows
	due      bool          // requests have times
	sent     int           // requests sent in the run predicted last
	took     time.Duration // how long that was
	tenants  []*Load       // of a run of several: each sends its own requests, and this load only says what they amount to
}

// join is what the tenants of a run send at the same time. A plain run has one.
func join(c *config.Bench, tenants []*Load) *Load {
	if len(c.Tenants) == 0 {
		return tenants[0]
	}
	out := &Load{Rate: float64(c.Load.RequestRate), Seed: uint64(c.Load.Seed), asked: c.Load.NumPrompts, tenants: tenants}
	if c.Load.MaxConcurrency != nil {
		out.Slots = *c.Load.MaxConcurrency
	}
	var lines []string
	for _, t := range tenants {
		lines = append(lines, t.Text)
	}
	out.Text = c.Describe(lines)
	return out
}

// parts are the loads that send: the tenants', or the only one.
func (l *Load) parts() []*Load {
	if l.tenants != nil {
		return l.tenants
	}
	return []*Load{l}
}

// NewLoad makes the requests that spate bench would send for the same settings: lengths, shared beginnings and due
// times.
func NewLoad(c *config.Bench, p Prompts) (*Load, error) {
	if n := c.Load.NumPrompts; n < 0 || n > maxPrompts {
		return nil, fmt.Errorf("--num-prompts has to be between 1 and %d for a prediction", maxPrompts)
	}
	if c.Dataset.Kind().Talks {
		return nil, errors.New("conversations are not predicted: what a turn sends depends on the answer before it")
	}
	l := &Load{Rate: float64(c.Load.RequestRate), Seed: uint64(c.Load.Seed), Grace: c.Load.GracePeriod, source: newSource(c, p)}
	n, times, err := l.source.count()
	if err != nil {
		return nil, err
	}
	a, err := c.Arrivals(n, func() ([]time.Duration, error) { return times, nil }).Arrivals()
	if err != nil {
		return nil, err
	}
	l.Text, l.Slots, l.Until = a.Text, a.Plan.Slots, a.Plan.Until
	return l, l.schedule(&a.Plan, n)
}

// schedule makes the requests and sets the times at which they are due, as the client's schedule does.
func (l *Load) schedule(plan *schedule.Plan, n int) error {
	l.asked, l.due = n, plan.Due != nil
	if !l.due { // a closed loop
		if n == 0 {
			n = min(maxPrompts, firstGuess*l.Slots)
		}
		return l.take(n)
	}
	var times []time.Duration
	for at := range plan.Due {
		if len(times) >= maxPrompts {
			return fmt.Errorf("more than %d requests: too many for a prediction", maxPrompts)
		}
		times = append(times, at)
	}
	if len(times) == 0 {
		return errors.New("no request would be sent: the time ends before the first is due")
	}
	if err := l.take(len(times)); err != nil {
		return err
	}
	for i := range l.Requests {
		l.Requests[i].At = times[i]
	}
	return nil
}

// firstGuess is the number of requests per place with which a closed loop that ends by time begins.
const firstGuess = 64

// take makes the first n requests.
func (l *Load) take(n int) error {
	var err error
	if l.Requests, err = l.source.first(n); err != nil {
		return err
	}
	if len(l.Requests) == 0 {
		return errors.New("the dataset gives no request")
	}
	return nil
}

// Own is a predicted run.
type Own struct {
	Result  *cluster.Result
	Metrics Metrics
	Low     Metrics // of all parameter vectors within noise
	High    Metrics
}

// Run predicts a workload on a fresh server, and with every other vector of the profile's set.
func (l *Load) Run(p *profile.Profile, seed uint64, intervals bool) (*Own, error) {
	res, m, err := l.once(p, &p.Cost, seed)
	if err != nil {
		return nil, err
	}
	out := &Own{Result: res, Metrics: m}
	all := []Metrics{m}
	for i := range p.Set {
		if !intervals {
			break
		}
		_, m, err := l.once(p, &p.Set[i], seed)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	l.sent, l.took = len(res.Requests), res.Duration
	for k, part := range l.tenants {
		part.sent, part.took = sentBy(res, k)
	}
	out.Low, out.High = bounds(all)
	return out, nil
}

// once simulates the load. A closed loop that ends by time is given more requests until some are left.
func (l *Load) once(p *profile.Profile, c *profile.Cost, seed uint64) (*cluster.Result, Metrics, error) {
	for {
		server, err := cluster.New(p.Cluster(c, seed))
		if err != nil {
			return nil, nil, fmt.Errorf("predicting with profile %s: %w", p.Name, err)
		}
		res, err := server.Run(l.to(c))
		if err != nil {
			return nil, nil, fmt.Errorf("predicting with profile %s: %w", p.Name, err)
		}
		if more, err := l.grow(res); err != nil {
			return nil, nil, err
		} else if more {
			continue
		}
		m, parts := Metrics{}, l.parts()
		figures(m, res, func(r *cluster.Request) *Request { return &parts[r.Client].Requests[r.Index] })
		return res, m, nil
	}
}

// grow gives more requests to who sent all and would have gone on, and reports whether there were any.
func (l *Load) grow(res *cluster.Result) (more bool, err error) {
	for k, p := range l.parts() {
		n := len(p.Requests)
		if sent, _ := sentBy(res, k); !p.endless() || sent < n || n >= maxPrompts {
			continue
		}
		if err := p.take(min(2*n, maxPrompts)); err != nil {
			return false, err
		}
		more = more || len(p.Requests) > n
	}
	return more, nil
}

// sentBy is how many requests a client sent, and when the last of them ended.
func sentBy(res *cluster.Result, client int) (n int, end time.Duration) {
	for i := range res.Requests {
		if r := &res.Requests[i]; r.Client == client {
			n, end = n+1, max(end, r.Last)
		}
	}
	return n, end
}

// to is the load as a cluster takes it.
func (l *Load) to(c *profile.Cost) cluster.Load {
	var all []cluster.Load
	for _, p := range l.parts() {
		all = append(all, p.alone(c))
	}
	all[0].Beside = all[1:]
	return all[0]
}

func (l *Load) alone(c *profile.Cost) cluster.Load {
	to := cluster.Load{Calls: calls(l.Requests), Slots: l.Slots, Gap: time.Duration(c.Gap), Hold: c.Gap > 0, Until: l.Until}
	if l.Until > 0 && l.Grace >= 0 {
		to.Cancel = l.Until + l.Grace
	}
	return to
}

// endless reports whether only the time ends a closed loop.
func (l *Load) endless() bool { return l.Until > 0 && !l.due && l.asked == 0 }

// Plan is what the figures of the run predicted last depend on beside its records.
func (l *Load) Plan(percentiles []float64) metrics.Run {
	return metrics.Run{
		End: l.took, Due: l.sent, Requested: l.asked, RequestRate: l.Rate, MaxConcurrency: l.Slots,
		Percentiles: slices.Clone(percentiles), Tokenizer: true, Seed: l.Seed,
	}
}
