package series

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spate/internal/bench"
	"spate/internal/console"
	"spate/internal/load/schedule"
	"spate/internal/settings/config"
	"spate/internal/settings/dialect"
	"spate/internal/view/report"
)

// compat is a run in another tool's dialect.
type compat struct {
	name  dialect.Name
	asked dialect.Asked
}

// takeCompat finds --compat among the arguments and returns the others.
func takeCompat(args []string) (name string, rest []string) {
	rest = slices.Clone(args)
	for i, word := range rest {
		if value, ok := strings.CutPrefix(word, "--compat="); ok {
			return value, slices.Delete(rest, i, i+1)
		}
		if word == "--compat" && i+1 < len(rest) {
			name = rest[i+1]
			return name, slices.Delete(rest, i, i+2)
		}
	}
	return "", rest
}

// runCompat runs another tool's command line.
func runCompat(ctx context.Context, p Command, text string, args []string) error {
	name, err := dialect.Parse(text)
	if err != nil {
		return console.Usage("spate bench", err)
	}
	t, err := name.Arguments(args)
	if err != nil {
		return console.Usage("spate bench --compat "+text, err)
	}
	if t.WantsShareGPT {
		t.ShareGPT(findShareGPT())
	}
	for _, note := range t.Notes {
		p.Say("note: %s\n", note)
	}
	if t.Prompts != nil {
		path, err := writePrompts(t.Prompts)
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(path) }() // it lies in the system's folder for such files
		for i, word := range t.Args {
			t.Args[i] = strings.ReplaceAll(word, dialect.PromptsPath, path)
		}
	}
	p.compat = &compat{name, t.Asked}
	line := append([]string{"--compat", text}, t.Args...)
	if len(t.Rates) == 0 {
		return runParsed(ctx, p, line)
	}
	for _, rate := range t.Rates {
		if err := runParsed(ctx, p, append(slices.Clone(line), "--request-rate", fmt.Sprint(rate))); err != nil {
			return err
		}
	}
	return nil
}

// findShareGPT looks where other tools leave the conversations they download.
func findShareGPT() string {
	for _, path := range dialect.ShareGPTPlaces(os.TempDir()) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// writePrompts puts a tool's own prompts where the reader of files finds them.
func writePrompts(data []byte) (string, error) {
	f, err := os.CreateTemp("", "spate-prompts-*.jsonl")
	if err != nil {
		return "", fmt.Errorf("write prompts: %w", err)
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("write prompts: %w", err)
	}
	return f.Name(), nil
}

// run is a finished run as the dialect tells it.
func (c *compat) run(cfg *config.Bench, out *bench.Outcome) *dialect.Run {
	a := c.asked
	d := &cfg.Dataset
	a.Prompts = cfg.Load.NumPrompts
	if a.Backend == "" { // else the tool has a name of its own for it
		a.Backend = string(cfg.Target.Backend)
	}
	if a.Dataset == "" {
		a.Dataset = d.Name
	}
	a.Pools, a.Pictures = cfg.Target.Backend.Pools(), d.Name == config.DatasetRandomMM
	a.Rate, a.Slots = float64(cfg.Load.RequestRate), cfg.Load.MaxConcurrency
	a.Slept = cfg.Load.Pacing == schedule.PacingSlept
	a.ShareGPT = d.ShareGPT.OutputLen
	switch d.Name {
	case config.DatasetRandom, config.DatasetRandomMM:
		a.Input, a.Output, a.RangeRatio = &d.Random.InputLen, &d.Random.OutputLen, d.Random.RangeRatio.Input
	case config.DatasetCustom:
		a.Output = &d.Custom.OutputLen
	}
	return &dialect.Run{Run: out.Run, Records: out.Records(), Asked: a, Now: time.Now()}
}

// tell writes the tool's block, then spate's findings with what the tool's definitions hide, and the tool's
// result file.
func (c *compat) tell(p Command, cfg *config.Bench, out *bench.Outcome) error {
	run := c.run(cfg, out)
	var err error
	switch c.name {
	case dialect.VLLM, dialect.VLLM10, dialect.VLLM6:
		in := report.BlockOf(out.Run)
		in.Summary = c.name.Summary(run)
		in.Style = map[dialect.Name]report.Style{dialect.VLLM10: report.V10, dialect.VLLM6: report.V6}[c.name]
		err = report.Block(p.Stdout, in)
	default:
		err = c.name.Print(p.Stdout, run)
	}
	if err == nil {
		err = findings(p, cfg, out)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if lines := c.name.Differs(run); len(lines) > 0 && !cfg.Output.Quiet {
		p.Print("\nWhat %s's definitions hide\n", c.name)
		for _, line := range lines {
			p.Print("  - %s\n", line)
		}
	}
	return c.save(p, run)
}

// save appends to the tool's result file.
func (c *compat) save(p Command, run *dialect.Run) error {
	name, header, line := c.name.File(run)
	if name == "" {
		return nil
	}
	if _, err := os.Stat(name); err == nil {
		header = ""
	}
	if err := appendTo(name, header+line); err != nil {
		return fmt.Errorf("write %s's result file: %w", c.name, err)
	}
	p.Say("wrote %s\n", filepath.ToSlash(name))
	return nil
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
