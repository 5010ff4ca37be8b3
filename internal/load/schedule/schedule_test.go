package schedule

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var inf = math.Inf(1)

// Laws of every vLLM schedule, whatever its parameters: as many times as asked for, never decreasing, the
// last on n/rate to the nanosecond, the same on every walk.
func TestVLLMLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 500).Draw(t, "n")
		rate := rapid.Float64Range(0.01, 5000).Draw(t, "rate")
		shape := rapid.SampledFrom([]float64{0.1, 0.5, 1, 1.5, 20, inf}).Draw(t, "burstiness")
		seed := rapid.Uint32().Draw(t, "seed")
		p, err := VLLM(n, rate, shape, seed)
		if err != nil {
			t.Fatal(err)
		}
		due := slices.Collect(p.Due)
		if len(due) != n || p.N != n {
			t.Fatalf("%d times and N %d, want %d", len(due), p.N, n)
		}
		if !slices.IsSorted(due) || due[0] < 0 {
			t.Fatal("times decrease")
		}
		want := float64(n) / rate * 1e9
		if math.Abs(float64(due[n-1])-want) > 1+want*1e-15 {
			t.Fatalf("last at %v, want %v ns", due[n-1], want)
		}
		if !slices.Equal(due, slices.Collect(p.Due)) {
			t.Fatal("second walk differs")
		}
		slept, err := Slept(n, rate, shape, seed)
		if err != nil {
			t.Fatal(err)
		}
		old := slices.Collect(slept.Due)
		if len(old) != n || old[0] != 0 || !slices.IsSorted(old) {
			t.Fatalf("slept schedule: %d times, first %v", len(old), old[0])
		}
	})
}

// Only a slept plan's gaps are counted from the request before, and cutting it changes nothing about that.
func TestSleptIsMarked(t *testing.T) {
	slept, err := Slept(10, 2, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cut := slept.First(3).For(time.Hour).Capped(2)
	if !slept.Slept || !cut.Slept {
		t.Errorf("slept %v, and when cut %v", slept.Slept, cut.Slept)
	}
	// NumPy's first exponential numbers for seed 0 are 0.7959 and 1.2559; at a rate of 2 half of each is slept.
	if got := slices.Collect(cut.Due); !slices.Equal(got, []time.Duration{0, 397937254, 1025902636}) {
		t.Errorf("due at %d", got)
	}
	if head, err := VLLM(10, 2, 1, 0); err != nil || head.Slept {
		t.Errorf("a schedule counts from the start: %+v, %v", head, err)
	}
}

// The mean gap must be 1/rate and the coefficient of variation 1/sqrt(burstiness), within four standard errors.
func TestGammaMoments(t *testing.T) {
	const n, rate = 40_000, 50.0
	for _, b := range []float64{0.25, 1, 4, 25} {
		p, err := Gamma(rate, b, 11)
		if err != nil {
			t.Fatal(err)
		}
		var prev time.Duration
		var sum, squares float64
		for at := range p.First(n).Due {
			gap := (at - prev).Seconds()
			prev = at
			sum += gap
			squares += gap * gap
		}
		mean := sum / n
		cv := math.Sqrt(squares/n-mean*mean) / mean
		wantCV := 1 / math.Sqrt(b)
		if math.Abs(mean*rate-1) > 4*wantCV/math.Sqrt(n) {
			t.Errorf("burstiness %v: mean gap %v, want %v", b, mean, 1/rate)
		}
		// The standard error of a gamma's CV is about CV*sqrt((1+2/b)/2n) or less than that times 2.
		if math.Abs(cv/wantCV-1) > 8*math.Sqrt((1+2/b)/(2*n)) {
			t.Errorf("burstiness %v: CV %v, want %v", b, cv, wantCV)
		}
	}
}

func TestConstantByHand(t *testing.T) {
	p, err := Constant(4)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	if got := slices.Collect(p.First(4).Due); !slices.Equal(got, []time.Duration{0, 250 * ms, 500 * ms, 750 * ms}) {
		t.Errorf("times %v", got)
	}
	if got := slices.Collect(p.For(2 * time.Second).Due); len(got) != 8 || got[7] != 1750*ms {
		t.Errorf("2 s at 4/s: %v", got)
	}
	// A third of a second must not add up its rounding.
	third, err := Constant(3)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(third.First(300_001).Due)
	if got[300_000] != 100_000*time.Second {
		t.Errorf("request 300000 at 3/s is due at %v", got[300_000])
	}
}

func TestVLLMConstantByHand(t *testing.T) {
	s := time.Second
	got := times(t)(VLLM(4, 2, inf, 0))
	if !slices.Equal(got, []time.Duration{s / 2, s, 3 * s / 2, 2 * s}) {
		t.Errorf("times %v: the first must come after a gap", got)
	}
	if got := times(t)(Slept(4, 2, inf, 0)); !slices.Equal(got, []time.Duration{0, s / 2, s, 3 * s / 2}) {
		t.Errorf("old times %v: the first must come at once", got)
	}
	if got := times(t)(VLLM(3, inf, 1, 0)); !slices.Equal(got, []time.Duration{0, 0, 0}) {
		t.Errorf("rate inf: %v", got)
	}
}

// Ramps with even gaps, worked out by hand.
func TestRampByHand(t *testing.T) {
	us := func(x float64) time.Duration { return time.Duration(math.Round(x * 1e6)) }
	cases := []struct {
		name string
		ramp Ramp
		n    int
		want []time.Duration
	}{
		// rates 1, 2, 3, 4, 5: gaps 1, 1/2, 1/3, 1/4, 1/5
		{"linear", Ramp{From: 1, To: 5}, 5, []time.Duration{us(1000), us(1500), 1833333333, 2083333333, 2283333333}},
		// rates 1, 2, 4: gaps 1, 1/2, 1/4
		{"exponential", Ramp{Exponential: true, From: 1, To: 4}, 3, []time.Duration{us(1000), us(1500), us(1750)}},
		{"single request", Ramp{From: 4, To: 5}, 1, []time.Duration{us(250)}},
		{"falling", Ramp{From: 4, To: 2}, 3, []time.Duration{us(250), 583333333, 1083333333}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			equalTimes(t, c.want, times(t)(Ramped(c.n, c.ramp, inf, 0)))
		})
	}
}

