package predict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/judge/metrics"
	"spate/internal/sim/cluster"
)

// Process is the runs of one server process, in the order in which they were made.
type Process struct {
	Group   string
	runs    []run
	past    past
	smaller []run // of the file, that may have come before
}

// run is a row ready to be replayed.
type run struct {
	row  *Row
	list []Request
	keep bool // its figures are wanted
}

// Processes sorts rows into server processes, and prepares their requests. Rows that name no process
// have one of their own.
func Processes(f *File) []*Process {
	var out []*Process
	index := map[string]*Process{}
	for i := range f.Rows {
		r := &f.Rows[i]
		name := r.Process
		if name == "" {
			name = "row " + r.ID
		}
		p := index[name]
		if p == nil {
			p = &Process{Group: r.Group}
			index[name] = p
			out = append(out, p)
		}
		p.runs = append(p.runs, run{row: r, list: r.Workload.Requests(uint64(i)), keep: true})
	}
	var all []run
	for _, p := range out {
		all = append(all, p.runs...)
	}
	for _, p := range out {
		slices.SortStableFunc(p.runs, func(a, b run) int { return cmp.Compare(a.row.Order, b.row.Order) })
		p.past.again = len(p.runs) > 1 && !p.runs[0].row.Known
		p.smaller = smallerRuns(&p.runs[0], all)
	}
	return out
}

// Rows lists the rows whose figures are wanted.
func (p *Process) Rows() []*Row {
	var out []*Row
	for i := range p.runs {
		if p.runs[i].keep {
			out = append(out, p.runs[i].row)
		}
	}
	return out
}

// Only is the process with figures wanted for some rows; runs after the last of them are left out.
// It is nil when none is wanted.
func (p *Process) Only(want func(*Row) bool) *Process {
	out := &Process{Group: p.Group, past: p.past, smaller: p.smaller}
	last := -1
	for i, r := range p.runs {
		r.keep = want(r.row)
		out.runs = append(out.runs, r)
		if r.keep {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	out.runs = out.runs[:last+1]
	return out
}

// Replay runs the process on a fresh server, with what it did before (see Recall). The clients of the
// reference reports sent one request ahead of each run.
func (p *Process) Replay(prof *profile.Profile, cost *profile.Cost, seed uint64) (map[string]Metrics, error) {
	server, err := cluster.New(prof.Cluster(cost, seed))
	if err != nil {
		return nil, err
	}
	out := map[string]Metrics{}
	for _, r := range p.played() {
		m, err := replayOne(server, cost, &r)
		if err != nil {
			return nil, fmt.Errorf("replaying row %s: %w", r.row.ID, err)
		}
		if r.keep {
			out[r.row.ID] = m
		}
	}
	return out, nil
}

func replayOne(server *cluster.Cluster, cost *profile.Cost, r *run) (Metrics, error) {
	m := Metrics{}
	if r.row.Process != "" || r.row.Workload.WarmupS > 0 {
		alone, err := server.Run(cluster.Load{Calls: calls(r.list[:1])})
		if err != nil {
			return nil, err
		}
		m["warmup_time_s"] = alone.Duration.Seconds()
	}
	res, err := server.Run(cluster.Load{Calls: calls(r.list), Slots: r.row.Workload.Slots, Gap: time.Duration(cost.Gap), Hold: cost.Gap > 0})
	if err != nil {
		return nil, err
	}
	figures(m, res, func(one *cluster.Request) *Request { return &r.list[one.Index] })
	return m, nil
}

// calls is a list of requests as a sequence, each due no earlier than the start.
func calls(list []Request) func(func(cluster.Call) bool) {
	return func(yield func(cluster.Call) bool) {
		for i := range list {
			c := list[i].Call
			if len(list) == 1 {
				c.At = 0
			}
			if !yield(c) {
				return
			}
		}
	}
}

// figures are what vLLM's client would have printed.
func figures(m Metrics, res *cluster.Result, sent func(*cluster.Request) *Request) {
	s := Headline(res, func(r *cluster.Request) (metrics.Outline, bool) {
		o, ok := Answered(r)
		o.Out -= sent(r).Uncounted
		return o, ok
	}, metrics.Run{})
	maps.Copy(m, FromSummary(&s))
	m["total_input_tokens"], m["total_output_tokens"] = float64(s.TotalInput), float64(s.TotalOutput)
	m["input_throughput"] = float64(s.TotalInput) / s.DurationS
}

// Headline are the figures of a simulated run, of the requests that pick outlines.
func Headline(res *cluster.Result, pick func(*cluster.Request) (metrics.Outline, bool), run metrics.Run) metrics.Summary {
	list := make([]metrics.Outline, 0, len(res.Requests))
	for i := range res.Requests {
		if o, ok := pick(&res.Requests[i]); ok {
			list = append(list, o)
		}
	}
	gaps := make([]metrics.Gap, len(res.Gaps))
	for i, g := range res.Gaps {
		gaps[i] = metrics.Gap(g)
	}
	run.End = res.Duration
	return metrics.Headline(list, gaps, run)
}

// Answered outlines a request that was answered.
func Answered(r *cluster.Request) (metrics.Outline, bool) {
	return metrics.Outline{First: r.First - r.Sent, Latency: r.Last - r.Sent, In: r.In, Out: r.Got}, !r.Failed
}
