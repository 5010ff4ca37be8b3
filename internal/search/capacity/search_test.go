package capacity

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/figure"
	"spate/internal/judge/stats"
	"spate/internal/judge/verdict"
	"spate/internal/rng"
	"spate/internal/settings/config"
)

// synthetic is a server of known capacity: its p99 TTFT meets 500 ms exactly at that load.
type synthetic struct {
	capacity float64
	steep    float64 // latency grows with this power of the load
	noise    float64 // of the logarithm of a probe's figure, from probe to probe
	told     float64 // the noise the probe's own interval tells of
	fullAt   float64 // load from which the queue grows; 0: none
	invalid  func(Probe) string
}

func objectives(t testing.TB, text string) []figure.Objective {
	t.Helper()
	list, err := ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (s synthetic) probe(seed uint64, p Probe) Observation {
	draw := rng.New(seed, "synthetic", uint64(p.Load*1e6), uint64(p.Repeat))
	v := math.Log(500) + s.steep*math.Log(p.Load/s.capacity) + s.noise*draw.NormFloat64()
	r := Reading{Value: config.Float(math.Exp(v)), Low: config.Float(math.Exp(v - 1.96*s.told)), High: config.Float(math.Exp(v + 1.96*s.told))}
	o := Observation{Load: p.Load, Repeat: p.Repeat, Planned: 300 * p.Times, Requests: 300 * p.Times, Readings: []Reading{r, reading(figure.Share(0, 300))}}
	if s.fullAt > 0 && p.Load >= s.fullAt {
		o.Growth, o.Saturated = Growth{By: 50, Variance: 100}, true
	}
	if s.invalid != nil {
		if o.Invalid = s.invalid(p); o.Invalid != "" {
			o.Check = "send_lag"
			if p.Load < 2 {
				o.Check = "own_cpu"
			}
		}
	}
	return o
}

// find runs a whole search.
func find(t testing.TB, s synthetic, opt Options, seed uint64) Answer {
	t.Helper()
	opt.Objectives = objectives(t, "p99_ttft<500ms")
	if opt.By == "" {
		opt.By = Rate
	}
	opt.Defaults()
	if err := opt.Validate(); err != nil {
		t.Fatal(err)
	}
	search := New(opt)
	for {
		p, more := search.Next()
		if !more {
			return search.Answer()
		}
		if p.Load < opt.Min || p.Load > opt.Max {
			t.Fatalf("probe at %g leaves %g to %g", p.Load, opt.Min, opt.Max)
		}
		search.Observe(s.probe(seed, p))
		if search.Probes() > opt.Probes {
			t.Fatal("more probes than allowed")
		}
	}
}

func TestSearchFindsTheTruth(t *testing.T) {
	cases := []struct {
		name   string
		server synthetic
		opt    Options
		most   int     // probes
		gap    float64 // between the ends of an answer, at the median
	}{
		{"exact", synthetic{capacity: 13, steep: 3}, Options{}, 16, 1.05},
		{"exact, far from the start", synthetic{capacity: 700, steep: 3}, Options{}, 22, 1.05},
		{"below the start", synthetic{capacity: 0.4, steep: 2}, Options{}, 16, 1.05},
		{"concurrency", synthetic{capacity: 37.5, steep: 2}, Options{By: Concurrency}, 18, 1.05},
		{"little noise", synthetic{capacity: 13, steep: 3, noise: 0.05, told: 0.05}, Options{}, 32, 1.1},
		{"much noise", synthetic{capacity: 13, steep: 3, noise: 0.2, told: 0.2}, Options{}, 60, 1.3},
		{"noise between runs that no single run shows", synthetic{capacity: 13, steep: 3, noise: 0.15, told: 0.05}, Options{}, 60, 1.3},
		{"full before it is slow", synthetic{capacity: 1000, steep: 1, fullAt: 13}, Options{}, 16, 1.05},
	}
	const seeds = 200
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			right, told, most := 0, 0, 0
			var gaps []float64
			truth := c.server.capacity
			if c.server.fullAt > 0 {
				truth = c.server.fullAt
			}
			for seed := range uint64(seeds) {
				a := find(t, c.server, c.opt, seed)
				if float64(a.Load) <= truth*1.05 && float64(a.Above) >= truth/1.05 {
					right++
				}
				if a.Verdict == Found {
					told++
				}
				most = max(most, a.Probes)
				gaps = append(gaps, float64(a.Above/a.Load))
			}
			if right < seeds*95/100 {
				t.Errorf("%d of %d searches are right within the tolerance, want 95 %%", right, seeds)
			}
			if c.server.noise == 0 && told != seeds {
				t.Errorf("%d of %d searches without noise found an answer", told, seeds)
			}
			if most > c.most {
				t.Errorf("a search took %d probes, want at most %d", most, c.most)
			}
			if gap := stats.Median(gaps); gap > c.gap+1e-9 {
				t.Errorf("the ends of an answer are a factor of %.3f apart, want %g", gap, c.gap)
			}
			t.Logf("right %d, found %d of %d, at most %d probes, median gap %.3f", right, told, seeds, most, stats.Median(gaps))
		})
	}
}