func TestRampSteps(t *testing.T) {
	cases := []struct {
		name string
		ramp Ramp
		n    int
		want []Step
	}{
		{"one each", Ramp{From: 1, To: 3}, 3, []Step{{1, 0, 0}, {2, 1, 1500 * time.Millisecond}, {3, 2, 1833333333}}},
		{"several at once", Ramp{From: 1, To: 4}, 2, []Step{{1, 0, 0}, {2, 1, 1250 * time.Millisecond}, {3, 1, 1250 * time.Millisecond}, {4, 1, 1250 * time.Millisecond}}},
		{"falling", Ramp{From: 9, To: 2}, 10, []Step{{9, 0, 0}}},
		{"flat", Ramp{From: 2, To: 2}, 10, []Step{{2, 0, 0}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := slices.Collect(c.ramp.Steps(c.n, inf, 0)); !slices.Equal(got, c.want) {
				t.Errorf("steps %v, want %v", got, c.want)
			}
		})
	}
}

func TestTraceKeepsOrder(t *testing.T) {
	s := time.Second
	got := times(t)(Trace([]time.Duration{-s, 0, 3 * s, s, 4 * s}))
	if !slices.Equal(got, []time.Duration{0, 0, 3 * s, 3 * s, 4 * s}) {
		t.Errorf("times %v", got)
	}
}

