package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/forecast/predict"
	"spate/internal/load/build"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/token/tokenizer"
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
			return nil, usage{"spate " + command, err}
		}
		return nil, err
	}
	if r.Help {
		return nil, usage{"spate " + command, errors.New("help for bench's flags: spate bench --help")}
	}
	if err := oneWorkload(r.Bench, "spate "+command); err != nil {
		return nil, usage{"spate " + command, err}
	}
	return r, nil
}

// newLoad is what bench would send, for a simulated server.
func newLoad(p Process, command string, c *config.Bench) (*predict.Load, error) {
	if n := c.Load.NumWarmups; n > 0 || c.Load.WarmupDuration > 0 {
		say(p.Stderr, "note: warm-up requests are not predicted; the server begins idle\n")
	}
	prompts, err := localPrompts(p, c)
	if err != nil {
		return nil, usage{"spate " + command, err}
	}
	l, err := predict.NewLoad(c, prompts)
	if err != nil {
		return nil, usage{"spate " + command, err}
	}
	return l, nil
}

// localPrompts are what prompts are made with where no server is asked.
func localPrompts(p Process, c *config.Bench) (predict.Prompts, error) {
	out := predict.Prompts{Look: func(h *workload.HF) { h.Look(p.getenv, p.home()) }}
	tok, err := localTokenizer(p, &c.Model)
	if err != nil || tok == nil {
		if err == nil && (c.Dataset.Path != "" || c.Dataset.Name == config.DatasetSonnet) { // which brings its own text
			say(p.Stderr, "note: no tokenizer at hand (--tokenizer PATH): lengths are estimates by words\n")
		}
		return out, err
	}
	out.Tokenizer = tok
	out.Template, err = build.Template(tok, c.Body.ChatTemplate, time.Now)
	if err != nil {
		say(p.Stderr, "note: the chat template cannot be used: %v\n", err)
	}
	return out, nil
}

// localTokenizer finds the tokenizer that was named, or that of the model if it lies on this machine.
func localTokenizer(p Process, m *config.Model) (*tokenizer.Tokenizer, error) {
	name, find := m.Tokenizer, tokenizer.Find
	if name == "" {
		name, find = m.ID, tokenizer.FindModel
	}
	if name == "" || m.SkipTokenizerInit {
		return nil, nil
	}
	path, err := find(name, tokenizer.PlacesFrom(p.getenv, p.home()))
	if err != nil {
		if m.Tokenizer == "" {
			return nil, nil
		}
		return nil, fmt.Errorf("--tokenizer: %w", err)
	}
	tok, err := tokenizer.Load(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	return tok, nil
}
