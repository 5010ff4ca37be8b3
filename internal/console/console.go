// Package console is what a command has of the process it runs in: its streams, environment and files, the signals that
// end it (signals.go), its exit codes, and how it tells what it does while that takes long (waiting.go). Package cli
// hands it to the rooms that do a command's work. Read this file first.
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"spate/internal/nearest"
	"spate/internal/safe/escape"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// Exit codes, the same for every command; docs/failures.md has them for users.
const (
	ExitDone        = 0
	ExitFailed      = 1 // no request succeeded, failures ended the run, or spate could not do what was asked
	ExitUsage       = 2 // the command line is wrong, or names a file that is not there
	ExitUnmet       = 3 // an objective that was asked for is not met
	ExitInterrupted = 130
)

// Process is what a command may use of the process it runs in, so that tests can replace it.
type Process struct {
	Args     []string // without the program's name
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Env      func(name string) (string, bool)
	Getwd    func() (string, error)
	ReadFile func(name string) ([]byte, error)

	Version string // of spate
	Tool    string // spate with its version, commit and platform in one line

	// Interrupts starts the delivery of interrupt and termination signals; until a command calls
	// it, they end the process as usual. nil means there are none.
	Interrupts func() (signals <-chan os.Signal, stop func())

	// Exit ends the process at once, for the user who asks again while something does not listen. nil
	// leaves that to the command's own end.
	Exit func(code int)
}

// ExitError is how a command ends with a code after having said all there is to say.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Exit ends a command with a code.
func Exit(code int) error { return &ExitError{code} }

// UsageError is a mistake in how a command was called.
type UsageError struct {
	Command string
	err     error
}

func (u *UsageError) Error() string { return u.err.Error() }
func (u *UsageError) Unwrap() error { return u.err }

// UsageIf makes an error a mistake in how a command was called, where it is one.
func UsageIf(mistake bool, command string, err error) error {
	if mistake {
		return Usage(command, err)
	}
	return err
}

// Usage makes an error a mistake in how a command was called.
func Usage(command string, err error) error { return &UsageError{command, err} }

// UnknownCommand answers a name that no command below this one has; names are those there are.
func UnknownCommand(command, name string, names []string) error {
	return Usage(command, fmt.Errorf("unknown command %q%s", name, nearest.Hint(name, names)))
}

// Complain prints an error, each line of it under the command's name, without secrets.
func Complain(w io.Writer, command string, err error) {
	for line := range strings.SplitSeq(secret.Text(err.Error()), "\n") {
		Say(w, "%s: %s\n", command, line)
	}
}

// Say prints for people, without control characters that a terminal would obey. Errors are ignored: there is no other
// place to report them.
func Say(w io.Writer, format string, args ...any) {
	escape.Print(w, format, args...)
}

// Escaped is a process whose standard output takes text only: names come from servers and files, and a terminal obeys
// control characters.
func (p Process) Escaped() Process {
	p.Stdout = escape.NewWriter(p.Stdout)
	return p
}

// Raw is standard output for bytes that are no text, such as a picture.
func (p Process) Raw() io.Writer {
	if t, ok := p.Stdout.(*escape.Writer); ok {
		return t.Raw()
	}
	return p.Stdout
}

// Say tells something on standard error.
func (p Process) Say(format string, args ...any) { Say(p.Stderr, format, args...) }

// Print puts text on standard output.
func (p Process) Print(format string, args ...any) { Say(p.Stdout, format, args...) }

// Note tells something in a line of its own on standard error.
func (p Process) Note(format string, args ...any) { p.Say(format+"\n", args...) }

// JSON puts a value on standard output.
func (p Process) JSON(v any) error { return p.encode(v, " ") }

// WideJSON is JSON with wider indents.
func (p Process) WideJSON(v any) error { return p.encode(v, "  ") }

func (p Process) encode(v any, indent string) error {
	enc := json.NewEncoder(p.Stdout)
	enc.SetIndent("", indent)
	return Wrote(enc.Encode(v))
}

// Wrote says where an error came from that standard output gave.
func Wrote(err error) error {
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// ReadNamed reads a file that the user names, and says which where that fails.
func (p Process) ReadNamed(name string) ([]byte, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}

// Getenv is a variable of the environment; empty when it is not set.
func (p Process) Getenv(name string) string {
	v, _ := p.Env(name)
	return v
}

// Home is the user's folder.
func (p Process) Home() string { return p.Getenv("HOME") }

// View says how progress can be shown on standard error.
func (p Process) View(ui config.UI) live.Options {
	f, ok := p.Stderr.(*os.File)
	if !ok || ui == config.UIPlain {
		return live.Options{}
	}
	opt := live.Terminal(int(f.Fd()), p.Getenv)
	opt.TTY = opt.TTY || ui == config.UILive
	return opt
}

// Width is that of the terminal on standard output; 0: it is none.
func (p Process) Width() int {
	f, ok := p.Raw().(*os.File)
	if !ok {
		return 0
	}
	opt := live.Terminal(int(f.Fd()), p.Getenv)
	if !opt.TTY {
		return 0
	}
	return opt.Width()
}
