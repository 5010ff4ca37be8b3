package tune

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"spate/internal/search/suggest"
)

// bout is a search against a server whose best point is known.
type bout struct {
	f     *File
	truth *Virtual
	seen  map[string]Observation // the same settings give the same figures
}

func newBout(t testing.TB) *bout {
	t.Helper()
	data, err := os.ReadFile("testdata/eight-flags.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("eight-flags.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	f.Repeats, f.DriftOver = 0, 0
	v, err := NewVirtual(f, nil, resolve)
	if err != nil {
		t.Fatal(err)
	}
	return &bout{f: f, truth: v, seen: map[string]Observation{}}
}

// at measures settings on the true server.
func (b *bout) at(t testing.TB, step Step) Observation {
	t.Helper()
	key := b.f.Space().Key(step.Settings)
	o, ok := b.seen[key]
	if !ok {
		var err error
		step.Share = 1
		if o, err = b.truth.Try(context.Background(), step); err != nil {
			t.Fatal(err)
		}
		b.seen[key] = o
	}
	o.Step = step
	return o
}

// best looks at the space densely: the switches that matter, a budget every 4 %, several widths of a batch.
func (b *bout) best(t testing.TB) Observation {
	t.Helper()
	var top Observation
	for _, chunked := range []string{"true", "false"} {
		for _, prefix := range []string{"true", "false"} {
			for tokens := 512; tokens <= 8192; tokens += max(16, tokens/24) {
				for _, seqs := range []string{"64", "128", "192", "256", "512"} {
					s := suggest.Settings{
						"max-num-seqs": seqs, "max-num-batched-tokens": fmt.Sprint(tokens), "block-size": "16", "enable-chunked-prefill": chunked,
						"enable-prefix-caching": prefix, "disable-custom-all-reduce": "false", "use-v2-block-manager": "false", "scheduler-delay-factor": "0",
					}
					if b.f.Forbidden(s) != nil {
						continue
					}
					if o := b.at(t, Step{Settings: s}); o.Failure == nil && (top.Value == 0 || better(o, top) < 0) {
						top = o
					}
				}
			}
		}
	}
	return top
}

// starts is how many a strategy needs to come within 2 % of the best; most where it does not. forbidden
// counts the starts that died on a rule.
func (b *bout) starts(t testing.TB, strategy string, seed uint64, prior *Virtual, rules bool, best float64, most int) (n, forbidden int) {
	t.Helper()
	f := *b.f
	f.Strategy, f.Seed, f.Trials = strategy, seed, most
	f.Shares = []float64{1}
	tuner := &Tuner{File: &f}
	if prior != nil {
		g := f
		g.GPU = prior.File.GPU
		v := *prior
		v.File = &g
		def := b.at(t, Step{Settings: f.Defaults(), Share: 1})
		def.Phase = Trial
		var err error
		if tuner.Advice, err = Prior(context.Background(), &g, &v, []Observation{def}); err != nil {
			t.Fatal(err)
		}
	}
	naive := suggest.Random(f.space(), seed) // draws what rules forbid, too
	var history []Observation
	var tried []suggest.Trial
	for {
		step, more, err := tuner.Next(history)
		if !rules {
			p, ok := naive.Next(tried)
			step, more, err = Step{N: len(history), Phase: Trial, Trial: len(history), Settings: p.Settings, Share: 1}, ok && len(history) < most, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return most, forbidden
		}
		o := b.at(t, step)
		history = append(history, o)
		tried = append(tried, o.trial())
		switch {
		case o.Failure != nil:
			forbidden++
		case o.Violation == 0 && o.Value >= 0.98*best:
			return len(history), forbidden
		}
	}
}

func median(list []int) int {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkTune says how many starts each strategy needs to come within 2 % of the best known point of the
// eight flags, median over 20 seeds. The simulator that auto asks believes the GPU to be another one: one that is
// much like it, and one that is not.
func BenchmarkTune(b *testing.B) {
	for b.Loop() {
		got := contest(b, 20, b.Logf)
		b.ReportMetric(float64(got["random"]), "random-starts")
		b.ReportMetric(float64(got["auto"]), "auto-starts")
		if 4*got["auto"] > got["random"] || got["auto died"] > 0 {
			b.Errorf("auto needs %d starts and random %d; %d died on a rule", got["auto"], got["random"], got["auto died"])
		}
		if got["auto, L20"] > got["tpe"] {
			b.Errorf("a simulator that is wrong costs: %d starts, and %d without", got["auto, L20"], got["tpe"])
		}
	}
}

// contest compares strategies over some seeds, and returns the medians.
func contest(t testing.TB, seeds int, logf func(string, ...any)) map[string]int {
	t.Helper()
	bt := newBout(t)
	best := bt.best(t)
	logf("best known: %.5g tokens/s at %v", best.Value, best.Settings)
	believing := func(gpu string) *Virtual {
		wrong := *bt.f
		wrong.GPU = gpu
		v, err := NewVirtual(&wrong, nil, resolve)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	out := map[string]int{}
	for _, c := range []struct {
		name, strategy string
		prior          *Virtual
		rules          bool
	}{{"random, no rules", "random", nil, false}, {"random", "random", nil, true}, {"tpe", "tpe", nil, true}, {"auto", "auto", believing("A40"), true}, {"auto, L20", "auto", believing("L20"), true}} {
		var list []int
		died := 0
		for seed := range seeds {
			n, dead := bt.starts(t, c.strategy, uint64(seed), c.prior, c.rules, best.Value, 200)
			list = append(list, n)
			died += dead
		}
		out[c.name] = median(list)
		out[c.name+" died"] = died
		logf("%-18s median %d starts, all %v, %d of them died on a rule", c.name, out[c.name], list, died)
	}
	return out
}
