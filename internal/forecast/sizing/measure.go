package sizing

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/judge/metrics"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
	"spate/internal/sim/cluster"
)

// How much is simulated at one rate: enough lifetimes of a request for the number in flight to
// settle, and enough requests for a high percentile.
const (
	lifetimes = 6
	longer    = 1.5 // times the life it was given for, from which a request's life calls for more of them
	fewest    = 400
	enough    = 1000   // requests, as long as their answers ...
	tokens    = 500000 // ... have no more tokens than this together
)

// gapRequests is the number of requests, evenly spread, whose inter-token latencies are looked at:
// each has hundreds, and those of one step are alike.
const gapRequests = 150

// keepUp is the share of arrivals that have to be answered while they come in. A queue that grows
// shows in latencies only after a while, in this at once.
const keepUp = 0.9

// queueGrows is what is said when they are not.
const queueGrows = "queue grows"

// workload is what one replica is sent, at any rate: the same requests with the same pattern of
// arrivals, only closer together. So the load of a replica grows with its rate and with nothing else.
type workload struct {
	requests   []predict.Request
	unit       []float64 // arrivals at one request per second
	objectives []figure.Objective
	gaps       bool // some objective bounds inter-token latency
	least      int  // requests to simulate
}

func newWorkload(o *Options) (*workload, error) {
	w := &workload{requests: o.Load.Requests, objectives: o.Objectives}
	if len(w.requests) < 10 {
		return nil, fmt.Errorf("%d requests are too few to plan with: ten at least", len(w.requests))
	}
	plan, err := schedule.VLLM(len(w.requests), 1, o.Burstiness, uint32(o.Seed))
	if err != nil {
		return nil, fmt.Errorf("placing the arrivals: %w", err)
	}
	for at := range plan.Due {
		w.unit = append(w.unit, at.Seconds())
	}
	out := 0
	for i := range w.requests {
		out += w.requests[i].Out
	}
	w.least = min(max(fewest, tokens*len(w.requests)/max(1, out)), enough)
	for _, ob := range o.Objectives {
		w.gaps = w.gaps || ob.Metric == string(config.ITL)
	}
	return w, nil
}

// measurement is what a replica showed at one rate.
type measurement struct {
	values []float64 // of the objectives
	served float64   // share of the arrivals answered while they came in
	life   float64   // seconds a request took on average
	peak   int       // most requests at the server at once
	failed string    // why requests could not be served
	sent   int       // requests that were simulated
	want   int       // requests that this rate would take to settle
}

// meets reports whether everything asked for holds, and otherwise what does not: that with the worst
// margin.
func (w *workload) meets(m *measurement) (ok bool, worst string) {
	if m.failed != "" {
		return false, m.failed
	}
	least := 0.0
	for i, o := range w.objectives {
		if !o.Met(m.values[i]) {
			if d := margin(o, m.values[i]); worst == "" || d < least {
				worst, least = o.Text, d
			}
		}
	}
	if worst == "" && m.served < keepUp {
		worst = queueGrows
	}
	return worst == "", worst
}

// margin is how far below its bound a value is, in percent of the bound.
func margin(o figure.Objective, v float64) float64 { return 100 * (o.Bound - v) / o.Bound }

// alone sends one request to an idle server, and says how long it took.
func (w *workload) alone(cfg cluster.Config) (*measurement, time.Duration, error) {
	typical := slices.Clone(w.requests)
	slices.SortFunc(typical, func(a, b predict.Request) int { return a.Out - b.Out })
	call := typical[len(typical)/2].Call
	call.At = 0
	res, err := simulate(cfg, slices.Values([]cluster.Call{call}))
	if err != nil {
		return nil, 0, err
	}
	return w.read(res, 0, 1), res.Duration, nil
}

// at sends requests at a rate; a request alone takes life. Under load it takes longer, and what looks
// well is looked at again for as many of those lives.
func (w *workload) at(cfg cluster.Config, rate float64, life time.Duration) (*measurement, error) {
	want := func(secs float64) int { return max(w.least, int(rate*lifetimes*secs)) }
	n := min(want(life.Seconds()), len(w.requests))
	for {
		m, err := w.send(cfg, rate, n)
		if err != nil || m.failed != "" {
			return m, err
		}
		m.sent, m.want = n, want(m.life)
		more := min(m.want, len(w.requests))
		switch ok, worst := w.meets(m); {
		case ok && float64(more) < longer*float64(n), !ok && worst != queueGrows, more <= n:
			return m, nil
		}
		n = more
	}
}

// send sends n requests at a rate.
func (w *workload) send(cfg cluster.Config, rate float64, n int) (*measurement, error) {
	last := w.unit[n-1]
	stretch := float64(n) / rate / last
	res, err := simulate(cfg, func(yield func(cluster.Call) bool) {
		for i := range n {
			c := w.requests[i].Call
			c.At = time.Duration(w.unit[i] * stretch * 1e9)
			if !yield(c) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	m := w.read(res, n/3, n-n/6) // neither while the server fills nor while it empties
	from, to := time.Duration(w.unit[n/3]*stretch*1e9), time.Duration(last*stretch*1e9)
	done := 0
	for i := range res.Requests {
		if r := &res.Requests[i]; r.Last > from && r.Last <= to {
			done++
		}
	}
	m.served, m.peak = float64(done)/float64(n-n/3), peak(res.Requests)
	return m, nil
}

// peak is the most requests that were at the server at once.
func peak(list []cluster.Request) int {
	var ends, starts []time.Duration
	for i := range list {
		starts, ends = append(starts, list[i].Sent), append(ends, list[i].Last)
	}
	slices.Sort(starts)
	slices.Sort(ends)
	most, gone := 0, 0
	for i, at := range starts {
		for gone < len(ends) && ends[gone] <= at {
			gone++
		}
		most = max(most, i+1-gone)
	}
	return most
}

func simulate(cfg cluster.Config, calls iter.Seq[cluster.Call]) (*cluster.Result, error) {
	server, err := cluster.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting a simulated server: %w", err)
	}
	res, err := server.Run(cluster.Load{Calls: calls})
	if err != nil {
		return nil, fmt.Errorf("simulating: %w", err)
	}
	return res, nil
}

// read computes the objectives' figures from some of the requests.
func (w *workload) read(res *cluster.Result, from, to int) *measurement {
	m := &measurement{served: 1}
	part := &cluster.Result{Requests: res.Requests, Duration: res.Duration}
	var times []time.Duration
	s := predict.Headline(part, func(r *cluster.Request) (metrics.Outline, bool) {
		o, ok := predict.Answered(r)
		if !ok {
			m.failed = "requests do not fit: " + r.Err
		}
		ok = ok && r.Index >= from && r.Index < to
		if ok && w.gaps && (r.Index-from)%max(1, (to-from)/gapRequests) == 0 {
			times = r.Times(times[:0])
			for k := 1; k < len(times); k++ {
				part.Gaps = append(part.Gaps, cluster.Gap{D: times[k] - times[k-1], N: 1})
			}
		}
		return o, ok
	}, metrics.Run{Percentiles: w.percentiles()})
	if m.failed != "" {
		return m
	}
	m.life = s.E2EL.Mean / 1e3
	for _, o := range w.objectives {
		v := o.Ref().Of(&s)
		if !v.OK {
			v.V = math.NaN()
		}
		m.values = append(m.values, v.V)
	}
	return m
}

// percentiles are those the objectives bound.
func (w *workload) percentiles() []float64 {
	var out []float64
	for _, o := range w.objectives {
		if o.IsPct {
			out = append(out, o.Pct)
		}
	}
	return out
}
