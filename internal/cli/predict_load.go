package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/call"
	"spate/internal/forecast/predict"
	"spate/internal/load/build"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/sim/cluster"
	"spate/internal/sim/kv"
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

// mixedHelp prints the help of a command with flags of its own beside those of bench.
func mixedHelp(p Process, cmd *cobra.Command, own *pflag.FlagSet) {
	text := cmd.Short
	if cmd.Long != "" {
		text = cmd.Long
	}
	say(p.Stdout, "%s\n\nUsage:\n  spate %s\n\nExamples:\n%s\n\nFlags of its own (spate bench --help tells the others):\n%s",
		text, cmd.Use, cmd.Example, own.FlagUsages())
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
	if c.SelfTimed() || c.Dataset.Talks() {
		return nil, usage{"spate " + command, errors.New("neither a trace's own times nor conversations are predicted: " +
			"--no-self-timed with --request-rate takes a trace's prompts at a rate")}
	}
	var l *predict.Load
	var err error
	if lengthsKnown(&c.Dataset) {
		l, err = predict.NewLoad(c)
	} else {
		l, err = loadFromFile(p, c)
	}
	if err != nil {
		return nil, usage{"spate " + command, err}
	}
	return l, nil
}

// lengthsKnown reports whether requests can be had without making prompts: random ones by their lengths,
// and conversations by the well-known spread of theirs when no file is named.
func lengthsKnown(d *config.Dataset) bool {
	return d.Name == config.DatasetRandom || d.Name == config.DatasetShareGPT && d.Path == ""
}

// loadFromFile makes the very prompts that bench would send, and keeps what the server's time depends on.
func loadFromFile(p Process, c *config.Bench) (*predict.Load, error) {
	tok, err := localTokenizer(p, &c.Model)
	if err != nil {
		return nil, err
	}
	if tok == nil {
		say(p.Stderr, "note: no tokenizer at hand (--tokenizer PATH): lengths are estimates, and prompts are taken to share nothing\n")
	}
	wcfg := build.Workload(c, openDataset, c.Model.SkipTokenizerInit)
	wcfg.HF.Look(p.getenv, p.home())
	wcfg.SkipTemplate = true // a template adds tokens, and which one is the server's affair
	return predict.NewLoadFrom(c, func(n int) ([]predict.Request, error) {
		if c.Load.NumPrompts == 0 && (wcfg.Endless || c.Dataset.Name != config.DatasetCustom) {
			wcfg.N = n
		}
		stream, err := workload.New(wcfg, workload.Wrap(tok), nil)
		if err != nil {
			return nil, err
		}
		list, err := drained(stream, tok, n)
		return list, errors.Join(err, stream.Close())
	})
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

// drained takes n requests out of a stream.
func drained(stream *workload.Stream, tok *tokenizer.Tokenizer, n int) ([]predict.Request, error) {
	var enc *tokenizer.Encoder
	if tok != nil {
		enc = tok.NewEncoder()
	}
	var out []predict.Request
	for len(out) < n {
		r, err := stream.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("make requests: %w", err)
		}
		one := predict.Request{Call: cluster.Call{Prompt: segments(&r, enc, len(out)), Out: max(1, r.MaxOut)}}
		one.MaxOut = one.Out
		out = append(out, one)
	}
	return out, nil
}

// promptBlock is the number of tokens that get a name together.
const promptBlock = 16

// segments name a prompt for the prefix cache: equal beginnings have equal names.
func segments(r *call.Request, enc *tokenizer.Encoder, index int) []kv.Segment {
	ids := r.Prompt.IDs
	if text := r.Prompt.Text + string(r.Prompt.Messages); enc != nil && len(ids) == 0 && text != "" {
		ids = enc.Encode(nil, text, true)
	}
	if len(ids) == 0 {
		return []kv.Segment{{Stream: 1<<50 + uint64(index), Len: max(1, r.In.N)}}
	}
	var out []kv.Segment
	for len(ids) > 0 {
		n := min(promptBlock, len(ids))
		h := fnv.New64a()
		for _, id := range ids[:n] {
			_, _ = h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}) // a hash takes all
		}
		out = append(out, kv.Segment{Stream: h.Sum64() | 1, Len: n})
		ids = ids[n:]
	}
	return out
}
