package accuracy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
)

// Command is `spate calibrate-client`.
type Command struct {
	Child []string // how this program is started as the server and the readers

	levels []int
	rounds int
	repeat int
	full   bool
	json   bool
	output string
	file   string // tokenizer
	ttft   time.Duration
	itl    time.Duration
}

// Bind adds the flags to a set.
func (c *Command) Bind(f *pflag.FlagSet) {
	bounds := DefaultBounds()
	f.IntSliceVar(&c.levels, "levels", nil, "concurrent streams to try, such as 1,10,100 (default 1,10,100,500,1000; with --full also 5000)")
	f.IntVar(&c.rounds, "rounds", 3, "answers each stream reads, about a second each")
	f.IntVar(&c.repeat, "repeat", 0, "runs of each level, of which medians are printed (default 1; 5 with --full)")
	f.BoolVar(&c.full, "full", false, "also measure a bare reader as the limit, floods, 10,000 slow streams, send lag, start-up and prompts; print Markdown")
	f.BoolVar(&c.json, "json", false, "print every figure as JSON")
	f.StringVar(&c.output, "output", "", "also write every figure as JSON to this `FILE`")
	f.StringVar(&c.file, "tokenizer", "", "tokenizer.json `FILE` to measure with --full (default $SPATE_BENCH_TOKENIZER)")
	f.DurationVar(&c.ttft, "ttft-bound", bounds.TTFT, "how wrong a mean TTFT may be and still be trusted")
	f.DurationVar(&c.itl, "itl-bound", bounds.ITL, "how wrong a p99 ITL may be and still be trusted")
}

// settle fills what depends on other flags and refuses what makes no sense.
func (c *Command) settle(p console.Process) error {
	if len(c.levels) == 0 {
		c.levels = []int{1, 10, 100, 500, 1000}
		if c.full {
			c.levels = append(c.levels, 5000)
		}
	}
	if c.repeat == 0 {
		c.repeat = 1
		if c.full {
			c.repeat = 5
		}
	}
	if name, ok := p.Env("SPATE_BENCH_TOKENIZER"); ok && c.file == "" {
		c.file = name
	}
	slices.Sort(c.levels)
	switch {
	case c.levels[0] < 1:
		return fmt.Errorf("--levels %d: at least 1 stream is needed", c.levels[0])
	case c.levels[len(c.levels)-1] > 50000:
		return fmt.Errorf("--levels %d: at most 50000 streams", c.levels[len(c.levels)-1])
	case c.rounds < 1:
		return fmt.Errorf("--rounds %d: at least 1 is needed", c.rounds)
	case c.repeat < 1:
		return fmt.Errorf("--repeat %d: at least 1 is needed", c.repeat)
	case c.ttft <= 0 || c.itl <= 0:
		return errors.New("--ttft-bound and --itl-bound must be above 0")
	}
	return nil
}

// Run measures the client and prints what came of it.
func (c *Command) Run(ctx context.Context, p console.Process) error {
	if err := c.settle(p); err != nil {
		return console.Usage("spate calibrate-client", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find spate's own executable: %w", err)
	}
	sig := p.Eager(ctx)
	defer sig.Done()
	ctx = sig.Context
	lab := &Lab{Program: exe, Name: os.Args[0], Child: c.Child}
	rep, err := lab.Run(ctx, Suite{
		Levels: c.levels, Rounds: c.rounds, Repeat: c.repeat, Full: c.full, Tokenizer: c.file,
		Say: func(what string) { p.Say("measuring: %s\n", what) },
	})
	if ctx.Err() != nil {
		p.Say("spate calibrate-client: interrupted\n")
		return console.Exit(console.ExitInterrupted)
	}
	if err != nil {
		return fmt.Errorf("calibrate the client: %w", err)
	}
	rep.Host.SpateVersion = p.Version
	return c.print(p, rep)
}

// print writes the report in the form that was asked for.
func (c *Command) print(p console.Process, rep *Report) error {
	raw, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the calibration: %w", err)
	}
	raw = append(raw, '\n')
	if c.output != "" {
		if err := os.WriteFile(c.output, raw, 0o644); err != nil {
			return fmt.Errorf("save the calibration: %w", err)
		}
	}
	switch {
	case c.json:
		if _, err := p.Stdout.Write(raw); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	case c.full:
		return rep.Markdown(p.Stdout)
	}
	return rep.Advice(p.Stdout, Bounds{TTFT: c.ttft, ITL: c.itl})
}
