package series

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/console"
	"spate/internal/judge/compare"
	"spate/internal/result"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
)

// ComparisonFile is where a series of runs leaves its comparison, beside their folders.
const ComparisonFile = "comparison.json"

// turn is one run of a series.
type turn struct {
	arm   config.Arm // without a name where there are no arms
	round int        // from 1
}

// name is what the run's folder and files are called.
func (t turn) name() string {
	if t.arm.Name == "" {
		return "run-" + strconv.Itoa(t.round)
	}
	return t.arm.Name + "-" + strconv.Itoa(t.round)
}

// turns orders the runs of a series. Every other round goes backwards, A B B A, so that a machine that gets
// steadily faster or slower favours no arm.
func turns(r *config.Repeat) []turn {
	arms := r.Arms
	if len(arms) == 0 {
		arms = []config.Arm{{}}
	}
	var out []turn
	for round := 1; round <= max(1, r.Times); round++ {
		order := slices.Clone(arms)
		if round%2 == 0 {
			slices.Reverse(order)
		}
		for _, a := range order {
			out = append(out, turn{a, round})
		}
	}
	return out
}

// series is several runs and what comes of them.
type series struct {
	p    Command
	args []string // of one run: without the flags that make a series of it
	base *config.Bench
	dir  string
	id   string
	done map[string][]compare.Sample // by arm
	code int
}

// runSeries makes the runs that --repeat and --interleave ask for, and compares them.
func runSeries(ctx context.Context, p Command, args []string, base *config.Bench) error {
	s := &series{p: p, args: dropSeries(args), base: base, dir: base.Output.OutputDir, id: trial.NewID(), done: map[string][]compare.Sample{}}
	if s.dir == "" {
		s.dir = filepath.Join(result.DefaultRoot, time.Now().Format("20060102-150405")+"-series-"+s.id[:4])
	}
	all := turns(&base.Repeat)
	for i, t := range all {
		p.Say("\nrun %d of %d: %s\n", i+1, len(all), t.name())
		if err := s.run(ctx, t); err != nil {
			return err
		}
		if s.code == console.ExitInterrupted || s.code == console.ExitFailed {
			p.Say("the series ends after run %d of %d\n", i+1, len(all))
			break
		}
	}
	if !base.Output.DryRun {
		if err := s.conclude(); err != nil {
			return err
		}
	}
	if s.code != console.ExitDone {
		return console.Exit(s.code)
	}
	return nil
}

// run makes one run. What it leaves is read back from its folder: a comparison made later reads the same.
func (s *series) run(ctx context.Context, t turn) error {
	args := slices.Concat(s.args, t.arm.Flags)
	r, err := flags.Parse(args, flags.Options{Env: s.p.Env, ReadFile: s.p.ReadFile, IDPrefix: "bench-" + trial.NewID() + "-"})
	if err != nil {
		if t.arm.Name != "" {
			err = fmt.Errorf("arm %s: %w", t.arm.Name, err)
		}
		return console.UsageIf(flags.Mistake(err), "spate bench", err)
	}
	cfg := r.Bench
	s.settle(cfg, t)
	p := s.p
	p.Args = slices.Concat([]string{"bench"}, args)
	if t.arm.URL != "" {
		p.Args = append(p.Args, "--base-url", t.arm.URL)
	}
	if err := p.preface(r); err != nil {
		return err
	}
	code := runBench(ctx, p, cfg)
	s.code = worst(s.code, code)
	if cfg.Output.DryRun || code == console.ExitFailed {
		return nil
	}
	run, err := result.Open(cfg.Output.OutputDir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && code == console.ExitInterrupted {
			return nil // stopped before there was anything
		}
		return err
	}
	s.done[t.arm.Name] = append(s.done[t.arm.Name], compare.Sample{Entry: result.FromRun(run)})
	return nil
}

