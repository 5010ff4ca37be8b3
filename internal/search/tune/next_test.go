package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"spate/internal/host/launch"
	"spate/internal/judge/compare"
	"spate/internal/search/suggest"
	"spate/internal/trial"
)

// scripted is a server whose figures follow from its settings by a formula.
type scripted struct {
	f     *File
	score func(step Step) (value float64, fail *launch.Failure)
	steps []Step
	kill  int                    // the step that never ends; -1: none
	grade func(step Step) string // verdicts on its runs; nil: none is judged
}

var errKilled = errors.New("killed")

func (s *scripted) Try(_ context.Context, step Step) (Observation, error) {
	if len(s.steps) == s.kill {
		s.kill = -1
		return Observation{}, errKilled
	}
	s.steps = append(s.steps, step)
	o := Observation{Step: step, TookS: 1}
	v, fail := s.score(step)
	if o.Failure = fail; fail == nil {
		o.Runs = []Measured{{Workload: "workload", Figures: map[string]float64{"output_throughput": v, "error_rate": 0, "p99_ttft_ms": 100, "duration": 100 / v}}}
		if s.grade != nil {
			o.Runs[0].Grade, o.Runs[0].Why = s.grade(step), "the client was late"
		}
		s.f.Score(&o)
	}
	return o, nil
}

const formula = `
server: {command: "x {flags}"}
space:
  a: {float: [0, 1], default: 0.1, memory: 1}
  b: {int: [1, 64], log: true, default: 4}
  c: [x, y, z]
workload: {max-concurrency: 4}
objective: throughput
budget: {trials: 20}
drift_every: 6
`

func formulaFile(t testing.TB, more string) *File {
	t.Helper()
	f, err := Parse("f.yaml", []byte(formula+more))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func number64(s suggest.Settings, name string) float64 {
	v, err := strconv.ParseFloat(s[name], 64)
	if err != nil {
		return 0
	}
	return v
}

// hill is best at a=0.7, b=16; each run scatters a little.
func hill(step Step) (float64, *launch.Failure) {
	a, b := number64(step.Settings, "a"), number64(step.Settings, "b")
	v := 100 * math.Exp(-3*(a-0.7)*(a-0.7)-0.3*math.Pow(math.Log(b/16), 2))
	return v * (1 + 0.002*math.Sin(float64(step.N))), nil
}

func run(t *testing.T, dir string, f *File, s *scripted) (*Outcome, []Observation) {
	t.Helper()
	tuner := &Tuner{File: f}
	for range 50 {
		d, err := Open(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), d, tuner, s, Options{})
		if cerr := d.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if errors.Is(err, errKilled) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return tuner.Conclude(d.History), d.History
	}
	t.Fatal("it never ended")
	return nil, nil
}

