package capacity

import (
	"math"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/metrics"
	"spate/internal/rng"
)

// served makes the records of requests that come at a rate and are served one after another, each in
// the same time, and then take a while.
func served(n int, rate, perSecond float64, latency time.Duration) []call.Record {
	draw := rng.New(1, "served")
	var at, free time.Duration
	out := make([]call.Record, n)
	for i := range out {
		at += time.Duration(-rng.Log(1-draw.Float64()) / rate * float64(time.Second))
		free = max(free, at) + time.Duration(float64(time.Second)/perSecond)
		out[i] = call.Record{
			ID: i, Phase: call.Measure, Outcome: call.OK, Due: at, Sent: at, Chunks: []call.Chunk{{At: free}}, FirstToken: free,
			End: free + latency, Out: call.Count{N: 10},
		}
	}
	return out
}

func TestWatchNoticesAQueueThatGrows(t *testing.T) {
	cases := []struct {
		name    string
		n       int
		rate    float64
		serves  float64
		latency time.Duration
		kept    bool
	}{
		{"half load", 300, 10, 20, time.Second, true},
		{"nearly full", 300, 18, 20, time.Second, true},
		{"long answers", 300, 10, 20, 12 * time.Second, true},
		{"answers longer than the probe", 300, 10, 20, 60 * time.Second, true},
		{"a quarter too much", 300, 25, 20, time.Second, false},
		{"twice too much", 300, 40, 20, time.Second, false},
		{"five times too much", 1000, 100, 20, time.Second, false},
		{"too few to tell", 20, 40, 20, time.Second, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			recs := served(c.n, c.rate, c.serves, c.latency)
			w := NewWatch(objectives(t, "p99_tpot<9999s"), Rate, c.n)
			live := NewWatch(objectives(t, "p99_tpot<9999s"), Rate, c.n)
			var due, ended []time.Duration
			for i := range recs {
				if err := w.Record(&recs[i]); err != nil {
					t.Fatal(err)
				}
				due, ended = append(due, recs[i].Due), append(ended, recs[i].End)
			}
			if got := w.Kept(); got != c.kept {
				t.Errorf("kept up: %v, want %v", got, c.kept)
			}
			for _, s := range counts(due, ended) {
				live.Sample(s.at, s.due, s.done)
			}
			reason, full := live.Hopeless()
			if c.kept && reason != "" {
				t.Errorf("ended although it keeps up: %s", reason)
			}
			if c.rate >= 1.5*c.serves && c.n > 50 && !full {
				t.Error("not ended although the queue grows")
			}
			closed := NewWatch(nil, Concurrency, c.n)
			closed.due, closed.ended = due, ended
			if !closed.Kept() {
				t.Error("in a closed loop no queue can grow")
			}
		})
	}
}

// TestWatchEndsOnlyLostProbes holds that a probe is ended early only if its whole would miss the
// objective, too.
func TestWatchEndsOnlyLostProbes(t *testing.T) {
	list := objectives(t, "p90_ttft<100ms,errors<5%")
	for seed := range uint64(200) {
		draw := rng.New(seed, "lost")
		slow := 0.3 * draw.Float64()
		bad := 0.15 * draw.Float64()
		const n = 200
		w := NewWatch(list, Rate, n)
		var recs []call.Record
		for i := range n {
			first := 50 * time.Millisecond
			if draw.Float64() < slow {
				first = 200 * time.Millisecond
			}
			r := call.Record{ID: i, Phase: call.Measure, Outcome: call.OK, Chunks: []call.Chunk{{At: first}}, FirstToken: first, End: time.Second, Out: call.Count{N: 2}}
			if draw.Float64() < bad {
				r.Outcome = call.Failed
			}
			recs = append(recs, r)
			if err := w.Record(&r); err != nil {
				t.Fatal(err)
			}
		}
		reason, full := w.Hopeless()
		if reason == "" {
			continue
		}
		s := metrics.Summarize(recs, metrics.Run{Requested: n, RequestRate: math.Inf(1), Percentiles: []float64{90}, EndRule: metrics.LastChunk})
		met := true
		for i, r := range Read(list, &s) {
			met = met && list[i].Met(float64(r.Value))
		}
		if met || full {
			t.Fatalf("seed %d: ended with %q, but the whole probe meets its objectives", seed, reason)
		}
		if !strings.Contains(reason, "cannot be met any more") {
			t.Errorf("seed %d: %q", seed, reason)
		}
	}
}

// TestReadingsAreTheSummarys holds that objectives are judged by the figures a run prints.
func TestReadingsAreTheSummarys(t *testing.T) {
	recs := served(200, 10, 20, time.Second)
	recs[7].Outcome = call.Failed
	list := objectives(t, "p99_ttft<1s,p95_ttft<1s,median_ttft<1s,mean_e2el<9s,max_ttft<1s,min_ttft<1s,std_ttft<1s,errors<1%,p90_tpot<1s")
	s := metrics.Summarize(recs, metrics.Run{Requested: 200, RequestRate: 10, Percentiles: []float64{90, 95, 99}, EndRule: metrics.LastChunk})
	want := []float64{s.TTFT.P(99), s.TTFT.P(95), s.TTFT.Median, s.E2EL.Mean, s.TTFT.Max, s.TTFT.Min, s.TTFT.Std, 0.005, s.TPOT.P(90)}
	for i, r := range Read(list, &s) {
		v := float64(r.Value)
		if v != want[i] || float64(r.Low) > v || float64(r.High) < v {
			t.Errorf("%s: %v in [%v, %v], want %v", list[i].Text, v, r.Low, r.High, want[i])
		}
	}
	none := Read(list[:1], &metrics.Summary{})
	if !math.IsNaN(float64(none[0].Value)) {
		t.Errorf("a figure of nothing is %v", none[0].Value)
	}
	if n, of := Enough(list); n != 299 || of != "p99_ttft_ms" {
		t.Errorf("enough is %d for %s", n, of)
	}
}
