package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
	"spate/internal/judge/stats"
)

// anyRecord draws a record with stamps in order; a success has at least one chunk.
func anyRecord(t *rapid.T, id int) call.Record {
	step := func(name string, top int) int { return rapid.IntRange(0, top).Draw(t, name) }
	due := step("due", 5000)
	dispatched := due + step("lag", 20)
	started := dispatched + step("queue", 300)
	sent := started + step("send", 5)
	now := sent
	var chunks []call.Chunk
	for range rapid.IntRange(1, 6).Draw(t, "chunks") {
		now += step("gap", 400)
		chunks = append(chunks, call.Chunk{
			At:     time.Duration(now) * ms,
			Tokens: int32(rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "tokens")),
			Kind:   rapid.SampledFrom([]call.Kind{0, call.Visible, call.Reasoning}).Draw(t, "kind"),
		})
	}
	last := now + step("usage", 10)
	r := stamped(id, due, dispatched, started, sent, last+step("close", 10))
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0:
		return failed(r, call.Failed, call.FaultReset, "reset")
	case 1:
		return failed(stamped(id, due, -1, -1, -1, -1), call.Dropped, call.FaultLocal, "dropped")
	case 2:
		return failed(r, call.Canceled, call.FaultCutoff, "cut off")
	}
	return done(r, last, step("in", 50), 1+step("out", 30), chunks)
}

func anyRun(t *rapid.T) ([]call.Record, Run) {
	n := rapid.IntRange(0, 20).Draw(t, "n")
	recs := make([]call.Record, n)
	run := Run{
		MaxConcurrency: rapid.IntRange(0, 4).Draw(t, "cap"), Tokenizer: true,
		EndRule: rapid.SampledFrom([]EndRule{LastChunk, LastEvent}).Draw(t, "rule"),
		End:     time.Millisecond,
	}
	for i := range recs {
		recs[i] = anyRecord(t, i)
		run.End = max(run.End, recs[i].End)
	}
	return recs, run
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		s := Summarize(recs, run)
		if !s.Tally.Balanced() || s.Tally.Due != len(recs) || s.Failures.Lost != 0 {
			t.Fatalf("books do not balance: %+v", s.Tally)
		}
		kinds := 0
		for _, k := range s.Failures.Kinds {
			kinds += k.Count
		}
		if kinds+s.Completed+s.Failures.Undone() != len(recs) {
			t.Fatalf("%d failures by kind, %d successes and %d left undone of %d", kinds, s.Completed, s.Failures.Undone(), len(recs))
		}
		checkSeries(t, recs, s)
		checkLittle(t, recs, s)
		checkOrder(t, s)
	})
}

// checkSeries: what the series shows adds up to the whole.
func checkSeries(t *rapid.T, recs []call.Record, s Summary) {
	sum := func(xs []int) (n int) {
		for _, x := range xs {
			n += x
		}
		return n
	}
	if got := sum(s.Series.Finished); got != s.Completed {
		t.Fatalf("series finished %d, completed %d", got, s.Completed)
	}
	if got := sum(s.Series.Failed); got != s.Failed {
		t.Fatalf("series failed %d, failed %d", got, s.Failed)
	}
	tokens := 0
	for i := range recs {
		if recs[i].Outcome == call.OK {
			ks, _ := chunkTokens(nil, recs[i].Chunks, recs[i].Out.N)
			for _, k := range ks {
				tokens += int(k)
			}
		}
	}
	if got := sum(s.Series.Output); got != tokens {
		t.Fatalf("series tokens %d, want %d", got, tokens)
	}
	area := 0.0
	for k, x := range s.Series.InFlight {
		width := math.Min(s.Series.StepS, s.DurationS-float64(k)*s.Series.StepS)
		area += x * width
	}
	if want := s.Concurrency.Mean * s.DurationS; math.Abs(area-want) > 1e-6 {
		t.Fatalf("in flight over time %v, want %v", area, want)
	}
}

// checkLittle: mean concurrency is throughput times time on the wire, over everything sent.
func checkLittle(t *rapid.T, recs []call.Record, s Summary) {
	n, wire := 0, 0.0
	for i := range recs {
		if d, ok := Closed(&recs[i]); ok {
			n++
			wire += seconds(d)
		}
	}
	if n == 0 {
		return
	}
	rate, mean := float64(n)/s.DurationS, wire/float64(n)
	if math.Abs(s.Concurrency.Mean-rate*mean) > 1e-9 {
		t.Fatalf("mean concurrency %v, rate %v times latency %v", s.Concurrency.Mean, rate, mean)
	}
	// The peak against counting at every start.
	peak := 0
	for i := range recs {
		open := 0
		for j := range recs {
			a, b := &recs[i], &recs[j]
			if a.Sent >= 0 && b.Sent >= 0 && b.Sent <= a.Sent && (a.Sent < b.End || b.Sent == a.Sent) {
				open++
			}
		}
		peak = max(peak, open)
	}
	if s.Concurrency.Peak > peak || float64(s.Concurrency.Peak) < s.Concurrency.Mean-1e-9 {
		t.Fatalf("peak %d, counted %d, mean %v", s.Concurrency.Peak, peak, s.Concurrency.Mean)
	}
}