// TestInterrupted: whichever step an interruption hits, the search comes to the same end, and no finished step
// is made twice.
func TestInterrupted(t *testing.T) {
	f := formulaFile(t, "holdout: {max-concurrency: 8}\n")
	f.Trials = 14
	whole := &scripted{f: f, score: hill, kill: -1}
	want, all := run(t, t.TempDir(), f, whole)
	if want.Winner == nil || want.Winner.Trial == 0 || want.Verdict.Verdict != compare.Better || want.Held == nil {
		t.Fatalf("%+v", want)
	}
	for kill := 0; kill < len(all); kill += 6 {
		s := &scripted{f: f, score: hill, kill: kill}
		got, history := run(t, t.TempDir(), f, s)
		if !equalJSON(t, got, want) || !equalJSON(t, history, all) {
			t.Errorf("killed at step %d: another outcome", kill)
		}
		if len(s.steps) != len(all) {
			t.Errorf("killed at step %d: %d steps were made, not %d", kill, len(s.steps), len(all))
		}
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	return bytes.Equal(x, y)
}

// TestTornJournal: a line that a kill left half written is as if it had not been.
func TestTornJournal(t *testing.T) {
	f, dir := formulaFile(t, ""), t.TempDir()
	s := &scripted{f: f, score: hill, kill: -1}
	want, _ := run(t, dir, f, s)
	path := filepath.Join(dir, "journal.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	got, _ := run(t, dir, f, s)
	if !equalJSON(t, got, want) {
		t.Error("another outcome")
	}
}

func TestChangedFile(t *testing.T) {
	f, dir := formulaFile(t, ""), t.TempDir()
	run(t, dir, f, &scripted{f: f, score: hill, kill: -1})
	changed := formulaFile(t, "seed: 9\n")
	_, err := Open(dir, changed)
	var ce *trial.ChangedError
	if !errors.As(err, &ce) || !strings.Contains(err.Error(), "seed was 0 and is 9") {
		t.Errorf("%v", err)
	}
	longer := formulaFile(t, "")
	longer.Trials = 25 // more of the same search
	d, err := Open(dir, longer)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestDefaultIsFine: where nothing helps, the report says so.
func TestDefaultIsFine(t *testing.T) {
	f := formulaFile(t, "")
	flat := func(step Step) (float64, *launch.Failure) { return 100 * (1 + 0.003*math.Sin(7*float64(step.N))), nil }
	out, _ := run(t, t.TempDir(), f, &scripted{f: f, score: flat, kill: -1})
	if out.Winner == nil || out.Winner.Trial != 0 || !strings.Contains(out.Sentence, "default is as good as anything") {
		t.Errorf("%s", out.Sentence)
	}
	if out.Drift == nil || *out.Drift > 1 {
		t.Errorf("drift %v", out.Drift)
	}
}

// TestFailuresTeach: too little memory once rules out everything hungrier; accidents are tried again, and
// rule nothing out.
func TestFailuresTeach(t *testing.T) {
	f := formulaFile(t, "strategy: random\n")
	f.Trials = 30
	tried := map[string]int{}
	short := func(step Step) (float64, *launch.Failure) {
		key := f.space().Key(step.Settings)
		tried[key]++
		switch a := number64(step.Settings, "a"); {
		case step.Phase == Trial && step.Trial == 4 && step.Attempt < 2:
			return 0, &launch.Failure{Kind: launch.Port, Line: "address already in use"}
		case a > 0.6:
			return 0, &launch.Failure{Kind: launch.Memory, Line: "torch.OutOfMemoryError: CUDA out of memory."}
		}
		return hill(step)
	}
	_, history := run(t, t.TempDir(), f, &scripted{f: f, score: short, kill: -1})
	least := map[string]float64{} // of a that failed, by the other settings
	retried := 0
	for _, o := range pick(history, Trial) {
		rest := o.Settings["b"] + o.Settings["c"]
		a := number64(o.Settings, "a")
		if floor, ok := least[rest]; ok && a >= floor {
			t.Errorf("step %d needs more than what failed: %v", o.N, o.Settings)
		}
		if o.Failure == nil {
			continue
		}
		if o.Failure.Kind == launch.Port {
			retried++
			continue
		}
		least[rest] = min(a, floorOr(least, rest))
	}
	if retried != 2 {
		t.Errorf("%d accidents in the history, want 2", retried)
	}
}

func floorOr(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return math.Inf(1)
}

// TestNothingStarts: a search in which nothing ever starts ends soon, with the words of the server.
func TestNothingStarts(t *testing.T) {
	f, dir := formulaFile(t, ""), t.TempDir()
	d, err := Open(dir, f)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }() // the test is over
	s := &scripted{f: f, kill: -1, score: func(Step) (float64, *launch.Failure) {
		return 0, &launch.Failure{Kind: launch.Rule, Line: "ValueError: no such thing"}
	}}
	_, err = Run(t.Context(), d, &Tuner{File: f}, s, Options{})
	if err == nil || !strings.Contains(err.Error(), "ValueError: no such thing") || len(s.steps) != failFirst {
		t.Errorf("%d steps: %v", len(s.steps), err)
	}
}

// TestKnee: the knee of the default lies where it begins to miss, and trials are made around it.
func TestKnee(t *testing.T) {
	f := formulaFile(t, "rate: knee\nconstraints: [\"p99_ttft<500ms\"]\n")
	s := &scripted{f: f, kill: -1}
	runner := kneeRunner{s}
	tuner := &Tuner{File: f}
	var history []Observation
	for {
		step, ok := tuner.kneeStep(history)
		if !ok {
			break
		}
		o, err := runner.Try(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, o)
	}
	k := KneeOf(history)
	if k.Rate < 6.5 || k.Rate > 8 || k.Above/k.Rate > kneeGap || k.Probes > kneeProbes {
		t.Errorf("%+v", k)
	}
	if rate := tuner.rate(history); math.Abs(rate-k.Rate*f.Around) > 0.02*rate {
		t.Errorf("trials at %v", rate)
	}
}

// kneeRunner serves 10 requests per second at most, and keeps its latency below 8.
type kneeRunner struct{ *scripted }

func (k kneeRunner) Try(_ context.Context, step Step) (Observation, error) {
	o := Observation{Step: step, TookS: 1}
	served, ttft := min(step.Rate, 10), 100.0
	if step.Rate > 8 {
		ttft = 900
	}
	o.Runs = []Measured{{Workload: "workload", Figures: map[string]float64{
		"output_throughput": 50 * served, "request_throughput": served, "completed": 100, "duration": 100/served + 1, "mean_e2el_ms": 1000, "p99_ttft_ms": ttft, "error_rate": 0,
	}}}
	k.f.Score(&o)
	return o, nil
}

// TestExamplesTellWhatMattered: a search of a shipped example that is left to its own budget weighs the flags, also
// where it measures most settings with a part of the requests.
func TestExamplesTellWhatMattered(t *testing.T) {
	for name, want := range map[string]string{"reference.yaml": "with 25 % of the requests", "small-sim.yaml": "9 trials of full length"} {
		f := example(t, name)
		v, err := NewVirtual(f, nil, resolve)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.TempDir(), f)
		if err != nil {
			t.Fatal(err)
		}
		tuner := &Tuner{File: f}
		_, err = Run(t.Context(), d, tuner, v, Options{})
		if err = errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
		if out := tuner.Conclude(d.History); len(out.Weights) == 0 || !strings.HasSuffix(out.Weighed, want) {
			t.Errorf("%s: %d flags weighed by %s: %s", name, len(out.Weights), out.Weighed, out.WhatMattered())
		}
	}
}

func TestVirtualSearch(t *testing.T) {
	f := example(t, "small-sim.yaml")
	f.Trials, f.Repeats = 6, 1
	f.Fixed = append(f.Fixed, Flag{"num-gpu-blocks-override", "2000"}) // a large cache takes long to make
	v, err := NewVirtual(f, nil, resolve)
	if err != nil {
		t.Fatal(err)
	}
	v.Asked = 8
	search := func() ([]Observation, *Outcome) {
		tuner := &Tuner{File: f}
		d, err := Open(t.TempDir(), f)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }() // the test is over
		if _, err := Run(t.Context(), d, tuner, v, Options{Prior: func(h []Observation) (*Advice, error) {
			return Prior(t.Context(), f, v, h)
		}}); err != nil {
			t.Fatal(err)
		}
		return d.History, tuner.Conclude(d.History)
	}
	history, out := search()
	again, _ := search()
	if !equalJSON(t, history, again) {
		t.Error("the same search took another way")
	}
	for _, o := range history {
		if o.Failure != nil {
			t.Errorf("step %d: %s", o.N, o.Failure.Line)
		}
	}
	if out.Starts != len(history) || out.Starts <= 6 || out.Seeds == 0 || len(out.Frontier) == 0 {
		t.Errorf("%d starts, %d from the simulator, %d on the frontier", out.Starts, out.Seeds, len(out.Frontier))
	}
	b := &strings.Builder{}
	r := &Report{Outcome: out}
	if err := r.WriteMarkdown(b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Trials\n\n| trial | requests | verdict |", " | 100 % | ", "## Frontier", "spate sim", out.Sentence} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report has no %q", want)
		}
	}
	b.Reset()
	if err := WriteCSV(b, f, history); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != len(history)+1 {
		t.Errorf("%d lines of CSV for %d steps", n, len(history))
	}
}

