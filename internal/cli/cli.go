// Package cli is the command line of spate: one file per command, each turning flags into settings,
// making one call and printing what comes back. It owns exit codes and hints. cmd/spate calls Run;
// below it stand internal/settings/flags, internal/settings/config and internal/bench. Read this file, then bench.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/forecast/predict"
	"spate/internal/host/launch"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// Process is what a command may touch of the process it runs in.
type Process = console.Process

// Exit codes, the same for every command; docs/failures.md has them for users.
const (
	ExitDone        = console.ExitDone
	ExitFailed      = console.ExitFailed
	ExitUsage       = console.ExitUsage
	ExitUnmet       = console.ExitUnmet
	ExitInterrupted = console.ExitInterrupted
)

// Run runs one command line and returns the exit code.
func Run(ctx context.Context, p Process) int {
	p = p.Escaped()
	p.Version, p.Tool = Version, versionText()
	root := newRoot(p)
	err := misnamed(root, p.Args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var done *console.ExitError
	var bad *console.UsageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &done):
		return done.Code
	case errors.As(err, &bad):
		console.Complain(p.Stderr, bad.Command, err)
		p.Say("run '%s --help' for its flags and examples\n", bad.Command)
		return ExitUsage
	}
	console.Complain(p.Stderr, "spate", err)
	return exitOf(err)
}

// exitOf is the exit code of a command that could not do what was asked. A file or a result that is not there is
// a mistake on the command line, whichever command reads it.
func exitOf(err error) int {
	var net *net.OpError
	var server *launch.Failure
	if isUsage(err) || errors.Is(err, fs.ErrNotExist) && !errors.As(err, &net) && !errors.As(err, &server) {
		return ExitUsage
	}
	return ExitFailed
}

// isUsage reports whether an error is the user's mistake rather than a failure.
func isUsage(err error) bool {
	var bad *flags.Error
	var problems config.Problems
	var refused *predict.RefusedError
	return errors.As(err, &bad) || errors.As(err, &problems) || errors.As(err, &refused)
}

// newRoot assembles the commands.
func newRoot(p Process) *cobra.Command {
	root := &cobra.Command{
		Use:   "spate",
		Short: "Measure LLM servers, and say how far the numbers can be trusted",
		Long: `Measure LLM servers, and say how far the numbers can be trusted. Predict what was not measured, and find the
settings that meet an objective.`,
		Example: `  spate bench --num-prompts 200          measure the server on this machine
  spate bench --sim --num-prompts 100    measure an embedded one
  spate bench --help                     the main flags; --help=all shows every one`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          runParent,
	}
	root.SetArgs(simArgs(p.Args))
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.Flags().BoolP("version", "v", false, "version for spate") // cobra's own needs a template, and those 5 MB
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		switch {
		case cmd == root && !strings.HasPrefix(p.Args[0], "-"):
			return runParent(root, p.Args)
		case cmd == root:
			err = fmt.Errorf("%w: flags of a run come after the command, as in spate bench --num-prompts 200", err)
		}
		return console.Usage(cmd.CommandPath(), err)
	})
	root.AddCommand(
		newBench(p), newDemo(p), newSweep(p), newCapacity(p), newLaunch(p), newRecord(p), newWorker(p), newFleet(p),
		newReport(p), newCompare(p), newExplain(p), newExplainDiff(p), newStoreCommand(p),
		newPredict(p), newPlan(p), newCalibrateEngine(p), newSim(p),
		newTune(p),
		newDataset(p), newCalibrate(p), newSelftest(p), newVersion(p),
		newCalibrateChild(p), newGuard(p), // hidden: what spate starts itself as
	)
	root.AddCommand(storeCommands(p)...)
	for _, c := range root.Commands() {
		c.Args = usageArgs(c.Args)
	}
	groupCommands(root)
	return root
}

// misnamed answers a command that there is not, also where its help is asked for.
func misnamed(root *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || slices.Contains([]string{"help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd, "completion"}, args[0]) {
		return nil
	}
	if found, _, err := root.Find(simArgs(args)); err == nil && found == root {
		return runParent(root, args)
	}
	return nil
}

// usageArgs makes a wrong number of arguments a usage mistake.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return console.Usage(cmd.CommandPath(), err)
		}
		return nil
	}
}

// atLeastOne wants an argument, and says what it is.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("no %s named", what)
		}
		return nil
	}
}

// runParent is what a command that has commands does itself: it shows its help, or answers a name that none has.
func runParent(cmd *cobra.Command, args []string) error {
	if asked, err := cmd.Flags().GetBool("version"); err == nil && asked {
		return writeVersion(cmd.OutOrStdout())
	}
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if args[0] == "serve" && !cmd.HasParent() {
		return console.Usage(cmd.CommandPath(), errors.New(`unknown command "serve": did you mean "bench serve"?`))
	}
	return console.UnknownCommand(cmd.CommandPath(), args[0], names)
}
