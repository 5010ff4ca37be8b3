package flags

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/nearest"
	"spate/internal/settings/config"
)

// Some commands take flags of their own beside those of bench, which follow argparse's rules. This file has what these
// commands share.

// NewSet is a set for the flags of such a command, with --help.
func NewSet(command string) *pflag.FlagSet {
	f := pflag.NewFlagSet(command, pflag.ContinueOnError)
	f.BoolP("help", "h", false, "help for this command")
	return f
}

// Divided is a command line of which some flags are the command's own.
type Divided struct {
	Bench []string            // the rest
	Lists map[string][]string // flags that were given several values
}

// Divide tells a command's own flags, which it reads, from those of bench. Of the flags of bench named in grid, and of
// whole-numbered ones of the command when there are any, lists of values are set aside. The error for --help is
// pflag.ErrHelp.
func Divide(own *pflag.FlagSet, args []string, grid ...string) (*Divided, error) {
	out := &Divided{Lists: map[string][]string{}}
	var mine []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		flag, isGrid := ownFlag(own, args[i], name), slices.Contains(grid, fold(name))
		if !strings.HasPrefix(args[i], "-") || flag == nil && !isGrid {
			out.Bench = append(out.Bench, args[i])
			continue
		}
		name = fold(name)
		if flag != nil {
			name = flag.Name
		}
		if takesValue := flag == nil || flag.NoOptDefVal == ""; takesValue && !joined {
			if i++; i >= len(args) {
				return nil, fmt.Errorf("--%s needs a value", name)
			}
			if value, joined = args[i], true; name == "predict" && strings.HasPrefix(value, "-") {
				return nil, noProfile(args[i:])
			}
		}
		switch {
		case joined && strings.Contains(value, ",") && (isGrid || len(grid) > 0 && flag.Value.Type() == "int"):
			out.Lists[name] = strings.Split(value, ",")
		case isGrid:
			out.Bench = append(out.Bench, "--"+name, value)
		case joined:
			mine = append(mine, "--"+name+"="+value)
		default:
			mine = append(mine, "--"+name)
		}
	}
	if err := own.Parse(mine); err != nil {
		return nil, err
	}
	if help, _ := own.GetBool("help"); help { // false where there is none
		return nil, pflag.ErrHelp
	}
	return out, nil
}

// ownFlag is the command's flag that a word names; nil: none.
func ownFlag(own *pflag.FlagSet, word, name string) *pflag.Flag {
	if len(name) == 1 && !strings.HasPrefix(word, "--") {
		return own.ShorthandLookup(name)
	}
	return own.Lookup(fold(name))
}

// noProfile is the error for a --predict that a flag follows. The profile may be where tune takes it: after --sim.
func noProfile(after []string) error {
	name, value, joined := strings.Cut(after[0], "=")
	if !joined && len(after) > 1 {
		value = after[1]
	}
	if name != "--sim" {
		value = ""
	}
	return fmt.Errorf("--predict needs a profile, not %s: say --predict=%s (spate predict --list shows all)", name, cmp.Or(value, "PROFILE"))
}

// ParseBeside reads bench's flags for another command.
func ParseBeside(args []string, opt Options) (*Result, error) {
	r, err := Parse(args, opt)
	if err == nil && r.Help {
		return nil, &Error{Text: "help for bench's flags: spate bench --help"}
	}
	return r, err
}

// ParseOne reads bench's flags for a command that changes the load of one workload.
func ParseOne(args []string, opt Options, command string) (*Result, error) {
	r, err := ParseBeside(args, opt)
	switch {
	case err != nil:
		return nil, err
	case len(r.Bench.Tenants) > 0:
		return nil, &Error{Text: fmt.Sprintf("the config file lists tenants, and %s takes only one workload", command), Hint: "spate bench runs several"}
	}
	return r, nil
}

// Mistake reports whether an error is the user's mistake rather than a failure.
func Mistake(err error) bool {
	var bad *Error
	var problems config.Problems
	return errors.As(err, &bad) || errors.As(err, &problems)
}

// Choice refuses a flag's value that is none of a list.
func Choice[T ~string](flag string, v T, list ...T) error {
	if slices.Contains(list, v) {
		return nil
	}
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = string(l)
	}
	return fmt.Errorf("--%s: %q is not one of %s%s", flag, v, strings.Join(names, ", "), nearest.Hint(string(v), names))
}

// Rename lets flags be called by the names they had before, too.
func Rename(f *pflag.FlagSet, names map[string]string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(names[name], name))
	})
}
