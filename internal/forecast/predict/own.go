package predict

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/judge/metrics"
	"spate/internal/load/build"
	"spate/internal/load/schedule"
	"spate/internal/rng"
	"spate/internal/settings/config"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
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
	source   Source        // of more requests, for a closed loop that ends by time
	asked    int           // requests the user asked for, 0: as many as the time allows
	due      bool          // requests have times
	sent     int           // requests sent in the run predicted last
}

// Source makes the first n requests of a workload, fewer where it has no more. They have no due times.
type Source func(n int) ([]Request, error)

// NewLoad makes the requests that spate bench would send, as far as a server's time depends on them:
// lengths, shared beginnings and due times, but no text.
func NewLoad(c *config.Bench) (*Load, error) {
	return NewLoadFrom(c, func(n int) ([]Request, error) { return ownRequests(c, n) })
}

// NewLoadFrom is NewLoad with requests from elsewhere: datasets that only a file knows.
func NewLoadFrom(c *config.Bench, source Source) (*Load, error) {
	n := c.Load.NumPrompts
	if n < 0 || n > maxPrompts {
		return nil, fmt.Errorf("--num-prompts has to be between 1 and %d for a prediction", maxPrompts)
	}
	l := &Load{Rate: float64(c.Load.RequestRate), Seed: uint64(c.Load.Seed), Grace: c.Load.GracePeriod, source: source}
	if n == 0 && c.Dataset.Name == config.DatasetCustom && c.Load.Duration == 0 && len(c.Load.Stages) == 0 {
		list, err := source(maxPrompts) // every row of the file
		if err != nil {
			return nil, err
		}
		n = len(list)
	}
	a, err := build.NewArrivals(&c.Load, n)
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
		return errors.New("nobody would send a request: the time is over before the first is due")
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
	if l.Requests, err = l.source(n); err != nil {
		return err
	}
	if len(l.Requests) == 0 {
		return errors.New("the dataset gives no request")
	}
	return nil
}

// ownRequests draws the lengths of a dataset.
func ownRequests(c *config.Bench, n int) ([]Request, error) {
	d := &c.Dataset
	draw := rng.New(uint64(c.Load.Seed), "predict.own")
	list := make([]Request, n)
	switch d.Name {
	case config.DatasetRandom:
		in, out := given(d.InputLen, d.Random.InputLen), given(d.OutputLen, d.Random.OutputLen)
		for i := range list {
			prompt := []kv.Segment{{Stream: uint64(i) + 1, Len: between(draw, d, in, d.Random.RangeRatio.Input)}}
			if d.Random.PrefixLen > 0 {
				prompt = append([]kv.Segment{{Stream: freshStreams, Len: d.Random.PrefixLen}}, prompt...)
			}
			list[i].Call = cluster.Call{Prompt: prompt, Out: between(draw, d, out, d.Random.RangeRatio.Output)}
		}
	case config.DatasetShareGPT:
		w := Workload{Completed: n, In: chatMeanIn * n, Out: given(d.OutputLen, chatMeanOut) * n}
		in, out := w.chat(draw)
		for i := range list {
			list[i].Call = cluster.Call{Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: in[i]}}, Out: out[i]}
		}
	default:
		return nil, fmt.Errorf("the lengths of dataset %q are known to its file only, and none was read", d.Name)
	}
	for i := range list {
		list[i].MaxOut = list[i].Out
	}
	return list, nil
}

// between draws a length around another, in the meaning the ratio has.
func between(draw *rand.Rand, d *config.Dataset, length int, ratio float64) int {
	low, high := float64(length)*(1-ratio), float64(length)*(1+ratio)
	if d.Random.Meaning == config.RatioV6 {
		low, high = float64(length)*ratio, float64(length)
	}
	return max(1, int(math.Round(low))+draw.IntN(max(1, int(math.Round(high))-int(math.Round(low))+1)))
}

// Mean lengths of ShareGPT conversations as benchmark clients pick them.
const (
	chatMeanIn  = 226
	chatMeanOut = 199
)

func given(v *int, other int) int {
	if v != nil {
		return *v
	}
	return other
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
	l.sent = len(res.Requests)
	out.Low, out.High = bounds(all)
	return out, nil
}

// once simulates the load. A closed loop that ends by time is given more requests until some are left.
func (l *Load) once(p *profile.Profile, c *profile.Cost, seed uint64) (*cluster.Result, Metrics, error) {
	for {
		server, err := cluster.New(p.Cluster(c, seed))
		if err != nil {
			return nil, nil, err
		}
		res, err := server.Run(l.to(c))
		if err != nil {
			return nil, nil, fmt.Errorf("predicting with profile %s: %w", p.Name, err)
		}
		if n := len(l.Requests); l.endless() && len(res.Requests) == n && n < maxPrompts {
			if err := l.take(min(2*n, maxPrompts)); err != nil {
				return nil, nil, err
			}
			if len(l.Requests) > n {
				continue
			}
		}
		m := Metrics{}
		figures(m, res, l.Requests)
		return res, m, nil
	}
}

// to is the load as a cluster takes it.
func (l *Load) to(c *profile.Cost) cluster.Load {
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
		Due: l.sent, Requested: l.asked, RequestRate: l.Rate, MaxConcurrency: l.Slots,
		Percentiles: slices.Clone(percentiles), Tokenizer: true, Seed: l.Seed,
	}
}