func TestCuts(t *testing.T) {
	p, err := Poisson(10, 3)
	if err != nil {
		t.Fatal(err)
	}
	both := p.First(50).For(2 * time.Second).Capped(4)
	if both.N != 50 || both.Until != 2*time.Second || both.Slots != 4 {
		t.Errorf("plan %+v", both)
	}
	for at := range both.Due {
		if at >= 2*time.Second {
			t.Errorf("due at %v, after the end", at)
		}
	}
	if again := both.First(60).For(3 * time.Second); again.N != 50 || again.Until != 2*time.Second {
		t.Errorf("a wider cut must not undo a narrower one: %+v", again)
	}
	if same := p.First(0).For(0); same.N != 0 || same.Until != 0 {
		t.Errorf("empty cuts must cut nothing: %+v", same)
	}
	loop, err := Closed(8, 0)
	if err != nil {
		t.Fatal(err)
	}
	if loop = loop.First(5).For(time.Second); loop.Due != nil || loop.N != 5 || loop.Slots != 8 || loop.Until != time.Second {
		t.Errorf("closed loop %+v", loop)
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want string
	}{
		{"rate 0", failure(Poisson(0, 0)), "rate must be above 0, got 0"},
		{"rate NaN", failure(VLLM(1, math.NaN(), 1, 0)), "rate must be above 0, got NaN"},
		{"rate inf without end", failure(Poisson(inf, 0)), "burst or a closed loop"},
		{"burstiness", failure(Gamma(1, -1, 0)), "burstiness must be above 0, got -1"},
		{"count", failure(VLLM(0, 1, 1, 0)), "number of requests must be above 0"},
		{"old count", failure(Slept(-1, 1, 1, 0)), "number of requests must be above 0"},
		{"ramp from 0", failure(Ramped(5, Ramp{From: 0, To: 2}, 1, 0)), "0 to 2"},
		{"ramp to inf", failure(Ramped(5, Ramp{From: 1, To: inf}, 1, 0)), "1 to +Inf"},
		{"slots", failure(Closed(0, 5)), "at least 1 slot"},
		{"burst", failure(Burst(0)), "needs a number of requests"},
		{"trace", failure(Trace(nil)), "no times"},
		{"stages", failure(Stages{}.Plan(1, 0)), "no stages"},
	}
	for _, c := range cases {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, c.err, c.want)
		}
	}
}

func failure(_ Plan, err error) error { return err }

func TestSummary(t *testing.T) {
	head, err := VLLM(100, 10, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := head.Summary()
	total := 0
	for _, n := range s.PerBar {
		total += n
	}
	if s.Count != 100 || s.Last != 10*time.Second || s.MeanRate != 10 || total != 100 || s.Bucket != time.Second || len(s.PerBar) != 11 {
		t.Errorf("summary %+v", s)
	}

	even, err := Constant(2)
	if err != nil {
		t.Fatal(err)
	}
	s = even.For(1000 * time.Second).Summary()
	if s.Count != 2000 || s.MeanRate != 2 || s.Bucket != 128*time.Second || len(s.PerBar) != 8 || s.PerBar[0] != 256 || s.PerBar[7] != 208 {
		t.Errorf("long summary %+v", s)
	}
	if s = even.Summary(); !s.Open || s.Count != 0 {
		t.Errorf("endless summary %+v", s)
	}
	loop, err := Closed(4, 12)
	if err != nil {
		t.Fatal(err)
	}
	if s = loop.Summary(); !s.Closed || s.Count != 12 || s.Open {
		t.Errorf("closed summary %+v", s)
	}
	burst, err := Burst(7)
	if err != nil {
		t.Fatal(err)
	}
	if s = burst.Summary(); s.Count != 7 || s.Last != 0 || s.MeanRate != 0 || !slices.Equal(s.PerBar, []int{7}) {
		t.Errorf("burst summary %+v", s)
	}
}

// Walking a schedule must not allocate per request.
func TestConstantMemory(t *testing.T) {
	p, err := VLLM(20_000, 100, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if allocs := testing.AllocsPerRun(3, func() {
		for range p.Due {
		}
	}); allocs > 20 {
		t.Errorf("%v allocations for 20,000 times", allocs)
	}
}

func BenchmarkVLLM100k(b *testing.B) {
	for b.Loop() {
		p, err := VLLM(100_000, 100, 1, 0)
		if err != nil {
			b.Fatal(err)
		}
		for range p.Due {
		}
	}
}

// TestSummaryOfVeryMany extends what the first requests show: by count, and by time.
func TestSummaryOfVeryMany(t *testing.T) {
	const n = 1_000_000_000
	p, err := VLLM(n, 1000, math.Inf(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Summary()
	total := 0
	for _, k := range s.PerBar {
		total += k
	}
	if !s.Sampled || s.Count != n || s.Last.Round(time.Second) != 1_000_000*time.Second || len(s.PerBar) > maxBars || math.Abs(float64(total)/n-1) > 1e-6 {
		t.Errorf("%d requests until %v in %d bars of %d: %+v", s.Count, s.Last, len(s.PerBar), total, s.MeanRate)
	}
	c, err := Constant(1e6)
	if err != nil {
		t.Fatal(err)
	}
	s = c.For(time.Hour).Summary()
	if want := 3_600_000_000; !s.Sampled || math.Abs(float64(s.Count-want)) > 1e-5*float64(want) || s.Last.Round(time.Second) != time.Hour {
		t.Errorf("%d requests until %v, want %d", s.Count, s.Last, want)
	}
}
