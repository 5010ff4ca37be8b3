package predict

import (
	"fmt"
	"math"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/sim/cluster"
	"spate/internal/sim/latency"
)

// past is what a server process did that no row tells.
type past struct {
	before *run // a run of another row's workload, ahead of all
	again  bool // the first run, once more
}

// guesses lists what may have happened: nothing else, the first run was made twice, or a smaller run of
// the table came before it.
func (p *Process) guesses() []past {
	list := []past{{}, {again: true}}
	for i := range p.smaller {
		list = append(list, past{before: &p.smaller[i]})
	}
	return list
}

// smallerRuns are the runs whose prompts begin like those of a process's first run, of each size once.
func smallerRuns(first *run, all []run) []run {
	var out []run
	sizes := map[int]bool{}
	w := &first.row.Workload
	for _, r := range all {
		v := &r.row.Workload
		if v.repeats() && v.Input == w.Input && v.Output == w.Output && v.Prompts < w.Prompts && !sizes[v.Prompts] {
			sizes[v.Prompts] = true
			out = append(out, r)
		}
	}
	return out
}

// recallCost is the speed of the server on which histories are tried; hit rates hardly depend on it.
var recallCost = latency.Reference{StepNS: 10e6, PrefillNS: 8e4, DecodeNS: 1e5, KVNS: 20}

// telling is how many points nearer to the log a history must come than a simpler one.
const telling = 0.2

// Recall settles what the process did before its first row: what comes nearest to the prefix hit rates
// in the first log lines there are. Without any, the first of several runs was made twice.
func (p *Process) Recall(prof *profile.Profile) error {
	logged := -1
	for i := range p.runs {
		if len(p.runs[i].row.Log) > 0 {
			logged = i
			break
		}
	}
	if logged < 0 || p.runs[0].row.Process == "" || !p.runs[0].row.Workload.repeats() {
		return nil
	}
	best := math.Inf(1)
	for _, g := range p.guesses() {
		miss, err := p.missed(prof, g, logged)
		if err != nil {
			return fmt.Errorf("recalling what ran before row %s: %w", p.runs[0].row.ID, err)
		}
		if miss < best-telling {
			best, p.past = miss, g
		}
	}
	return nil
}

// missed is how far a history's hit rates are from those logged during one of the runs, on average.
func (p *Process) missed(prof *profile.Profile, g past, logged int) (float64, error) {
	logging := *prof
	logging.Sim.CountRetries = countsRetries(prof.Engine.Version)
	cfg := logging.Cluster(&profile.Cost{Blocks: prof.Cost.Blocks, Step: recallCost}, 0)
	cfg.Log = time.Second
	server, err := cluster.New(cfg)
	if err != nil {
		return 0, err
	}
	var last []cluster.Sample
	for _, r := range (&Process{runs: p.runs[:logged+1], past: g}).played() {
		if _, err := server.Run(cluster.Load{Calls: calls(r.list[:1])}); err != nil {
			return 0, err
		}
		res, err := server.Run(cluster.Load{Calls: calls(r.list)})
		if err != nil {
			return 0, err
		}
		last = res.Samples
	}
	sum := 0.0
	lines := p.runs[logged].row.Log
	for _, l := range lines {
		sum += math.Abs(100*hitAt(last, l) - l.Hit)
	}
	return sum / float64(len(lines)), nil
}

// countsRetries reports whether a version of vLLM logs every attempt to admit a request as a query of the
// prefix cache. Replays leave it out, for it changes nothing but the log, and slows them down.
func countsRetries(version string) bool {
	major, minor := 0, 0
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && major == 0 && minor < 11
}

// hitAt is the hit rate at the moment most like a log line's.
func hitAt(samples []cluster.Sample, l LogSample) float64 {
	best, rate := math.MaxInt, 0.0
	for _, s := range samples {
		d := max(s.Running-l.Running, l.Running-s.Running) + max(s.Waiting-l.Waiting, l.Waiting-s.Waiting)
		if d <= best {
			best, rate = d, s.HitRate
		}
	}
	return rate
}

// played lists the runs in the order in which they were made, unrecorded ones included. The figures of
// a row are those of its first time.
func (p *Process) played() []run {
	var out []run
	hidden := func(r run) run { r.keep = false; return r }
	if p.past.before != nil {
		out = append(out, hidden(*p.past.before))
	}
	for i, r := range p.runs {
		out = append(out, r)
		if i == 0 && p.past.again {
			out = append(out, hidden(r))
		}
	}
	return out
}
