package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/forecast/profile"
	"spate/internal/judge/metrics"
)

// Recorded is what a measured run sent, from its records: the lengths that went over the wire and the
// times at which requests were sent.
func Recorded(recs []call.Record) ([]Sent, error) {
	var list []*call.Record
	for i := range recs {
		if r := &recs[i]; r.Phase == call.Measure && r.Outcome == call.OK && r.Out.N > 0 {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the run has no measured request that ended well")
	}
	slices.SortStableFunc(list, func(a, b *call.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	out := make([]Sent, len(list))
	for i, r := range list {
		out[i] = Sent{
			AtMS: call.Millis(r.Sent - list[0].Sent), In: max(1, r.In.N), Out: r.Out.N, Cached: max(0, r.Cached.N),
		}
		if r.AskedOut > r.Out.N {
			out[i].Limit = r.AskedOut
		}
	}
	return out, nil
}

// Replayed is the workload of a measured run, from its records.
func Replayed(recs []call.Record, slots *int) (*Load, error) {
	sent, err := Recorded(recs)
	if err != nil {
		return nil, err
	}
	w := Workload{Sent: sent}
	if slots != nil {
		w.Slots = *slots
	}
	return &Load{Rate: math.Inf(1), Text: "the recorded requests", Slots: w.Slots, Requests: w.replayed(0)}, nil
}

// compared are the figures that both a prediction and a measured run have.
var compared = append(figure.List("completed", "duration", "request_throughput", "output_throughput", "total_token_throughput"),
	figure.Stats("mean", "median", "p99")...)

// FromSummary are the figures of a run under vLLM's names.
func FromSummary(s *metrics.Summary) Metrics { return figure.Values(s, compared) }

// Comparison is a prediction beside a measurement of the same workload.
type Comparison struct {
	Figures []ComparedFigure `json:"figures"`
	Reasons []string         `json:"reasons"`
}

// ComparedFigure is one figure of a comparison.
type ComparedFigure struct {
	Name      string  `json:"name"`
	Predicted float64 `json:"predicted"`
	Low       float64 `json:"predicted_low"`
	High      float64 `json:"predicted_high"`
	Measured  float64 `json:"measured"`
	ErrorPct  float64 `json:"error_pct"`
}

// Compare puts a prediction beside measured figures and looks for the one mechanism that explains
// the gap best.
func Compare(l *Load, prof *profile.Profile, seed uint64, measured Metrics) (*Comparison, error) {
	own, err := l.Run(prof, seed, true)
	if err != nil {
		return nil, err
	}
	c := &Comparison{}
	for _, name := range Compared {
		pct, ok := errorPct(own.Metrics[name], measured[name])
		if !ok {
			continue
		}
		c.Figures = append(c.Figures, ComparedFigure{name, own.Metrics[name], own.Low[name], own.High[name], measured[name], round(pct, 2)})
	}
	gap := distance(own.Metrics, measured)
	if gap < closeEnough {
		c.Reasons = []string{"prediction and measurement agree"}
		return c, nil
	}
	if prof.Computed() {
		c.Reasons = []string{"the profile is computed from a datasheet and has no fitted coefficients to compare: spate calibrate makes one from rows of this server"}
		return c, nil
	}
	c.Reasons, err = explain(l, prof, seed, measured, gap)
	return c, err
}

// closeEnough is the mean squared logarithm of ratios that needs no explanation: some 3 %.
const closeEnough = 0.001

// explained are the figures a reason has to bring near.
var explained = []string{"output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_itl_ms"}

// distance is the mean squared logarithm of the ratios of figures.
func distance(a, b Metrics) float64 {
	sum, n := 0.0, 0
	for _, name := range explained {
		if a[name] > 0 && b[name] > 0 {
			sum += math.Pow(math.Log(a[name]/b[name]), 2)
			n++
		}
	}
	return sum / float64(max(1, n))
}

// mechanisms are what can be scaled, each alone.
var mechanisms = []struct {
	name  string
	scale func(c *profile.Cost, by float64)
}{
	{"the fixed cost of a step", func(c *profile.Cost, by float64) { c.Step.StepNS *= by; c.Step.MinNS *= by }},
	{"the cost of a prompt token", func(c *profile.Cost, by float64) { c.Step.PrefillNS *= by; c.Step.AttentionNS *= by }},
	{"the cost of a decoding sequence", func(c *profile.Cost, by float64) { c.Step.DecodeNS *= by }},
	{"the cost of reading KV", func(c *profile.Cost, by float64) { c.Step.KVNS *= by; c.Step.MixedKVNS *= by }},
	{"the front end's time per request", func(c *profile.Cost, by float64) { c.Front.RequestNS *= by; c.Front.BaseNS *= by }},
	{"the size of the KV cache", func(c *profile.Cost, by float64) { c.Blocks = int(float64(c.Blocks) * by) }},
}

// factors are the scalings that are tried.
var factors = []float64{0.25, 0.4, 0.6, 0.8, 0.9, 1.1, 1.25, 1.6, 2.5, 4}

// explain tries every mechanism alone.
func explain(l *Load, prof *profile.Profile, seed uint64, measured Metrics, gap float64) ([]string, error) {
	type reason struct {
		name    string
		by, gap float64
	}
	var list []reason
	for _, m := range mechanisms {
		best := reason{m.name, 1, gap}
		for _, by := range factors {
			c := prof.Cost
			m.scale(&c, by)
			_, got, err := l.once(prof, &c, seed)
			if err != nil {
				continue // such a server could not serve the load
			}
			if d := distance(got, measured); d < best.gap {
				best.by, best.gap = by, d
			}
		}
		list = append(list, best)
	}
	slices.SortStableFunc(list, func(a, b reason) int { return cmp.Compare(a.gap, b.gap) })
	var out []string
	for _, r := range list[:2] {
		if share := 1 - math.Sqrt(r.gap/gap); share > 0.1 {
			out = append(out, fmt.Sprintf("%s at %g times the profile's would explain %.0f %% of the gap", r.name, r.by, 100*share))
		}
	}
	if len(out) == 0 {
		out = []string{"no single mechanism explains the gap: check that profile, settings and prefix-cache hits are those of the server"}
	}
	return out, nil
}