// TestFailedStartSays: a refused start carries the words a user would search for.
func TestFailedStartSays(t *testing.T) {
	f := example(t, "reference.yaml")
	v, err := NewVirtual(f, nil, resolve)
	if err != nil {
		t.Fatal(err)
	}
	set := f.Defaults()
	set["max-num-batched-tokens"] = "535"
	o, err := v.Try(t.Context(), Step{Settings: set, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	if o.Failure == nil || o.Failure.Kind != launch.Rule || !strings.Contains(o.Failure.Line, "max_num_batched_tokens (535) is smaller than max_model_len") ||
		!strings.Contains(o.Failure.Command, "--max-num-batched-tokens 535") {
		t.Errorf("%+v", o.Failure)
	}
}

func Example_older() {
	fmt.Println(older("0.9.2", "0.10.0"), older("v0.11.0", "0.11"), older("0.28.0rc2", "0.28.1"))
	// Output: true false true
}

// TestInvalidRunsDecideNothing: a run that its own verdict calls INVALID is made again; where it stays so, the trial is
// left out, however good it looks, and the outcome says so.
func TestInvalidRunsDecideNothing(t *testing.T) {
	f := formulaFile(t, "")
	s := &scripted{f: f, score: hill, kill: -1}
	s.grade = func(step Step) string {
		if step.Trial == 3 || step.Trial == 0 && step.Attempt == 0 && step.Phase == Trial { // the default is better the second time
			return "INVALID"
		}
		return "VALID"
	}
	s.score = func(step Step) (float64, *launch.Failure) {
		if step.Trial == 3 {
			return 1000, nil
		}
		return hill(step)
	}
	out, history := run(t, t.TempDir(), f, s)
	if out.Winner == nil || out.Winner.Trial == 3 || out.Default == nil || out.Default.Attempt != 1 || out.Default.Invalid() != nil {
		t.Fatalf("winner %+v, default %+v", out.Winner, out.Default)
	}
	of3, finals := 0, 0
	for _, o := range history {
		if o.Trial == 3 {
			of3++
			if o.Phase == Final {
				finals++
			}
		}
	}
	if of3 != attempts || finals != 0 || out.Invalid != attempts+1 {
		t.Errorf("trial 3 was measured %d times, %d of them finals; %d are INVALID", of3, finals, out.Invalid)
	}
	if want := fmt.Sprintf("%d of %d measurements are INVALID by their own verdict", attempts+1, len(history)); !strings.HasPrefix(out.LeftOut, want) {
		t.Errorf("it says %q, want %q", out.LeftOut, want)
	}
	var b bytes.Buffer
	if err := (&Report{Outcome: out}).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| trial | requests | verdict |", "| 3 | 100 % | INVALID | 1000 |", out.LeftOut} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, b.String())
		}
	}
}

// TestNothingButInvalidRuns: a search whose every run is INVALID ends soon and says why.
func TestNothingButInvalidRuns(t *testing.T) {
	f := formulaFile(t, "")
	s := &scripted{f: f, score: hill, kill: -1, grade: func(Step) string { return "INVALID" }}
	d, err := Open(t.TempDir(), f)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), d, &Tuner{File: f}, s, Options{})
	if err == nil || !strings.Contains(err.Error(), "INVALID: the client was late") {
		t.Errorf("%v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if w := (&Tuner{File: f}).Winner(d.History); w != nil {
		t.Errorf("trial %d wins", w.Trial)
	}
}