func TestSearchSaysWhatItCannotTell(t *testing.T) {
	cases := []struct {
		name   string
		server synthetic
		opt    Options
		want   Verdict
		text   string
	}{
		{"never missed", synthetic{capacity: 1e9, steep: 1}, Options{Max: 64}, AtLeast, "at least 64 requests/s"},
		{"never met", synthetic{capacity: 1e-6, steep: 1}, Options{Min: 0.5}, Below, "missed even at 0.5 requests/s"},
		{"flat and noisy", synthetic{capacity: 13, steep: 0.05, noise: 0.3, told: 0.3}, Options{}, CannotTell, "cannot tell"},
		{"out of probes", synthetic{capacity: 13, steep: 3}, Options{Probes: 3}, CannotTell, "cannot tell above 4 requests/s"},
		{"alone is too many", synthetic{capacity: 0.5, steep: 1}, Options{By: Concurrency}, Below, "missed even at 1 requests in flight"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := find(t, c.server, c.opt, 1)
			if a.Verdict != c.want || !strings.Contains(a.Sentence, c.text) {
				t.Errorf("got %q: %s; want %q: ...%s...", a.Verdict, a.Sentence, c.want, c.text)
			}
			if _, err := json.Marshal(a); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInvalidProbesDecideNothing holds that a probe that is INVALID is made again, that a load whose probes stay
// INVALID is no end of the answer, and that the answer says so.
func TestInvalidProbesDecideNothing(t *testing.T) {
	server := synthetic{capacity: 13, steep: 3}
	plain := find(t, server, Options{}, 1)
	cases := []struct {
		name    string
		invalid func(Probe) string
		want    Verdict
		load    float64 // highest met
		above   float64 // lowest missed
		note    string
	}{
		{"every first one", func(p Probe) string { return map[bool]string{true: "requests left late"}[p.Repeat == 1] }, Found, float64(plain.Load), float64(plain.Above), "INVALID and are left out: 8 for send_lag (at 2: requests left late); 1 for own_cpu (at 1: requests left late)"},
		{"above 10", func(p Probe) string { return map[bool]string{true: "requests left late"}[p.Load > 10] }, CannotTell, 9.95, math.Inf(1), "nothing is known of this load"},
		{"all but the first", func(p Probe) string { return map[bool]string{true: "requests left late"}[p.Repeat > 1] }, Found, float64(plain.Load), float64(plain.Above), "given up after 3 INVALID probes; this load rests on 1 probe"},
		{"all", func(Probe) string { return "requests left late" }, CannotTell, 0, math.Inf(1), "nothing is known of this load"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server.invalid = c.invalid
			a := find(t, server, Options{}, 1)
			if a.Verdict != c.want || math.Abs(float64(a.Load)-c.load) > 1e-9 || float64(a.Above) != c.above {
				t.Errorf("%s: %v to %v, want %s: %v to %v", a.Verdict, a.Load, a.Above, c.want, c.load, c.above)
			}
			if notes := strings.Join(a.Notes, "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes %q do not say %q", notes, c.note)
			}
			for _, l := range a.Levels {
				if len(l.Left) > mostLeft {
					t.Errorf("%d INVALID probes at %g", len(l.Left), l.Load)
				}
			}
		})
	}
}

// TestShortProbes holds that a search says when its probes were over before a queue could grow.
func TestShortProbes(t *testing.T) {
	s := New(Options{By: Rate, Objectives: objectives(t, "p99_ttft<500ms")})
	server := synthetic{capacity: 13, steep: 3}
	obs := server.probe(1, Probe{Load: 10, Repeat: 1, Times: 1}) // 300 requests, so 30 s
	for _, life := range []float64{4.9, 5.1} {
		obs.Life = life
		short := s.short(&level{load: 10, obs: []Observation{obs}})
		if want := life > 5; (short != "") != want || want && !strings.Contains(short, "a probe of 300 requests at 10 requests/s sends for 30 s, and a request took 5.1 s: too short") {
			t.Errorf("requests of %g s: %q", life, short)
		}
	}
}

// TestUnusable holds that a run is left out for what the client did, and not for what the server did.
func TestUnusable(t *testing.T) {
	for name, want := range map[string]bool{"failures": false, "cut_off": false, "dropped_work": false, "send_lag": true, "stamp_lag": true, "own_cpu": true} {
		v := verdict.Verdict{Grade: verdict.InvalidRun, Findings: []verdict.Finding{{Name: name, Level: verdict.Invalid, Sentence: "it is so."}}}
		check, got := Unusable(&v)
		if (got == "it is so") != want || (check == name) != want {
			t.Errorf("%s: %q %q", name, check, got)
		}
		v.Findings[0].Level = verdict.Suspect
		if _, got := Unusable(&v); got != "" {
			t.Errorf("%s only suspect: %q", name, got)
		}
	}
}

// TestReplay holds that a search told the same observations asks for the same probes and ends in the
// same answer, and that observations survive being written down.
func TestReplay(t *testing.T) {
	server := synthetic{capacity: 13, steep: 3, noise: 0.2, told: 0.1}
	opt := Options{By: Rate, Objectives: objectives(t, "p99_ttft<500ms")}
	opt.Defaults()
	first, again := New(opt), New(opt)
	for {
		p, more := first.Next()
		q, moreToo := again.Next()
		if p != q || more != moreToo {
			t.Fatalf("first asks for %v %v, then for %v %v", p, more, q, moreToo)
		}
		if !more {
			break
		}
		o := server.probe(3, p)
		first.Observe(o)
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var read Observation
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		again.Observe(read)
	}
	if diff := cmp.Diff(first.Answer(), again.Answer()); diff != "" {
		t.Error(diff)
	}
}

func TestParseSLO(t *testing.T) {
	cases := []struct{ text, want, err string }{
		{text: "p99_ttft<500ms,p99_tpot<50ms,errors<0.1%", want: "p99_ttft<500ms p99_tpot<50ms error_rate<0.1%"},
		{text: "p99_ttft<500ms", want: "p99_ttft<500ms error_rate<1%"},
		{text: "Errors<=2%", want: "error_rate<=2%"},
		{text: "goodput_ratio>95%", want: "goodput_ratio>95% error_rate<1%"},
		{text: "p99_tfft<1s", err: `did you mean "p99_ttft"`},
		{text: "rps>5", err: "throughput follows from the load"},
		{text: "p5_user_tokens_per_s>5", err: "speeds cannot be objectives of a search"},
		{text: "duration<5", err: "bound latencies, error_rate or goodput_ratio"},
		{text: "p99_ttft>5ms", err: "bounded from above"},
		{text: "p99_ttft<0", err: "above 0"},
		{text: "goodput_ratio<5%", err: "bounded from below"},
		{text: "", err: "no objective"},
		{text: "errors>1%", err: `unknown metric "errors"`},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			list, err := ParseSLO(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want ...%s...", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range list {
				got = append(got, o.Text)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
		})
	}
}

