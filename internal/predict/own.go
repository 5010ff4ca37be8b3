package predict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"spate/internal/config"
	"spate/internal/metrics"
	"spate/internal/profile"
	"spate/internal/rng"
	"spate/internal/schedule"
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
}

// NewLoad makes the requests that spate bench would send, as far as a server's time depends on them:
// lengths, shared beginnings and due times, but no text.
func NewLoad(c *config.Bench) (*Load, error) {
	n := c.Load.NumPrompts
	if n <= 0 || n > maxPrompts {
		return nil, fmt.Errorf("--num-prompts has to be between 1 and %d for a prediction", maxPrompts)
	}
	if len(c.Load.Stages) > 0 || c.Load.RampUp != "" || c.Load.Duration > 0 {
		return nil, fmt.Errorf("predictions take --num-prompts with --request-rate or --max-concurrency; stages, ramps and durations are not predicted yet")
	}
	l := &Load{Rate: float64(c.Load.RequestRate), Seed: uint64(c.Load.Seed)}
	var err error
	if l.Requests, err = ownRequests(c, n); err != nil {
		return nil, err
	}
	if c.Load.MaxConcurrency != nil {
		l.Slots = *c.Load.MaxConcurrency
	}
	return l, l.due(c)
}

// due sets the times at which requests are due, as the client's schedule does.
func (l *Load) due(c *config.Bench) error {
	n := len(l.Requests)
	switch {
	case math.IsInf(l.Rate, 1) && l.Slots > 0:
		l.Text = fmt.Sprintf("closed loop, %d at a time", l.Slots)
		return nil
	case math.IsInf(l.Rate, 1):
		l.Text = fmt.Sprintf("%d requests at once", n)
		return nil
	}
	plan, err := schedule.VLLM(n, l.Rate, float64(c.Load.Burstiness), uint32(c.Load.Seed))
	if err != nil {
		return err
	}
	l.Text = fmt.Sprintf("%d requests at %g per second", n, l.Rate)
	i := 0
	for at := range plan.Due {
		l.Requests[i].At = at
		i++
	}
	return nil
}

// ownRequests draws the lengths of a dataset.
func ownRequests(c *config.Bench, n int) ([]Request, error) {
	d := &c.Dataset
	draw := rng.New(uint64(c.Load.Seed), "predict.own")
	between := func(length int, ratio float64) int {
		low, high := float64(length)*(1-ratio), float64(length)*(1+ratio)
		if d.Random.Meaning == config.RatioV6 {
			low, high = float64(length)*ratio, float64(length)
		}
		return max(1, int(math.Round(low))+draw.IntN(max(1, int(math.Round(high))-int(math.Round(low))+1)))
	}
	list := make([]Request, n)
	switch d.Name {
	case config.DatasetRandom:
		in, out := given(d.InputLen, d.Random.InputLen), given(d.OutputLen, d.Random.OutputLen)
		for i := range list {
			prompt := []kv.Segment{{Stream: uint64(i) + 1, Len: between(in, d.Random.RangeRatio.Input)}}
			if d.Random.PrefixLen > 0 {
				prompt = append([]kv.Segment{{Stream: freshStreams, Len: d.Random.PrefixLen}}, prompt...)
			}
			list[i].Call = cluster.Call{Prompt: prompt, Out: between(out, d.Random.RangeRatio.Output)}
		}
	case config.DatasetShareGPT:
		w := Workload{Completed: n, In: chatMeanIn * n, Out: given(d.OutputLen, chatMeanOut) * n}
		in, out := w.chat(draw)
		for i := range list {
			list[i].Call = cluster.Call{Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: in[i]}}, Out: out[i]}
		}
	default:
		return nil, fmt.Errorf("predictions know the lengths of the datasets random and sharegpt, not of %q", d.Name)
	}
	for i := range list {
		list[i].MaxOut = list[i].Out
	}
	return list, nil
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
	out.Low, out.High = bounds(all)
	return out, nil
}

func (l *Load) once(p *profile.Profile, c *profile.Cost, seed uint64) (*cluster.Result, Metrics, error) {
	server, err := cluster.New(p.Cluster(c, seed))
	if err != nil {
		return nil, nil, err
	}
	res, err := server.Run(cluster.Load{Calls: calls(l.Requests), Slots: l.Slots, Gap: time.Duration(c.Gap), Hold: c.Gap > 0})
	if err != nil {
		return nil, nil, fmt.Errorf("predicting with profile %s: %w", p.Name, err)
	}
	m := Metrics{}
	figures(m, res, l.Requests)
	return res, m, nil
}

// Plan is what the figures of a predicted run depend on beside its records.
func (l *Load) Plan(percentiles []float64) metrics.Run {
	return metrics.Run{
		Due: len(l.Requests), Requested: len(l.Requests), RequestRate: l.Rate, MaxConcurrency: l.Slots,
		Percentiles: slices.Clone(percentiles), Tokenizer: true, Seed: l.Seed,
	}
}
