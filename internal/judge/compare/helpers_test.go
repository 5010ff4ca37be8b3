package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/result"
	"spate/internal/rng"
)

// server is a made-up server: latencies of a queue that remembers, with a long right side.
type server struct {
	ttft, itl float64 // ms
	slow      float64 // factor on everything
	memory    float64 // autocorrelation of neighbouring requests
	noise     float64 // sigma of the log of a request's latency
	drift     float64 // sigma of the log of a whole run
	requests  int
	tokens    int
	slots     int // of the closed loop
	workload  uint64
}

func usual() server {
	return server{ttft: 80, itl: 10, slow: 1, memory: 0.5, noise: 0.25, requests: 400, tokens: 12, slots: 8, workload: 1}
}

// run measures the server once. The workload's seed fixes lengths, the run's everything else.
func (s server) run(t testing.TB, name string, seed uint64) Sample {
	t.Helper()
	load, r := rng.New(s.workload, "lengths"), rng.New(seed, "run")
	whole := s.slow * math.Exp(s.drift*normal(r.Float64, r.Float64))
	free := make([]float64, s.slots) // when each slot is, in ms
	recs := make([]call.Record, 0, s.requests)
	state := normal(r.Float64, r.Float64)
	for i := range s.requests {
		state = s.memory*state + math.Sqrt(1-s.memory*s.memory)*normal(r.Float64, r.Float64)
		long := 0.5 + load.Float64() // what this prompt costs on any server
		k := 0
		for j := range free {
			if free[j] < free[k] {
				k = j
			}
		}
		rec := call.NewRecord(&call.Request{ID: i, Phase: call.Measure, In: call.Count{N: int(100 * long)}, MaxOut: s.tokens})
		at := free[k]
		stamp := func() time.Duration { return time.Duration(at * float64(time.Millisecond)) }
		rec.Due, rec.Dispatched, rec.Started, rec.Sent = stamp(), stamp(), stamp(), stamp()
		at += whole * s.ttft * long * math.Exp(s.noise*state)
		for c := range s.tokens {
			if c > 0 {
				at += whole * s.itl * (0.95 + 0.1*r.Float64()) * math.Exp(0.2*s.noise*state)
			}
			rec.Chunks = append(rec.Chunks, call.Chunk{At: stamp(), Tokens: 1, Kind: call.Visible})
		}
		rec.FirstToken, rec.LastToken, rec.LastEvent, rec.End = rec.Chunks[0].At, stamp(), stamp(), stamp()
		rec.In, rec.Out = call.Count{N: int(100 * long), From: call.FromServer}, call.Count{N: s.tokens, From: call.FromServer}
		rec.Outcome = call.OK
		free[k] = at
		recs = append(recs, rec)
	}
	return sampleOf(name, recs, s.slots)
}

// normal turns two uniform numbers into a normal one.
func normal(a, b func() float64) float64 {
	return math.Sqrt(-2*math.Log(1-a())) * math.Cos(2*math.Pi*b())
}

// sampleOf makes a run of records, with settings as bench writes them.
func sampleOf(name string, recs []call.Record, slots int) Sample {
	cfg := fmt.Sprintf(`{"load":{"num_prompts":%d,"seed":0},"dataset":{"name":"random"},"target":{"backend":"openai"}}`, len(recs))
	run := &result.Run{
		ID: name, State: result.Complete, Config: json.RawMessage(cfg),
		Environment: json.RawMessage(`{"host":{"name":"here"}}`), Server: result.Server{Model: "m", URLs: []string{"http://s:8000"}},
		Plan: result.NewPlan(metrics.Run{MaxConcurrency: slots, Tokenizer: true, NoSteady: true}, "closed loop of "+fmt.Sprint(slots)),
	}
	summarize(run, recs)
	return Sample{Entry: result.FromRun(run), Records: recs}
}

func sides(a, b Sample) (Side, []Side) {
	return Side{Name: "A", Samples: []Sample{a}}, []Side{{Name: "B", Samples: []Sample{b}}}
}

// compared is the one comparison of two single runs.
func compared(t testing.TB, a, b Sample, opt Options) *Comparison {
	t.Helper()
	base, others := sides(a, b)
	rep, err := Compare(base, others, opt)
	if err != nil {
		t.Fatal(err)
	}
	return &rep.Comparisons[0]
}

func row(t testing.TB, c *Comparison, name string) *Metric {
	t.Helper()
	for i := range c.Metrics {
		if c.Metrics[i].Name == name {
			return &c.Metrics[i]
		}
	}
	t.Fatalf("no %s among %d metrics", name, len(c.Metrics))
	return nil
}

// summarize fills in the figures a comparison shows, without the intervals that take most of the time of a
// real summary.
func summarize(run *result.Run, recs []call.Record) {
	s := &run.Summary
	var ttft, tpot, itl, e2el []float64
	for i := range recs {
		r := &recs[i]
		s.DurationS = max(s.DurationS, r.End.Seconds())
		if r.Outcome != call.OK {
			s.Failed++
			continue
		}
		s.Completed++
		s.TotalInput += r.In.N
		s.TotalOutput += r.Out.N
		first, _ := metrics.TTFT(r)
		all, _ := metrics.Latency(r, metrics.LastChunk)
		ttft, e2el = append(ttft, call.Millis(first)), append(e2el, call.Millis(all))
		if per, ok := metrics.TPOT(r, metrics.LastChunk, true); ok {
			tpot = append(tpot, 1000*per)
		}
		for j := 1; j < len(r.Chunks); j++ {
			itl = append(itl, call.Millis(r.Chunks[j].At-r.Chunks[j-1].At))
		}
	}
	s.RequestThroughput = float64(s.Completed) / s.DurationS
	s.OutputThroughput = float64(s.TotalOutput) / s.DurationS
	s.TotalTokenThroughput = float64(s.TotalInput+s.TotalOutput) / s.DurationS
	s.Lengths.InputFrom, s.Lengths.OutputFrom = map[string]int{"server": len(recs)}, map[string]int{"server": len(recs)}
	s.TTFT, s.TPOT, s.ITL, s.E2EL = dist(ttft), dist(tpot), dist(itl), dist(e2el)
}

func dist(xs []float64) metrics.Dist {
	d := metrics.Dist{N: len(xs), Mean: stats.Mean(xs), Median: stats.Median(xs)}
	for _, p := range []float64{90, 95, 99} {
		d.Percentiles = append(d.Percentiles, metrics.Quantile{P: p, Value: stats.Percentile(xs, p)})
	}
	return d
}
