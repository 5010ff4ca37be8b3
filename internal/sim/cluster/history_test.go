package cluster

import (
	_ "embed"
	"encoding/json"
	"math"
	"testing"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/kv"
	"spate/internal/sim/latency"
)

//go:embed testdata/history.json
var historyData []byte

// history is a server process, the runs made against it and what it logged.
type history struct {
	Process string
	KV      int `json:"kv_tokens"`
	Assumed string
	Runs    []pastRun
}

type pastRun struct {
	ID        string
	Prompts   int
	In, Out   int
	TotalOut  int `json:"total_out"`
	Completed int
	Log       []struct {
		Running, Waiting int
		Hit              float64 `json:"hit_pct"`
	}
}

// shortBy is how many tokens prompts lack of their nominal length in all, up to an index. Prompts are
// random tokens that were decoded and encoded again and then cut; few come out shorter.
var shortBy = map[int][]int{
	1024: {1, 223, 260, 793, 1586, 2354, 2354},
	4096: {8, 336, 552, 552, 552, 552, 552},
	7168: {1, 20, 271, 271, 271, 271, 271},
}

var upTo = []int{0, 10, 50, 100, 200, 500, 1000, 2000}

// length is the length of prompt number i: the known totals, spread over few prompts.
func length(nominal, i int) int {
	const each = 60
	t := shortBy[nominal]
	for r := range t {
		if i >= upTo[r+1] {
			continue
		}
		lack := t[r]
		if r > 0 {
			lack -= t[r-1]
		}
		return nominal - min(each, max(0, lack-each*(i-upTo[r])))
	}
	return nominal
}

// calls are the prompts of a run. Prompt i of all runs begins alike. Some end by themselves: as few as
// can make up what the total lacks, which is how many the logs show missing. Requests that are preempted
// ask for their blocks in every step until they get them, so where those end decides on the hit rate.
func (r pastRun) calls() []Call {
	lack := max(0, r.Completed*r.Out-r.TotalOut)
	early := (lack + r.Out - 2) / max(1, r.Out-1)
	n := max(1, r.Prompts)
	list := make([]Call, n)
	for i := range list {
		list[i] = Call{Prompt: []kv.Segment{{Stream: uint64(i + 1), Len: length(r.In, i)}}, Out: r.Out, Stops: true}
	}
	for j := range min(early, n) { // spread over the run, and as far apart in length as can be
		mean := lack / early
		list[(j*n+n/2)/early].Out -= mean + (r.Out-1-mean)*(2*j+1-early)/early
	}
	return list
}

// TestHistories replays four server processes run by run and compares the prefix hit rates with the
// ones vLLM logged. The prefix cache survives between runs, so each depends on all before it.
func TestHistories(t *testing.T) {
	var all []history
	if err := json.Unmarshal(historyData, &all); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, h := range all {
		cfg := one(sim.Config{
			Policy: sim.V1, MaxSeqs: 256, MaxTokens: 2048, MaxModelLen: 16384, BlockSize: 16, Blocks: h.KV / 16,
			PrefixCaching: true, NullBlock: true, CountRetries: true,
		}, &latency.Reference{StepNS: 10.5e6, PrefillNS: 8e4, DecodeNS: 1.1e5, KVNS: 21})
		cfg.Log = time.Second
		c := mustNew(t, cfg)
		for _, run := range h.Runs {
			list := run.calls()
			mustRun(t, c, Load{Calls: Calls(list[:1])}) // the client's test request
			if run.Prompts == 0 {
				continue
			}
			res := mustRun(t, c, Load{Calls: Calls(list)})
			for _, l := range run.Log {
				lines++
				got := hitAt(res.Samples, l.Running, l.Waiting)
				const bound = 0.2 + 0.05 // the log has one decimal
				if diff := 100*got - l.Hit; math.Abs(diff) > bound {
					t.Errorf("%s: hit rate %.2f, logged %.1f with %d running and %d waiting", run.ID, 100*got, l.Hit, l.Running, l.Waiting)
				}
			}
		}
		if err := c.Engine(0).Check(); err != nil {
			t.Errorf("%s: %v", h.Process, err)
		}
	}
	if lines != 22 {
		t.Errorf("%d log lines compared, want 22", lines)
	}
}

// hitAt is the hit rate at the moment most like the logged one.
func hitAt(samples []Sample, running, waiting int) float64 {
	best, rate := math.MaxInt, math.NaN()
	for _, s := range samples {
		d := max(s.Running-running, running-s.Running) + max(s.Waiting-waiting, waiting-s.Waiting)
		if d <= best { // the later one: queues grow in the end as they shrink at first
			best, rate = d, s.HitRate
		}
	}
	return rate
}
