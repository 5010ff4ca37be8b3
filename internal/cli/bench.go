package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// otherBenches are the siblings of vllm bench serve.
var otherBenches = []string{"throughput", "latency", "startup", "sweep", "mm-processor"}

// newBench is `spate bench [serve]`. Its flags follow argparse's rules, which cobra does not know, so
// internal/settings/flags reads them.
func newBench(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:                "bench [serve] [flags]",
		Short:              "Measure a server as vllm bench serve does, and judge the measurement",
		DisableFlagParsing: true,
		ValidArgsFunction:  completeBench,
		RunE:               func(cmd *cobra.Command, args []string) error { return runBenchArgs(cmd, p, args) },
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) { _ = flags.WriteHelp(p.Stdout, "") })
	return cmd
}

// sitting is a process in which runs are made and shown.
type sitting struct {
	Process
	chat   io.Writer // Stderr, or nothing where only what went wrong is said
	compat *compat   // the dialect a run speaks; nil: vLLM's of today
}

// runBenchArgs turns arguments into settings and runs them.
func runBenchArgs(cmd *cobra.Command, p Process, args []string) error {
	args, err := dropServe(args)
	if err != nil {
		return console.Usage("spate bench", err)
	}
	s := sitting{Process: p}
	if name, rest := takeCompat(args); name != "" {
		return runCompat(cmd.Context(), s, name, rest)
	}
	return runParsed(cmd.Context(), s, args)
}

// runParsed reads spate's own arguments and runs them.
func runParsed(ctx context.Context, p sitting, args []string) error {
	opt := flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "bench-" + randomHex() + "-"}
	if p.compat != nil && p.compat.name.Single() {
		opt.Single = "--compat " + string(p.compat.name)
	}
	r, err := flags.Parse(args, opt)
	if err != nil {
		if isUsage(err) {
			return console.Usage("spate bench", err)
		}
		return err
	}
	if r.Help {
		return flags.WriteHelp(p.Stdout, r.Topic)
	}
	if _, err := launchSpec(r.Bench); r.Bench.Launch.Command != "" && err != nil {
		return console.Usage("spate bench", err)
	}
	if r.Bench.Repeat.Series() {
		return runSeries(ctx, p, args, r.Bench)
	}
	addSalt(r.Bench, func(c *config.Bench) bool { return c.Dataset.Salt == "auto" })
	if err := p.preface(r); err != nil {
		return err
	}
	if code := runBench(ctx, p, r.Bench); code != ExitDone {
		return console.Exit(code)
	}
	return nil
}

// preface is what stands ahead of a run: the line of settings with which the tools of --compat begin, and notes.
func (p sitting) preface(r *flags.Result) error {
	o := &r.Bench.Output
	if p.compat != nil && !o.Quiet && !o.DryRun {
		if _, err := fmt.Fprintln(p.Stdout, r.Namespace); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
	}
	for _, note := range r.Notes {
		if !o.Quiet {
			p.Say("note: %s\n", note)
		}
	}
	return nil
}

// dropServe takes the optional word away and explains the words beside it.
func dropServe(args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	switch {
	case args[0] == "serve":
		return args[1:], nil
	case args[0] == "sweep":
		return nil, errors.New(`spate has its own command for it: "spate sweep"`)
	case slices.Contains(otherBenches, args[0]):
		return nil, fmt.Errorf("vllm bench %s is about an engine in its own process; spate measures servers: spate bench serve", args[0])
	}
	return nil, fmt.Errorf("unknown word %q after bench%s", args[0], config.DidYouMean(args[0], append([]string{"serve"}, otherBenches...)))
}

// randomHex is eight digits nobody else has.
func randomHex() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// completeBench offers flags, their values, or files to a shell.
func completeBench(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	offers, files := flags.Complete(args, word)
	if len(args) == 0 && strings.HasPrefix("serve", word) {
		offers = append(offers, flags.Completion{Text: "serve", Help: "measure a server (the default)"})
	}
	var out []string
	for _, o := range offers {
		if o.Help == "" {
			out = append(out, o.Text)
			continue
		}
		out = append(out, o.Text+"\t"+o.Help)
	}
	if files {
		return out, cobra.ShellCompDirectiveDefault
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