// settle gives a run its own place, labels and prompts.
func (s *series) settle(cfg *config.Bench, t turn) {
	cfg.Repeat = config.Repeat{}
	cfg.Output.OutputDir = filepath.Join(s.dir, t.name())
	if name := cfg.Output.ResultFilename; name != "" {
		ext := filepath.Ext(name)
		cfg.Output.ResultFilename = strings.TrimSuffix(name, ext) + "-" + t.name() + ext
	}
	if t.arm.URL != "" {
		cfg.Target.BaseURLs = []string{t.arm.URL}
	}
	add := func(key, value string) {
		cfg.Output.Metadata = append(cfg.Output.Metadata, config.KeyValue{Key: key, Value: value})
	}
	if t.arm.Name != "" {
		add("arm", t.arm.Name)
	}
	add(compare.RoundLabel, strconv.Itoa(t.round))
	add("series", s.id)
	// The prompts of the run before are in the server's prefix cache. A salt of its own keeps each run from
	// finding them, unless the user has seen to that.
	addSalt(cfg, func(c *config.Bench) bool {
		return c.Dataset.Salt == "auto" || !c.Has("salt") && !c.Target.ResetPrefixCache && !c.Sim.Enabled
	})
}

// worst of two exit codes: a failure or interruption before an unmet objective.
func worst(a, b int) int {
	rank := []int{console.ExitDone, console.ExitUnmet, console.ExitUsage, console.ExitFailed, console.ExitInterrupted}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

// conclude compares the arms, or says how far the repeats lie apart.
func (s *series) conclude() error {
	arms := s.base.Repeat.Arms
	if len(arms) == 0 {
		return s.spread()
	}
	var sides []compare.Side
	for _, a := range arms {
		if len(s.done[a.Name]) > 0 {
			sides = append(sides, compare.Side{Name: a.Name, Samples: s.done[a.Name]})
		}
	}
	if len(sides) < 2 {
		s.p.Say("no comparison: fewer than two arms have a run\n")
		return nil
	}
	noise, err := compare.NoiseOf(s.base.Repeat.NoiseFile, s.p.Getenv, s.p.ReadFile).Read()
	if err != nil {
		return err
	}
	// What arms differ in is what the user asked for; it is said, and no reason to refuse.
	rep, err := compare.Compare(sides[0], sides[1:], compare.Options{Force: true, Noise: noise})
	if err != nil {
		return err
	}
	s.p.Print("\n")
	if err := rep.WriteText(s.p.Stdout); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if err := s.keep(rep); err != nil {
		return err
	}
	if s.base.Repeat.Equal() {
		return s.learn(sides)
	}
	return nil
}

// keep leaves the comparison beside the runs.
func (s *series) keep(rep *compare.Report) error {
	var b strings.Builder
	if err := rep.WriteJSON(&b); err != nil {
		return fmt.Errorf("encode the comparison: %w", err)
	}
	file := filepath.Join(s.dir, ComparisonFile)
	if err := compare.Replace(file, []byte(b.String())); err != nil {
		return fmt.Errorf("keep the comparison: %w", err)
	}
	s.p.Say("comparison: %s\n", file)
	return nil
}

// learn takes equal arms for what they are. That nothing could be learned is no failure of the runs.
func (s *series) learn(sides []compare.Side) error {
	var all []compare.Sample
	for _, side := range sides {
		all = append(all, side.Samples...)
	}
	s.p.Print("\n")
	if err := compare.NoiseOf(s.base.Repeat.NoiseFile, s.p.Getenv, s.p.ReadFile).Learn(s.p.Stdout, all, time.Now()); err != nil {
		s.p.Say("note: %v\n", err)
	}
	return nil
}

func (s *series) spread() error {
	list := s.done[""]
	if len(list) < 2 {
		return nil
	}
	found, err := compare.Spread(list, nil)
	if err != nil {
		return err
	}
	s.p.Print("\n")
	if err := compare.WriteSpread(s.p.Stdout, len(list), found); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	s.p.Say("runs: %s\n", s.dir)
	return nil
}

// seriesFlags are the flags that make a series, with their other spellings.
var seriesFlags = []string{"repeat", "num-runs", "num-profile-runs", "interleave"}

// dropSeries takes those flags and their words away. What is left is the command of one run, for its folder.
func dropSeries(args []string) []string {
	var out []string
	dropping := false
	for _, a := range args {
		name, _, assigned := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		switch {
		case strings.HasPrefix(a, "--") && isSeriesFlag(name):
			dropping = !assigned
			continue
		case strings.HasPrefix(a, "-"):
			dropping = false
		}
		if !dropping {
			out = append(out, a)
		}
	}
	return out
}

// isSeriesFlag knows the beginnings that argparse takes for a flag; one that fits several is refused before.
func isSeriesFlag(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	return len(name) > 2 && slices.ContainsFunc(seriesFlags, func(f string) bool { return strings.HasPrefix(f, name) })
}
