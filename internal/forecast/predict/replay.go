package predict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/judge/stats"
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
	figures(m, res, r.list)
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
func figures(m Metrics, res *cluster.Result, list []Request) {
	var ttft, tpot, e2e []float64
	in, out := 0, 0
	for i := range res.Requests {
		r := &res.Requests[i]
		if r.Failed {
			continue
		}
		got := r.Got - list[r.Index].Uncounted
		in += r.In
		out += got
		ttft = append(ttft, ms(r.First-r.Sent))
		e2e = append(e2e, ms(r.Last-r.Sent))
		if got > 1 {
			tpot = append(tpot, ms(r.Last-r.First)/float64(got-1))
		}
	}
	d := res.Duration.Seconds()
	n := float64(len(ttft))
	m["completed"], m["duration"] = n, d
	m["total_input_tokens"], m["total_output_tokens"] = float64(in), float64(out)
	m["request_throughput"], m["output_throughput"] = n/d, float64(out)/d
	m["total_token_throughput"], m["input_throughput"] = float64(in+out)/d, float64(in)/d
	distribution(m, "ttft", ttft)
	distribution(m, "tpot", tpot)
	distribution(m, "e2el", e2e)
	gapFigures(m, res.Gaps)
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func distribution(m Metrics, name string, xs []float64) {
	if len(xs) == 0 {
		return
	}
	slices.Sort(xs)
	m["mean_"+name+"_ms"] = stats.Mean(xs)
	m["median_"+name+"_ms"] = stats.SortedPercentile(xs, 50)
	m["p99_"+name+"_ms"] = stats.SortedPercentile(xs, 99)
}

// gapFigures are the inter-token latencies, whose number can be large: equal ones come counted.
func gapFigures(m Metrics, gaps []cluster.Gap) {
	total, sum := 0, 0.0
	for _, g := range gaps {
		total += g.N
		sum += float64(g.N) * ms(g.D)
	}
	if total == 0 {
		return
	}
	sorted := slices.Clone(gaps)
	slices.SortFunc(sorted, func(a, b cluster.Gap) int { return cmp.Compare(a.D, b.D) })
	m["mean_itl_ms"] = sum / float64(total)
	m["median_itl_ms"] = gapQuantile(sorted, total, 0.5)
	m["p99_itl_ms"] = gapQuantile(sorted, total, 0.99)
}

// gapQuantile interpolates between ranks as numpy does.
func gapQuantile(sorted []cluster.Gap, total int, p float64) float64 {
	x := p * float64(total-1)
	low := int(math.Floor(x))
	a, b := rank(sorted, low), rank(sorted, min(low+1, total-1))
	return a + (x-float64(low))*(b-a)
}

func rank(sorted []cluster.Gap, k int) float64 {
	for _, g := range sorted {
		if k < g.N {
			return ms(g.D)
		}
		k -= g.N
	}
	return 0
}
