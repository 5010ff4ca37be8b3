package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/selftest/accuracy"
)

// childCommand is how spate calls itself for the server and the readers of a calibration.
const childCommand = "__calibrate-child"

// calibration is what the flags of calibrate-client say.
type calibration struct {
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

func newCalibrate(p Process) *cobra.Command {
	var c calibration
	bounds := accuracy.DefaultBounds()
	cmd := &cobra.Command{
		Use:   "calibrate-client [flags]",
		Short: "Check how far TTFT and ITL measured on this host can be trusted",
		Long: `Runs spate's own client on this host against a server with a known timetable (first token after
50 ms, 100 tokens 10 ms apart), a process of its own that notes when it really wrote each token, at
growing concurrency. For each level it prints how far the reported TTFT and ITL are from the truth,
what the client cost, and in the end up to which concurrency results from this host can be trusted.

Takes about 20 seconds and saves nothing unless --output says where.`,
		Example: `  spate calibrate-client                         1 to 1,000 streams
  spate calibrate-client --levels 64,256         the levels you are going to use
  spate calibrate-client --output host-a.json    keep every figure
  spate calibrate-client --full                  the tables of docs/performance.md; about five minutes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCalibrate(cmd, p, &c) },
	}
	f := cmd.Flags()
	f.IntSliceVar(&c.levels, "levels", nil, "concurrent streams to try, such as 1,10,100 (default 1,10,100,500,1000; with --full also 5000)")
	f.IntVar(&c.rounds, "rounds", 3, "answers each stream reads, about a second each")
	f.IntVar(&c.repeat, "repeat", 0, "runs of each level, of which medians are printed (default 1; 5 with --full)")
	f.BoolVar(&c.full, "full", false, "also measure a bare reader as the limit, floods, 10,000 slow streams, send lag, start-up and prompts; print Markdown")
	f.BoolVar(&c.json, "json", false, "print every figure as JSON")
	f.StringVar(&c.output, "output", "", "also write every figure as JSON to this `FILE`")
	f.StringVar(&c.file, "tokenizer", "", "tokenizer.json `FILE` to measure with --full (default $SPATE_BENCH_TOKENIZER)")
	f.DurationVar(&c.ttft, "ttft-bound", bounds.TTFT, "how wrong a mean TTFT may be and still be trusted")
	f.DurationVar(&c.itl, "itl-bound", bounds.ITL, "how wrong a p99 ITL may be and still be trusted")
	return cmd
}

// settle fills what depends on other flags and refuses what makes no sense.
func (c *calibration) settle(p Process) error {
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

func runCalibrate(cmd *cobra.Command, p Process, c *calibration) error {
	if err := c.settle(p); err != nil {
		return console.Usage("spate calibrate-client", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find spate's own executable: %w", err)
	}
	sig := p.Eager(cmd.Context())
	defer sig.Done()
	ctx := sig.Context
	lab := &accuracy.Lab{Program: exe, Name: os.Args[0], Child: []string{childCommand}}
	rep, err := lab.Run(ctx, accuracy.Suite{
		Levels: c.levels, Rounds: c.rounds, Repeat: c.repeat, Full: c.full, Tokenizer: c.file,
		Say: func(what string) { p.Say("measuring: %s\n", what) },
	})
	if ctx.Err() != nil {
		p.Say("spate calibrate-client: interrupted\n")
		return console.Exit(ExitInterrupted)
	}
	if err != nil {
		return fmt.Errorf("calibrate the client: %w", err)
	}
	rep.Host.SpateVersion = Version
	return c.print(p, rep)
}

// print writes the report in the form that was asked for.
func (c *calibration) print(p Process, rep *accuracy.Report) error {
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
	return rep.Advice(p.Stdout, accuracy.Bounds{TTFT: c.ttft, ITL: c.itl})
}

// newCalibrateChild is the server or a reader of a calibration, in a process of its own.
func newCalibrateChild(p Process) *cobra.Command {
	return &cobra.Command{
		Use:    childCommand,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return accuracy.Child(cmd.Context(), p.Stdin, p.Raw())
		},
	}
}
