package compare

import (
	"math"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/settings/flags"
)

// enough is a server on which a few hundred requests settle the means.
func enough() server {
	s := usual()
	s.noise, s.requests, s.tokens = 0.02, 300, 2
	return s
}

// tally counts verdicts over pairs of runs.
func tally(t *testing.T, pairs int, pair func(i uint64) (a, b Sample), opt Options) (overall map[Verdict]int, differs int) {
	t.Helper()
	overall = map[Verdict]int{}
	for i := range uint64(pairs) {
		a, b := pair(i)
		c := compared(t, a, b, opt)
		overall[c.Verdict]++
		for k := range c.Metrics {
			if v := c.Metrics[k].Verdict; v == Better || v == Worse {
				differs++
				break
			}
		}
	}
	return overall, differs
}

// atLeast is 95 of 100.
func atLeast(pairs int) int { return int(math.Ceil(0.95 * float64(pairs))) }

// Two runs of one server that were sent the same requests are the same 95 times in 100.
func TestEqualServersAreTheSame(t *testing.T) {
	overall, _ := tally(t, pairsTried, func(i uint64) (Sample, Sample) {
		s := enough()
		return s.run(t, "a", 2*i), s.run(t, "b", 2*i+1)
	}, Options{})
	t.Logf("of %d A/A pairs: %v", pairsTried, overall)
	if overall[Same] < atLeast(pairsTried) {
		t.Errorf("of %d A/A pairs: %v; want same at least 95 in 100", pairsTried, overall)
	}
}

// So are runs that drew other requests of the same kind: there is more to be unsure of, but nothing differs.
func TestEqualServersNeverDifferWhateverWasDrawn(t *testing.T) {
	for name, memory := range map[string]float64{"independent": 0, "a queue": 0.6, "a long queue": 0.85} {
		t.Run(name, func(t *testing.T) {
			pairs := max(3, pairsTried*3/10)
			overall, differs := tally(t, pairs, func(i uint64) (Sample, Sample) {
				s := usual()
				s.memory, s.requests, s.tokens, s.workload = memory, 300, 2, 2*i
				a := s.run(t, "a", 1000+2*i)
				s.workload++
				return a, s.run(t, "b", 1001+2*i)
			}, Options{Metrics: []string{"ttft", "mean_e2el_ms", "request_throughput"}})
			t.Logf("of %d A/A pairs: %v", pairs, overall)
			if differs > (pairs+19)/20 {
				t.Errorf("of %d A/A pairs: %v; want no difference at least 95 in 100", pairs, overall)
			}
		})
	}
}

func TestSlowerServerIsWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("short: compares hundreds of pairs of runs")
	}
	overall, _ := tally(t, pairsTried, func(i uint64) (Sample, Sample) {
		s := enough()
		a := s.run(t, "a", 2*i)
		s.slow = 1.1
		return a, s.run(t, "b", 2*i+1)
	}, Options{})
	t.Logf("of %d pairs with B 10 %% slower: %v", pairsTried, overall)
	if overall[Worse] < atLeast(pairsTried) {
		t.Errorf("of %d pairs with B 10 %% slower: %v; want worse at least 95 in 100", pairsTried, overall)
	}
}