// checkOrder: clocks that end later are never shorter, and due is never after sent.
func checkOrder(t *rapid.T, s Summary) {
	for _, p := range []struct {
		name     string
		low, top Dist
	}{
		{"ttft, ttft due", s.TTFT, s.Clocks.TTFTDue},
		{"e2el, e2el due", s.E2EL, s.Clocks.E2ELDue},
		{"ttft, e2el", s.TTFT, s.E2EL},
		{"first byte, ttft", s.Clocks.FirstByte, s.TTFT},
		{"e2el, close", s.E2EL, s.Clocks.E2ELClose},
	} {
		if p.low.N == p.top.N && (p.low.Mean > p.top.Mean+1e-9 || p.low.Max > p.top.Max+1e-9 || p.low.P(50) > p.top.P(50)+1e-9) {
			t.Fatalf("%s: %+v above %+v", p.name, p.low, p.top)
		}
	}
	for _, d := range []Dist{s.TTFT, s.TPOT, s.ITL, s.E2EL, s.Streaming.TokenITL, s.Clocks.Queue} {
		if d.N > 0 && (d.Min > d.Median || d.Median > d.Max || d.P(50) > d.P(90) || d.P(90) > d.P(99)) {
			t.Fatalf("out of order: %+v", d)
		}
	}
}

// The naive way to each of vLLM's figures, straight from the formulas.
func TestVLLMAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		var ttfts, tpots, itls, e2els []float64
		for i := range recs {
			r := &recs[i]
			if r.Outcome != call.OK {
				continue
			}
			end := r.Chunks[len(r.Chunks)-1].At
			if run.EndRule == LastEvent {
				end = r.LastEvent
			}
			ttft := r.Chunks[0].At - r.Sent
			ttfts = append(ttfts, ttft.Seconds())
			e2els = append(e2els, (end - r.Sent).Seconds())
			if r.Out.N > 1 {
				tpots = append(tpots, (end-r.Sent-ttft).Seconds()/float64(r.Out.N-1))
			}
			for j := 1; j < len(r.Chunks); j++ {
				itls = append(itls, (r.Chunks[j].At - r.Chunks[j-1].At).Seconds())
			}
		}
		s := Summarize(recs, run)
		for _, c := range []struct {
			name string
			xs   []float64
			got  Dist
		}{{"ttft", ttfts, s.TTFT}, {"tpot", tpots, s.TPOT}, {"itl", itls, s.ITL}, {"e2el", e2els, s.E2EL}} {
			for what, pair := range map[string][2]float64{
				"mean":   {c.got.Mean, stats.Mean(c.xs) * 1000},
				"median": {c.got.Median, stats.Median(c.xs) * 1000},
				"std":    {c.got.Std, stats.Std(c.xs) * 1000},
				"p99":    {c.got.P(99), stats.Percentile(c.xs, 99) * 1000},
			} {
				if math.Abs(pair[0]-pair[1]) > 1e-9 {
					t.Fatalf("%s %s = %v, want %v", what, c.name, pair[0], pair[1])
				}
			}
		}
	})
}

// The gaps between tokens add up to the time from the first to the last chunk that bore any, and
// there is one for each token behind the first chunk.
func TestTokenGapsTelescope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord(t, 0)
		tokens, source := chunkTokens(nil, r.Chunks, r.Out.N)
		total, first, last, lead := 0, call.Unset, call.Unset, 0
		for i, k := range tokens {
			total += int(k)
			if k > 0 {
				last = r.Chunks[i].At
				if first < 0 {
					first, lead = last, int(k)
				}
			}
		}
		if source != TokensCounted && source != TokensNone && total != r.Out.N {
			t.Fatalf("%d tokens assigned of %d (%s)", total, r.Out.N, source)
		}
		gaps, counts := appendTokenITL(nil, nil, r.Chunks, tokens)
		n, sum := 0, 0.0
		for i, g := range gaps {
			n += counts[i]
			sum += g * float64(counts[i])
		}
		if n != total-lead {
			t.Fatalf("%d gaps for %d tokens of which %d came first", n, total, lead)
		}
		if got, want := sum, seconds(last-first); math.Abs(got-want) > 1e-9 {
			t.Fatalf("gaps add up to %v, want %v", got, want)
		}
	})
}

func TestPeakOutputAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		type event struct {
			at time.Duration
			k  int
		}
		var events []event
		for i := range recs {
			if recs[i].Outcome == call.OK {
				ks, _ := chunkTokens(nil, recs[i].Chunks, recs[i].Out.N)
				for j, k := range ks {
					events = append(events, event{recs[i].Chunks[j].At, int(k)})
				}
			}
		}
		most := 0
		for _, from := range events {
			n := 0
			for _, e := range events {
				if e.at >= from.at && e.at < from.at+time.Second {
					n += e.k
				}
			}
			most = max(most, n)
		}
		if got := Summarize(recs, run).Throughput.PeakOutput; got != float64(most) {
			t.Fatalf("peak %v, want %d", got, most)
		}
	})
}

// Records arrive in order of completion; the summary must not depend on it.
func TestOrderOfRecordsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		a := Summarize(recs, run)
		b := Summarize(rapid.Permutation(recs).Draw(t, "order"), run)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("summary differs: %s", diff)
		}
	})
}

func TestSummaryJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs, run := anyRun(t)
		run.Objectives = []Objective{{"ttft", 200}}
		run.Percentiles = []float64{99.9, 25}
		a := Summarize(recs, run)
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		var b Summary
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("round trip: %s", diff)
		}
	})
}

// A steady load of equal requests has narrow, honest intervals around its known figures.
func TestIntervalsOnKnownLoad(t *testing.T) {
	recs, run := load(2000, 20, false)
	s := Summarize(recs, run)
	for name, d := range map[string]Dist{"ttft": s.TTFT, "tpot": s.TPOT, "itl": s.ITL, "e2el": s.E2EL} {
		ci := d.CI95
		if ci == nil {
			t.Fatalf("%s has no interval", name)
		}
		for _, c := range []struct {
			what string
			r    Range
			v    float64
		}{{"mean", ci.Mean, d.Mean}, {"median", ci.Median, d.Median}, {"p90", ci.P90, d.P(90)}, {"p99", ci.P99, d.P(99)}} {
			if c.r[0] > c.v*1.001 || c.r[1] < c.v*0.999 || c.r[1]-c.r[0] > 0.2*c.v {
				t.Errorf("%s %s %v outside of or far from %v", name, c.what, c.v, c.r)
			}
		}
		if ci.EffectiveN < 1000 || ci.EffectiveN > 2000 {
			t.Errorf("%s: effective n %v of 2000 independent requests", name, ci.EffectiveN)
		}
	}
	if r := s.Throughput.RequestCI95; r == nil || r[0] > s.RequestThroughput || r[1] < s.RequestThroughput {
		t.Errorf("throughput %v, interval %v", s.RequestThroughput, r)
	}
	if r := s.Throughput.OutputCI95; r == nil || r[0] > s.OutputThroughput || r[1] < s.OutputThroughput {
		t.Errorf("output throughput %v, interval %v", s.OutputThroughput, r)
	}
}

func TestPercentilesBelowFloorAreMarked(t *testing.T) {
	for _, tt := range []struct {
		n      int
		enough bool
	}{{298, false}, {299, true}} {
		recs, run := load(tt.n, 2, false)
		q, ok := Summarize(recs, run).TTFT.At(99)
		if !ok || q.Enough != tt.enough || q.Floor != 299 {
			t.Errorf("p99 of %d: %+v", tt.n, q)
		}
	}
}

// Percentiles asked for come first and in their order; the standing ones follow.
func TestPercentileOrder(t *testing.T) {
	recs, run := load(10, 2, false)
	run.Percentiles = []float64{99.9, 50, 25}
	var names []string
	for _, q := range Summarize(recs, run).TTFT.Percentiles {
		names = append(names, q.Name())
	}
	if want := []string{"p99.9", "p50", "p25", "p90", "p95", "p99"}; !slices.Equal(names, want) {
		t.Errorf("percentiles %v, want %v", names, want)
	}
}

func TestSeriesIsBounded(t *testing.T) {
	for _, dur := range []time.Duration{0, time.Second, 600 * time.Second, 601 * time.Second, 24 * time.Hour, 9000 * time.Hour} {
		step := stepFor(dur)
		if n := (dur + step - 1) / step; n > maxSteps {
			t.Errorf("%v: %d steps of %v", dur, n, step)
		}
	}
	if stepFor(600*time.Second) != time.Second || stepFor(601*time.Second) != 2*time.Second {
		t.Error("the step is not the smallest that fits")
	}
}
