package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spate/internal/cli"
	"spate/internal/judge/compare"
	"spate/internal/result"
	"spate/internal/settings/flags"
	"spate/internal/trial/series"
)

// seriesOf runs `spate bench` over real sockets against embedded servers, and reads what it left.
func seriesOf(t *testing.T, args ...string) (e ended, rep *compare.Report, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "series")
	e = prepare(t, nil, append([]string{
		"bench", "--sim", "timetable", "--sim-itl", "1ms", "--num-prompts", "60", "--max-concurrency", "4", "--skip-tokenizer-init",
		"--random-input-len", "8", "--random-output-len", "4", "--ui", "none", "--no-store", "--output-dir", dir,
	}, args...)...).want(cli.ExitDone)
	data, err := os.ReadFile(filepath.Join(dir, series.ComparisonFile))
	if err != nil {
		return e, nil, dir
	}
	rep = &compare.Report{}
	if err := json.Unmarshal(data, rep); err != nil {
		t.Fatal(err)
	}
	return e, rep, dir
}

// A server twenty times slower to its first token is worse, however busy this machine is.
func TestE2EInterleaveSlower(t *testing.T) {
	t.Parallel()
	slow(t, "measures a series of runs")
	e, rep, dir := seriesOf(t, "--interleave", "fast=--sim-ttft 10ms,slow=--sim-ttft 200ms")
	has(t, "standard error", e.stderr, "run 1 of 2: fast-1", "run 2 of 2: slow-1")
	has(t, "standard output", e.out, "slow against fast", "WORSE: slow is worse than fast")
	c := &rep.Comparisons[0]
	if i := slices.IndexFunc(c.Metrics, func(m compare.Metric) bool { return m.Name == "mean_ttft_ms" }); i < 0 || c.Metrics[i].Verdict != compare.Worse {
		t.Errorf("metrics %+v; want mean_ttft_ms worse", c.Metrics)
	}
	fast, slow := filepath.Join(dir, "fast-1"), filepath.Join(dir, "slow-1")
	run, err := result.Open(slow)
	if err != nil {
		t.Fatal(err)
	}
	if run.Labels["arm"] != "slow" || run.Labels["round"] != "1" || run.Labels["series"] == "" {
		t.Errorf("labels %v", run.Labels)
	}
	if line := strings.Join(run.Command, " "); strings.Contains(line, "interleave") || !strings.Contains(line, "--sim-ttft 200ms") {
		t.Errorf("the command of one run is %q", line)
	}
	// The same folders give the same gate later. A busy machine may have made a run INVALID, which is no concern here.
	gate := prepare(t, nil, "compare", "--force", "--baseline", fast, "--max-regression", "50%", slow).want(cli.ExitUnmet)
	has(t, "gate", gate.stderr, "worse than allowed: mean_ttft_ms of slow-1")
	prepare(t, nil, "compare", "--force", "--baseline", slow, "--max-regression", "50%", "--metrics", "ttft", fast).want(cli.ExitDone)
}

// Equal arms are compared like any others, and teach the noise of this machine where the runs were sound.
func TestE2EInterleaveEqual(t *testing.T) {
	t.Parallel()
	slow(t, "measures a series of runs")
	noise := filepath.Join(t.TempDir(), "noise.json")
	e, rep, dir := seriesOf(t, "--sim-ttft", "20ms", "--repeat", "2", "--interleave", "A=,B=", "--noise-file", noise)
	has(t, "standard error", e.stderr, "run 1 of 4: A-1", "run 2 of 4: B-1", "run 3 of 4: B-2", "run 4 of 4: A-2")
	has(t, "standard output", e.out, "B against A", "2 against 2 runs")
	if c := rep.Comparisons[0]; len(c.Metrics) < 15 || len(c.A.Runs) != 2 || len(c.B.Runs) != 2 {
		t.Errorf("%d metrics of %v and %v", len(c.Metrics), c.A, c.B)
	}
	if data, err := os.ReadFile(noise); err == nil {
		has(t, "noise file", string(data), `"mean_ttft_ms"`, `"degrees_of_freedom": 3`)
		has(t, "standard output", e.out, "what 4 equal runs of")
	} else {
		has(t, "standard error", e.stderr, "learn noise: not comparable")
	}
	// No equal server is ten times as slow.
	prepare(t, nil, "compare", "--force", "--baseline", filepath.Join(dir, "A-1"), "--max-regression", "900%", filepath.Join(dir, "B-1")).want(cli.ExitDone)
}

func TestE2ERepeat(t *testing.T) {
	t.Parallel()
	e, rep, dir := seriesOf(t, "--sim-ttft", "5ms", "--repeat", "2", "--save-result", "--result-dir", t.TempDir(), "--result-filename", "r.json")
	has(t, "standard output", e.out, "2 RUNS", "VARIES BY", "mean_ttft_ms")
	if rep != nil {
		t.Error("repeats of one setting were compared")
	}
	for _, name := range []string{"run-1", "run-2"} {
		run, err := result.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Files) == 0 || !strings.HasSuffix(run.Files[0], "r-"+name+".json") {
			t.Errorf("%s wrote %v", name, run.Files)
		}
	}
}

func TestE2ESeriesMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"one arm":      {[]string{"--interleave", "A="}, "nothing to be compared with"},
		"same name":    {[]string{"--interleave", "A=,A="}, "two arms are called A"},
		"no arm":       {[]string{"--interleave", "http://x"}, "does not begin with a name"},
		"bad flag":     {[]string{"--sim", "timetable", "--interleave", "A=,B=--max-concurency 3"}, "max-concurrency"},
		"no folder":    {[]string{"--repeat", "2", "--no-output"}, "nothing to compare"},
		"not a number": {[]string{"--repeat", "x"}, "whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"bench", "--num-prompts", "2", "--skip-tokenizer-init", "--no-store", "--ui", "none"}, c.args...)
			e := prepare(t, nil, args...).want(cli.ExitUsage)
			has(t, "standard error", e.stderr, c.want)
		})
	}
}

func TestExampleLoadIsReadable(t *testing.T) {
	r, err := flags.Parse([]string{"--config", filepath.Join("..", "..", "..", "examples", "compare", "load.yaml")}, flags.Options{ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	if r.Bench.Load.NumPrompts != 600 || r.Bench.Repeat.Series() {
		t.Errorf("read %+v", r.Bench.Load)
	}
}
