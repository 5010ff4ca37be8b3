package tune

import (
	"context"
	"math"
	"strings"
	"testing"

	"spate/internal/host/launch"
	"spate/internal/search/suggest"
)

// adviceOf is the advice of a simulator with some opinion of many settings.
func adviceOf(f *File, opinion func(Step) float64) *Advice {
	out := &Advice{Speed: 1}
	space := f.space()
	history := []suggest.Trial{{Settings: f.Defaults()}}
	for range 80 {
		p, ok := suggest.Random(space, 99).Next(history)
		if !ok {
			break
		}
		history = append(history, suggest.Trial{Settings: p.Settings})
	}
	for _, h := range history {
		v := opinion(Step{Settings: h.Settings})
		out.Pool = append(out.Pool, Advised{h.Settings, []Measured{{Workload: "workload", Figures: map[string]float64{"output_throughput": v, "error_rate": 0}}}})
	}
	return out
}

// startsTo is how many trials a search makes until one reaches a share of the best.
func startsTo(t *testing.T, f *File, advice *Advice, share float64) (n int, tuner *Tuner, history []Observation) {
	t.Helper()
	tuner = &Tuner{File: f, Advice: advice}
	s := &scripted{f: f, score: hill, kill: -1}
	for {
		step, more, err := tuner.Next(history)
		if err != nil || !more || step.Phase != Trial {
			t.Fatalf("not reached in %d steps: %v", len(history), err)
		}
		o, err := s.Try(context.Background(), step)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, o)
		if o.Value >= share*100 {
			return len(history), tuner, history
		}
	}
}

// TestAdvice: a simulator that is right saves starts, one whose scale is wrong as well; one that has it the wrong way
// round is dropped with a reason and costs no more than a few starts.
func TestAdvice(t *testing.T) {
	right := func(s Step) float64 { v, _ := hill(s); return v }
	for _, c := range []struct {
		name    string
		opinion func(Step) float64
		most    func(alone int) int
		dropped bool
	}{
		{"right", right, func(int) int { return 3 }, false},
		{"wrong by a factor", func(s Step) float64 { return 3 * right(s) }, func(int) int { return 3 }, false},
		{"upside down", func(s Step) float64 { return 110 - right(s) }, func(alone int) int { return alone + 4 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var with, without []int
			for seed := range uint64(9) {
				f := formulaFile(t, "shares: [1]\n")
				f.Trials, f.DriftOver, f.Seed = 200, 0, seed
				alone, _, _ := startsTo(t, f, nil, 0.95)
				n, tuner, history := startsTo(t, f, adviceOf(f, c.opinion), 0.95)
				with, without = append(with, n), append(without, alone)
				why := tuner.Doubt(history)
				if (why != "") != c.dropped || c.dropped && !strings.Contains(why, "advice is no longer used after") {
					t.Errorf("seed %d: in doubt because %q", seed, why)
				}
				if out := tuner.Conclude(history); out.Doubt != why || out.Seeds == 0 {
					t.Errorf("seed %d: the outcome says %q, and %d trials are the simulator's", seed, out.Doubt, out.Seeds)
				}
			}
			if n, alone := median(with), median(without); n > c.most(alone) {
				t.Errorf("%d starts with advice, %d without: %v and %v", n, alone, with, without)
			}
		})
	}
}

// TestAdviceIsNotRepeated: settings that are the same to the simulator are tried once.
func TestAdviceIsNotRepeated(t *testing.T) {
	f := formulaFile(t, "")
	advice := adviceOf(f, func(s Step) float64 { return 10 * math.Ceil(number64(s.Settings, "a")*2) })
	tuner := &Tuner{File: f, Advice: advice}
	space := f.Space()
	def := Observation{Step: Step{Phase: Trial, Settings: f.Defaults(), Share: 1}, Runs: []Measured{{Workload: "workload", Figures: map[string]float64{"output_throughput": 10, "error_rate": 0}}}}
	f.Score(&def)
	done := []Observation{def}
	first := tuner.advised(space, done)
	if len(first) != 1 || number64(first[0], "a") <= 0.5 {
		t.Fatalf("advised %v", first)
	}
	o := Observation{Step: Step{N: 1, Phase: Trial, Trial: 1, Settings: first[0], Share: 1}, Failure: nil, Runs: []Measured{{Workload: "workload", Figures: map[string]float64{"output_throughput": 20, "error_rate": 0}}}}
	f.Score(&o)
	if again := tuner.advised(space, append(done, o)); len(again) > 0 {
		t.Errorf("advised %v after %v: both are the best there is", again, first)
	}
	failed := o
	failed.Failure, failed.Runs = &launch.Failure{Kind: launch.Rule, Line: "no"}, nil
	if next := tuner.advised(space, append(done, failed)); len(next) != 1 || f.alike(next[0], first[0]) {
		t.Errorf("advised %v after %v failed", next, first)
	}
}