// predicted runs a closed loop on a simulated engine in virtual time, stretched by a factor.
func predictedRun(t *testing.T, prof *profile.Profile, name string, seed uint64, slow float64) Sample {
	t.Helper()
	r, err := flags.Parse([]string{
		"--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "32", "--random-range-ratio", "0.3",
		"--num-prompts", "300", "--max-concurrency", "16", "--model", "m",
	}, flags.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := predict.NewLoad(r.Bench, predict.Prompts{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := l.Run(prof, seed, false)
	if err != nil {
		t.Fatal(err)
	}
	recs := own.Result.Records()
	for i := range recs {
		stretch(&recs[i], slow)
	}
	return sampleOf(name, recs, 16)
}

// stretch makes everything that was seen of a request take longer.
func stretch(r *call.Record, by float64) {
	for _, at := range []*time.Duration{
		&r.Due, &r.Dispatched, &r.Started, &r.Sent, &r.FirstByte, &r.Headers,
		&r.FirstToken, &r.FirstText, &r.LastToken, &r.LastEvent, &r.End,
	} {
		if *at >= 0 {
			*at = time.Duration(float64(*at) * by)
		}
	}
	for i := range r.Chunks {
		r.Chunks[i].At = time.Duration(float64(r.Chunks[i].At) * by)
	}
}

// The same laws on a simulated engine, whose batches make neighbours depend on each other.
func TestLawsOnSimulatedEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates hundreds of runs")
	}
	list, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	found, err := profile.Find(list, "qwen2-7b-2xA100-40GB-vllm0.10-2nodes")
	if err != nil {
		t.Fatal(err)
	}
	prof := *found
	prof.Jitter = 0.02
	pairs := max(1, pairsTried/10)
	for name, slow := range map[string]float64{"equal": 1, "slower by 10 %": 1.1} {
		t.Run(name, func(t *testing.T) {
			overall, differs := tally(t, pairs, func(i uint64) (Sample, Sample) {
				return predictedRun(t, &prof, "a", 2*i, 1), predictedRun(t, &prof, "b", 2*i+1, slow)
			}, Options{})
			t.Logf("of %d pairs: %v", pairs, overall)
			switch {
			case slow > 1 && overall[Worse] < atLeast(pairs):
				t.Errorf("of %d pairs: %v; want worse at least 95 in 100", pairs, overall)
			case slow == 1 && differs > pairs-atLeast(pairs): // 300 requests that share batches may leave it open
				t.Errorf("of %d pairs: %v; want no difference at least 95 in 100", pairs, overall)
			}
		})
	}
}

// Swapping the sides swaps better and worse, and nothing else.
func TestSwappingSidesSwapsTheVerdict(t *testing.T) {
	turned := map[Verdict]Verdict{Better: Worse, Worse: Better, Same: Same, CannotTell: CannotTell, Mixed: Mixed}
	const tries uint64 = min(8, pairsTried)
	opt := Options{Metrics: []string{"ttft", "mean_itl_ms", "request_throughput", "error_rate"}}
	for i := range tries {
		s := usual()
		s.tokens = 4
		a := s.run(t, "a", i)
		s.slow = 1 + 0.03*float64(i%6)
		if i%2 == 1 {
			s.workload = 5
		}
		b := s.run(t, "b", 100+i)
		there, back := compared(t, a, b, opt), compared(t, b, a, opt)
		if turned[there.Verdict] != back.Verdict {
			t.Errorf("pair %d: %s one way and %s the other", i, there.Verdict, back.Verdict)
		}
		for k := range there.Metrics {
			x, y := &there.Metrics[k], &back.Metrics[k]
			if turned[x.Verdict] != y.Verdict {
				t.Errorf("pair %d: %s is %s one way and %s the other", i, x.Name, x.Verdict, y.Verdict)
			}
			if x.Points() {
				continue
			}
			if up, down := math.Log1p(*x.Change/100), math.Log1p(*y.Change/100); math.Abs(up+down) > 1e-9 {
				t.Errorf("pair %d: %s changes by %v one way and %v the other", i, x.Name, *x.Change, *y.Change)
			}
			if x.Low != nil && math.Abs(math.Log1p(*x.Low/100)+math.Log1p(*y.High/100)) > 1e-9 {
				t.Errorf("pair %d: the interval of %s does not turn with the sides", i, x.Name)
			}
		}
	}
}

// With more requests an interval is narrower and less is needed to show.
func TestMoreRequestsShowMore(t *testing.T) {
	last := math.Inf(1)
	for _, n := range []int{100, 300, 900} {
		s := usual()
		s.requests, s.tokens = n, 4
		c := compared(t, s.run(t, "a", 1), s.run(t, "b", 2), Options{})
		got := *row(t, c, "mean_ttft_ms").Detectable
		if got >= last {
			t.Errorf("%d requests could have shown %.2f %%, fewer %.2f %%", n, got, last)
		}
		last = got
	}
}

// Runs that drift are the same only to repeats, which see the drift.
func TestDriftIsSeenByRepeatsOnly(t *testing.T) {
	s := enough()
	s.drift = 0.05
	single, repeated := 0, 0
	means := []string{"mean_ttft_ms", "mean_e2el_ms", "request_throughput"}
	const tries = 12
	for i := range uint64(tries) {
		runsOf := func(from uint64) []Sample {
			var out []Sample
			for k := range uint64(4) {
				out = append(out, s.run(t, "r", 1000*i+from+k))
			}
			return out
		}
		a, b := runsOf(0), runsOf(100)
		if v := compared(t, a[0], b[0], Options{Metrics: means}).Verdict; v == Better || v == Worse || v == Mixed {
			single++
		}
		rep, err := Compare(Side{Name: "A", Samples: a}, []Side{{Name: "B", Samples: b}}, Options{Metrics: means})
		if err != nil {
			t.Fatal(err)
		}
		if v := rep.Comparisons[0].Verdict; v == Better || v == Worse || v == Mixed {
			repeated++
		}
	}
	t.Logf("with 5 %% drift between runs, %d of %d single and %d repeated comparisons see a difference", single, tries, repeated)
	if single < tries/2 || repeated > 1 {
		t.Errorf("with 5 %% drift between runs, %d of %d single and %d repeated comparisons see a difference; want most and none", single, tries, repeated)
	}
}
