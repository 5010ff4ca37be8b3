package tune

import (
	"context"
	"fmt"
	"os"
	"testing"

	"spate/internal/config"
	"spate/internal/flags"
)

func resolve(args []string) (*config.Bench, error) {
	r, err := flags.Parse(args, flags.Options{
		Env: func(string) (string, bool) { return "", false }, ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }, IDPrefix: "t-",
	})
	if err != nil {
		return nil, err
	}
	return r.Bench, nil
}

func example(t testing.TB, name string) *File {
	t.Helper()
	data, err := os.ReadFile("../../examples/tune/" + name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestExplore(t *testing.T) {
	f := example(t, "reference.yaml")
	fmt.Println(f.Defaults())
	v, err := NewVirtual(f, nil, resolve)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []string{"random", "tpe"} {
		g := *f
		g.Strategy, g.Trials, g.DriftOver, g.Repeats = st, 60, 0, 0
		tn := &Tuner{File: &g}
		w := *v
		w.File = &g
		var h []Observation
		best := 0.0
		for {
			s, ok, err := tn.Next(h)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			o, err := w.Try(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			h = append(h, o)
			if o.Failure != nil {
				fmt.Println("FAIL", o.Failure.Line)
			}
			if o.Violation == 0 && o.Value > best {
				best = o.Value
				fmt.Println(st, o.N, o.Value, o.Runs[0].Figures["p99_ttft_ms"], o.Settings)
			}
		}
		out := tn.Conclude(h)
		fmt.Println(out.Sentence, out.Weights)
	}
}
