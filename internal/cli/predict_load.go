package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/forecast/predict"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// Commands that simulate take flags of their own beside those of bench, which follow argparse's rules, so
// cobra reads neither. This file has what these commands share.

// mixedFlags are a command line of which some flags are the command's own.
type mixedFlags struct {
	bench []string            // the rest
	lists map[string][]string // flags that were given several values
}

// divideFlags tells a command's own flags, which it reads, from those of bench. Of the flags named in grid, and
// of whole-numbered ones of its own when there are any, lists of values are set aside.
func divideFlags(own *pflag.FlagSet, args, grid []string) (*mixedFlags, error) {
	out := &mixedFlags{lists: map[string][]string{}}
	var mine []string
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if args[i] == "-h" {
			name = "help"
		}
		flag, isGrid := own.Lookup(name), slices.Contains(grid, name)
		if !strings.HasPrefix(args[i], "-") || flag == nil && !isGrid {
			out.bench = append(out.bench, args[i])
			continue
		}
		if takesValue := flag == nil || flag.NoOptDefVal == ""; takesValue && !joined {
			if i++; i >= len(args) {
				return nil, fmt.Errorf("--%s needs a value", name)
			}
			value, joined = args[i], true
		}
		switch {
		case joined && strings.Contains(value, ",") && (isGrid || len(grid) > 0 && flag.Value.Type() == "int"):
			out.lists[name] = strings.Split(value, ",")
		case isGrid:
			out.bench = append(out.bench, "--"+name, value)
		case joined:
			mine = append(mine, "--"+name+"="+value)
		default:
			mine = append(mine, "--"+name)
		}
	}
	return out, own.Parse(mine)
}

// benchSettings reads bench's flags for a command that simulates.
func benchSettings(p Process, command string, args []string) (*flags.Result, error) {
	r, err := flags.Parse(args, flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: command + "-"})
	if err != nil {
		if isUsage(err) {
			return nil, console.Usage("spate "+command, err)
		}
		return nil, err
	}
	if r.Help {
		return nil, console.Usage("spate "+command, errors.New("help for bench's flags: spate bench --help"))
	}
	if err := oneWorkload(r.Bench, "spate "+command); err != nil {
		return nil, console.Usage("spate "+command, err)
	}
	return r, nil
}

// local makes prompts with what lies on this machine.
func local(p Process) predict.Local {
	return predict.Local{Getenv: p.Getenv, Home: p.Home(), Note: func(format string, args ...any) { p.Say(format+"\n", args...) }}
}

// newLoad is what bench would send, for a simulated server.
func newLoad(p Process, command string, c *config.Bench) (*predict.Load, error) {
	l, err := local(p).Load(c)
	if err != nil {
		return nil, console.Usage("spate "+command, err)
	}
	return l, nil
}