// FuzzParseSLO holds that nothing panics, and that what is accepted can be searched by: a figure at
// half the bound meets it, one at twice the bound does not.
func FuzzParseSLO(f *testing.F) {
	for _, s := range []string{"p99_ttft<500ms,errors<0.1%", "mean_tpot<=50,goodput_ratio>=0.9", "errors<", "p99_ttft<1e400", "p100_e2el<5s,,", "errors <1%", "std_itl<3us"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseSLO(text)
		if err != nil {
			return
		}
		for _, o := range list {
			if o.Unit == "ms" && (!o.Met(o.Bound/2) || o.Met(o.Bound*2)) {
				t.Errorf("%q: %+v is not an upper bound above 0", text, o)
			}
		}
		opt := Options{By: Rate, Objectives: list}
		opt.Defaults()
		if err := opt.Validate(); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{By: Rate, Objectives: objectives(t, "p99_ttft<1s")}
	cases := []struct {
		name string
		make func(*Options)
		err  string
	}{
		{"as they are", func(*Options) {}, ""},
		{"no objectives", func(o *Options) { o.Objectives = nil }, "no objectives"},
		{"spelling", func(o *Options) { o.By = "concurency" }, `did you mean "concurrency"`},
		{"order", func(o *Options) { o.Min, o.Start = 5, 2 }, "in that order"},
		{"whole", func(o *Options) { o.By, o.Start, o.Min = Concurrency, 1.5, 1 }, "whole"},
		{"tolerance", func(o *Options) { o.Tolerance = 1 }, "between 0 and 1"},
		{"repeats", func(o *Options) { o.Repeats, o.Most = 4, 2 }, "at most the second"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			opt := good
			c.make(&opt)
			opt.Defaults()
			err := opt.Validate()
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func TestSharesAreCountedOverAllProbes(t *testing.T) {
	list := objectives(t, "errors<1%")
	cases := []struct {
		name   string
		counts [][2]int
		want   State
	}{
		{"none failed", [][2]int{{0, 100}}, Met},
		{"few requests, one failed", [][2]int{{1, 50}}, Unclear},
		{"one failed, many requests", [][2]int{{1, 50}, {0, 500}}, Met},
		{"a third failed", [][2]int{{30, 100}}, Missed},
		{"no request at all", [][2]int{{0, 0}}, Missed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := &level{load: 1}
			for _, n := range c.counts {
				l.obs = append(l.obs, Observation{Readings: []Reading{reading(figure.Share(n[0], n[1]))}})
			}
			if got := l.state(list, []*level{l}); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func ExampleSearch() {
	opt := Options{By: Rate, Max: 100}
	opt.Objectives, _ = ParseSLO("p99_ttft<500ms")
	opt.Defaults()
	s := New(opt)
	for p, more := s.Next(); more; p, more = s.Next() {
		s.Observe(synthetic{capacity: 7.3, steep: 4}.probe(0, p))
	}
	fmt.Println(s.Answer().Sentence)
	// Output: capacity: 6.678 requests/s; 7.03 still met the objectives, and at 7.34 they are missed
}
