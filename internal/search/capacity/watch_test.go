package capacity

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/rng"
	"spate/internal/trial"
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

// watched tells a watch of a probe as it goes. It ends it where the watch says so.
func watched(w *Watch, recs []call.Record) (ended time.Duration) {
	left := slices.Clone(recs)
	slices.SortFunc(left, func(a, b call.Record) int { return cmp.Compare(a.End, b.End) })
	for at := time.Duration(0); len(left) > 0; at += trial.LookEvery {
		for len(left) > 0 && left[0].End <= at {
			_ = w.Record(&left[0]) // never fails
			left = left[1:]
		}
		due := 0
		for i := range recs {
			if recs[i].Due <= at {
				due++
			}
		}
		w.Sample(at+time.Hour, due, len(recs)-len(left)) // samples and stamps have clocks of their own
		if reason, _ := w.Hopeless(); reason != "" {
			return at
		}
	}
	return 0
}

func TestWatchNoticesAQueueThatGrows(t *testing.T) {
	cases := []struct {
		name    string
		n       int
		rate    float64
		serves  float64
		latency time.Duration
		early   bool // it is ended
		grows   bool // it is seen in the end
	}{
		{"half load", 300, 10, 20, time.Second, false, false},
		{"nearly full", 300, 18, 20, time.Second, false, false},
		{"long answers", 300, 10, 20, 12 * time.Second, false, false},
		{"answers longer than the probe", 300, 10, 20, 60 * time.Second, false, false},
		{"a third too much", 900, 40, 30, time.Second, true, true},
		{"twice too much", 300, 40, 20, time.Second, true, true},
		{"five times too much", 1000, 100, 20, time.Second, true, true},
		{"too few to tell", 20, 40, 20, time.Second, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			recs := served(c.n, c.rate, c.serves, c.latency)
			w := NewWatch(objectives(t, "p99_tpot<9999s"), Rate, c.n)
			at := watched(w, recs)
			reason, full := w.Hopeless()
			if full != c.early || (reason != "") != c.early {
				t.Errorf("ended after %v: %q, full %v, want %v", at, reason, full, c.early)
			}
			whole := NewWatch(nil, Rate, c.n)
			closed := NewWatch(nil, Concurrency, c.n)
			for i := range recs {
				_ = whole.Record(&recs[i])
				_ = closed.Record(&recs[i])
			}
			if s := whole.Growth().Significance(); (s >= someGrowth) != c.grows {
				t.Errorf("the whole probe grew %.1f times what chance explains, want more than %g: %v", s, someGrowth, c.grows)
			}
			if closed.Growth() != (Growth{}) {
				t.Error("in a closed loop no queue can grow")
			}
		})
	}
}

// TestASmallOverloadIsSeenInTheEnd holds that a server asked for a tenth too much is found out by one probe of 90 s:
// the walk of arrivals alone would hide that, and does for one that is asked for a tenth less than it can do.
func TestASmallOverloadIsSeenInTheEnd(t *testing.T) {
	for serves, grows := range map[float64]bool{18: true, 22: false} {
		w := NewWatch(nil, Rate, 1800)
		recs := served(1800, 20, serves, time.Second)
		for i := range recs {
			_ = w.Record(&recs[i])
		}
		g := w.Growth()
		if (g.Significance() >= someGrowth) != grows {
			t.Errorf("serving %g of 20: grew by %.0f, %.1f times what chance explains", serves, g.By, g.Significance())
		}
		if walk, _ := growth(counts(w.ended), w.ended); grows && !(g.Significance() > walk.Significance()) {
			t.Errorf("the walk says %.1f, the server's own rate %.1f", walk.Significance(), g.Significance())
		}
	}
}

// TestABatchThatGrowsIsNoQueue holds that a probe goes on while ever more answers are written at a time, each
// the slower for it, and nobody waits for a first token: a server on its way to its level.
func TestABatchThatGrowsIsNoQueue(t *testing.T) {
	recs := make([]call.Record, 1200)
	for i := range recs {
		at := time.Duration(i) * 25 * time.Millisecond
		first := at + 20*time.Millisecond
		recs[i] = call.Record{
			ID: i, Phase: call.Measure, Outcome: call.OK, Due: at, Sent: at, Chunks: []call.Chunk{{At: first}}, FirstToken: first,
			End: first + time.Second + at/2, Out: call.Count{N: 10},
		}
	}
	w := NewWatch(nil, Rate, len(recs))
	if at := watched(w, recs); at != 0 {
		reason, _ := w.Hopeless()
		t.Errorf("ended after %v: %s", at, reason)
	}
	for i := range recs { // the same, behind each other
		recs[i].FirstToken = recs[i].End - 20*time.Millisecond
	}
	w = NewWatch(nil, Rate, len(recs))
	if at := watched(w, recs); at == 0 {
		t.Error("a queue that grows was not noticed")
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

// TestWhatAStopLeftUndoneBreaksNothing: requests that were not sent or cut off when a probe was ended are no errors.
func TestWhatAStopLeftUndoneBreaksNothing(t *testing.T) {
	w := NewWatch(objectives(t, "errors<5%"), Rate, 200)
	for i := range 200 {
		r := call.Record{ID: i, Phase: call.Measure, Outcome: []call.Outcome{call.Canceled, call.Dropped}[i%2], Fault: call.FaultStopped}
		if err := w.Record(&r); err != nil {
			t.Fatal(err)
		}
	}
	if reason, _ := w.Hopeless(); reason != "" {
		t.Error(reason)
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
