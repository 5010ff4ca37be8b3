package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/load/build"
	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/nearest"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

// StatsCommand is `spate dataset stats`. Beside its own flags it takes those of bench.
type StatsCommand struct {
	json  bool
	block int
}

// Flags are those of the command itself.
func (o *StatsCommand) Flags() *pflag.FlagSet {
	f := flags.NewSet("stats")
	f.BoolVar(&o.json, "json", false, "print a JSON object instead of text")
	f.IntVar(&o.block, "block", 16, "tokens of a cache block, for datasets other than traces")
	return f
}

// Run makes the requests and shows them; own are the flags that Flags made.
func (o *StatsCommand) Run(ctx context.Context, p console.Process, own *pflag.FlagSet, args []string) error {
	const name = "spate dataset stats"
	line, err := flags.Divide(own, args)
	if err != nil {
		return console.Usage(name, err)
	}
	r, err := flags.ParseOne(line.Bench, flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "dataset stats-"}, name)
	if err != nil {
		return console.UsageIf(flags.Mistake(err), name, err)
	}
	if o.block < 1 {
		return console.Usage(name, fmt.Errorf("--block %d: a block has at least one token", o.block))
	}
	tok, err := build.Tokenizer(&r.Bench.Model, p.Getenv, p.Home())
	if err != nil {
		return err
	}
	st, err := StatsOf(ctx, r.Bench, tok, func(h *workload.HF) { h.Look(p.Getenv, p.Home()) }, o.block)
	if err != nil {
		return err
	}
	st.Notes = append(r.Notes, st.Notes...)
	if o.json {
		return p.WideJSON(st)
	}
	return st.Write(p.Stdout)
}

// MakeCommand is `spate dataset make`.
type MakeCommand struct {
	Wish
	chunk         int
	like, to, out string
}

// Bind adds the flags to a set.
func (f *MakeCommand) Bind(fs *pflag.FlagSet) {
	fs.IntVar(&f.Requests, "requests", 1000, "rows to write")
	fs.Float64Var(&f.Rate, "rate", 1, "requests per second; inf sends all at once")
	fs.Float64Var(&f.Burst, "burstiness", 1, "how much the gaps between requests vary: 1 is Poisson, below 1 is burstier, inf is constant")
	fs.StringVar(&f.In, "isl", "1024", "prompt lengths: a number or a distribution such as normal(480,240)")
	fs.StringVar(&f.Out, "osl", "128", "output lengths: a number or a distribution")
	fs.IntVar(&f.Groups, "groups", 1, "number of groups of prompts with a common beginning")
	fs.Float64Var(&f.Share, "share", 0, "share of each prompt that its group has in common, 0 to 1")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.StringVar(&f.like, "like", "", "trace to draw from, in the form of --to")
	fs.StringVar(&f.to, "to", "mooncake", "form: mooncake, timed_trace or burstgpt")
	fs.Uint64Var(&f.Seed, "seed", 0, "seed of everything that is drawn")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
}

// Run writes the trace.
func (f *MakeCommand) Run(p console.Process) error {
	bad := func(err error) error { return console.Usage("spate dataset make", err) }
	form, err := Format(f.to, f.chunk)
	if err != nil {
		return bad(err)
	}
	var rows []trace.Row
	if f.like != "" {
		have, err := Read(f.like, f.to, form)
		if err != nil {
			return err
		}
		rows, err = Like(have, f.Requests, form.Chunk, f.Seed)
		if err != nil {
			return bad(err)
		}
	} else if rows, err = f.Rows(form.Chunk); err != nil {
		return bad(err)
	}
	return writeOut(p, f.out, func(w io.Writer) error { return Write(w, rows, f.to, form) })
}

// writeOut writes to a file, or to standard output.
func writeOut(p console.Process, name string, write func(io.Writer) error) error {
	if name == "-" || name == "" {
		return write(p.Stdout)
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write dataset: %w", err)
	}
	return errors.Join(write(file), file.Close())
}

// ConvertCommand is `spate dataset convert`.
type ConvertCommand struct {
	Conversion
	out, tokenizer string
}

// Bind adds the flags to a set.
func (f *ConvertCommand) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.From, "from", "", "form of the file: sharegpt, custom, mooncake, timed_trace or burstgpt")
	fs.StringVar(&f.To, "to", "", "form to write, one of the same")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer that counts and makes tokens; without it, lengths of text are estimates")
	fs.IntVar(&f.Chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.Float64Var(&f.Rate, "rate", 0, "requests per second, evenly spaced, where the file has no times")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
}

// Run converts a file.
func (f *ConvertCommand) Run(ctx context.Context, p console.Process, path string) error {
	all := Forms()
	for i, form := range []string{f.From, f.To} {
		if flag := []string{"from", "to"}[i]; !slices.Contains(all, form) {
			return console.Usage("spate dataset convert", fmt.Errorf("--%s %q is none of %s%s", flag, form, strings.Join(all, ", "), nearest.Hint(form, all)))
		}
	}
	tok, err := build.Tokenizer(&config.Model{Tokenizer: f.tokenizer}, p.Getenv, p.Home())
	if err != nil {
		return err
	}
	f.Tokenizer = tok
	write, notes, err := f.Read(ctx, path)
	for _, n := range notes {
		p.Say("note: %s\n", n)
	}
	if err != nil {
		return err
	}
	return writeOut(p, f.out, write)
}
