// Package cli is the command line of spate: one file per command, each turning flags into settings,
// making one call and printing what comes back. It owns exit codes and hints. cmd/spate calls Run;
// below it stand internal/settings/flags, internal/settings/config and internal/bench. Read this file, then bench.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/forecast/predict"
	"spate/internal/host/launch"
	"spate/internal/result/store"
	"spate/internal/safe/escape"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// Exit codes, the same for every command; docs/failures.md has them for users.
const (
	ExitDone        = 0
	ExitFailed      = 1 // no request succeeded, failures ended the run, or spate could not do what was asked
	ExitUsage       = 2 // the command line is wrong, or names a file that is not there
	ExitUnmet       = 3 // an objective that was asked for is not met
	ExitInterrupted = 130
)

// Process is what a command may touch of the process it runs in, so that tests can stand in for it.
type Process struct {
	Args     []string // without the program's name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Env      func(name string) (string, bool)
	Getwd    func() (string, error)
	ReadFile func(name string) ([]byte, error)

	// Interrupts starts the delivery of interrupt and termination signals; until a command calls
	// it, they end the process as usual. nil means there are none.
	Interrupts func() (signals <-chan os.Signal, stop func())

	// Exit ends the process at once, for the user who asks again while something does not listen. nil
	// leaves that to the command's own end.
	Exit func(code int)

	chat   io.Writer // Stderr, or nothing where only what went wrong is said
	compat *compat   // the dialect a run speaks; nil: vLLM's of today
}

// exit is how a command ends with a code after having said all there is to say.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usage is a mistake in how a command was called.
type usage struct {
	command string
	err     error
}

func (u usage) Error() string { return u.err.Error() }
func (u usage) Unwrap() error { return u.err }

// Run runs one command line and returns the exit code.
func Run(ctx context.Context, p Process) int {
	p.Stdout = escape.NewWriter(p.Stdout) // names come from servers and files, and a terminal obeys control characters
	err := newRoot(p).ExecuteContext(ctx)
	var done exit
	var bad usage
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &done):
		return done.code
	case errors.As(err, &bad):
		complain(p.Stderr, bad.command, err)
		say(p.Stderr, "run '%s --help' for what it takes\n", bad.command)
		return ExitUsage
	}
	complain(p.Stderr, "spate", err)
	return exitOf(err)
}

// exitOf is the exit code of a command that could not do what was asked. A file that is not there is a
// mistake on the command line, whichever command reads it.
func exitOf(err error) int {
	var net *net.OpError
	var server *launch.Failure
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrUnknown)
	if missing && !errors.As(err, &net) && !errors.As(err, &server) {
		return ExitUsage
	}
	return ExitFailed
}

// complain prints an error, each line of it under the command's name, without secrets.
func complain(w io.Writer, command string, err error) {
	for line := range strings.SplitSeq(secret.Text(err.Error()), "\n") {
		say(w, "%s: %s\n", command, line)
	}
}

// say prints for people, without what a terminal would obey; when it is gone there is nobody left to tell.
func say(w io.Writer, format string, args ...any) {
	escape.Print(w, format, args...)
}

// raw is standard output for bytes that are no text, such as a picture.
func (p Process) raw() io.Writer {
	if t, ok := p.Stdout.(*escape.Writer); ok {
		return t.Raw()
	}
	return p.Stdout
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
  spate bench --help                     all the ways to say what and when to send`,
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
		return usage{cmd.CommandPath(), err}
	})
	root.AddCommand(
		newBench(p), newDemo(p), newSweep(p), newCapacity(p), newLaunch(p), newRecord(p),
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

// renamed lets flags be called by the names they had before, too.
func renamed(f *pflag.FlagSet, names map[string]string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if now, ok := names[name]; ok {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// usageArgs makes a wrong number of arguments a usage mistake.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return usage{cmd.CommandPath(), err}
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
	err := fmt.Errorf("unknown command %q%s", args[0], config.DidYouMean(args[0], names))
	if args[0] == "serve" && !cmd.HasParent() {
		err = errors.New(`unknown command "serve": did you mean "bench serve"?`)
	}
	return usage{cmd.CommandPath(), err}
}
