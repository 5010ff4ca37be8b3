package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
	"spate/internal/token/tokenizer"
)

// textForms are the forms that hold prompts.
var textForms = []string{"sharegpt", "custom"}

// convertFlags are those of `spate dataset convert`.
type convertFlags struct {
	from, to, out, tokenizer string
	chunk                    int
	rate                     float64
}

func newDatasetConvert(p Process) *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert --from FORM --to FORM [flags] FILE",
		Short: "Turn a dataset into another form",
		Long: `Turn a file of one form into another: sharegpt, custom (JSON lines of prompts), mooncake, timed_trace and
burstgpt.

A trace made from prompts holds their lengths and, as block ids, which beginnings they share; nothing of the
text is in it. Prompts made from a trace are words or random tokens with exactly that structure.`,
		Example: `  spate dataset convert --from sharegpt --to mooncake --rate 2 chats.json -o chats.jsonl
  spate dataset convert --from mooncake --to custom --tokenizer Qwen/Qwen3-8B trace.jsonl -o prompts.jsonl
  spate dataset convert --from burstgpt --to timed_trace burst.csv -o burst.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d files named: one is converted at a time", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runDatasetConvert(cmd.Context(), p, &f, args[0]) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "form of the file: sharegpt, custom, mooncake, timed_trace or burstgpt")
	fs.StringVar(&f.to, "to", "", "form to write, one of the same")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer that counts and makes tokens; without it, lengths of text are estimates")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.Float64Var(&f.rate, "rate", 0, "requests per second, evenly spaced, where the file has no times")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
	return cmd
}

func runDatasetConvert(ctx context.Context, p Process, f *convertFlags, path string) error {
	all := append(slices.Clone(textForms), traceForms...)
	for flag, form := range map[string]string{"from": f.from, "to": f.to} {
		if !slices.Contains(all, form) {
			return usage{"spate dataset convert", fmt.Errorf("--%s %q is none of %s%s", flag, form, strings.Join(all, ", "), config.DidYouMean(form, all))}
		}
	}
	tok, err := p.local().Tokenizer(&config.Model{Tokenizer: f.tokenizer})
	if err != nil {
		return err
	}
	form, _ := traceFormat(f.from, f.chunk) // that of text is Mooncake's, for blocks
	target, _ := traceFormat(f.to, f.chunk)
	var rows []promptRow
	switch {
	case slices.Contains(textForms, f.from):
		rows, err = promptRows(ctx, p, f, path, tok, target.Chunk)
	case slices.Contains(textForms, f.to):
		rows, err = promptRows(ctx, p, f, path, tok, form.Chunk)
	default:
		var plain []trace.Row
		plain, err = readRows(path, f.from, form)
		for _, r := range plain {
			rows = append(rows, promptRow{Row: r})
		}
	}
	if err != nil {
		return err
	}
	return writeOut(p, f.out, func(w io.Writer) error {
		if slices.Contains(textForms, f.to) {
			return writeTexts(w, rows, f.to)
		}
		return writeRows(w, f.traced(rows, form.Chunk, target.Chunk), f.to, target)
	})
}

// traced makes rows fit for a trace: their own times or even ones, lengths in tokens, blocks of the size it has.
func (f *convertFlags) traced(rows []promptRow, from, to int) []trace.Row {
	out := make([]trace.Row, len(rows))
	for i, r := range rows {
		out[i] = r.Row
		if r.text != "" {
			out[i].In = r.tokens
		}
		if f.rate > 0 && out[i].At == 0 {
			out[i].At = time.Duration(float64(i) / f.rate * float64(time.Second))
		}
		if r.text == "" && from != to && out[i].Blocks != nil {
			out[i].Blocks = resized(&r.Row, from, to)
		}
	}
	return out
}

// resized names blocks of another size. Smaller ones are numbered within the larger; larger ones are named by all
// they hold, so that equal beginnings stay equal up to whole blocks.
func resized(r *trace.Row, from, to int) []uint64 {
	n := (r.Tokens(from) + to - 1) / to
	out := make([]uint64, n)
	h := uint64(14695981039346656037)
	last := -1
	for i := range out {
		end := min((i+1)*to, r.Tokens(from)) - 1
		for last < end/from {
			last++
			h = (h ^ r.Blocks[last]) * 1099511628211
		}
		out[i] = ((h ^ uint64(i)) * 1099511628211) >> 11 // as many bits as a JSON number keeps
	}
	return out
}

// promptRows makes the requests of a file.
func promptRows(ctx context.Context, p Process, f *convertFlags, path string, tok *tokenizer.Tokenizer, chunk int) ([]promptRow, error) {
	cfg, err := workload.Default(f.from)
	if err != nil {
		return nil, err
	}
	cfg.Path, cfg.Open, cfg.NoShuffle, cfg.NoOversample, cfg.SkipTemplate, cfg.N = path, openDataset, true, true, true, 1<<30
	switch f.from {
	case "custom":
		cfg.N = 0
	case "burstgpt":
		cfg.N, cfg.SelfTimed = 0, true
	case "mooncake", "timed_trace":
		cfg.N, cfg.Trace.Format.Chunk = 0, chunk
	}
	stream, err := workload.New(cfg, workload.Wrap(tok), nil)
	if err != nil {
		return nil, err
	}
	rows, err := rowsOf(ctx, stream, tok, chunk)
	times, timesErr := stream.Times()
	for _, n := range stream.Notes() {
		say(p.Stderr, "note: %s\n", n)
	}
	if err = errors.Join(err, timesErr, stream.Close()); err != nil {
		return nil, err
	}
	for i := range min(len(times), len(rows)) {
		rows[i].At = times[i]
	}
	return rows, nil
}

// writeTexts writes rows of text.
func writeTexts(w io.Writer, rows []promptRow, form string) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if form == "custom" {
		for _, r := range rows {
			if err := enc.Encode(map[string]any{"prompt": r.text, "output_tokens": r.Out}); err != nil {
				return fmt.Errorf("write dataset: %w", err)
			}
		}
		return out.Flush()
	}
	talks := []any{}
	for i, r := range rows {
		talks = append(talks, map[string]any{"id": fmt.Sprint(i), "conversations": []any{
			map[string]string{"from": "human", "value": r.text},
			map[string]string{"from": "gpt", "value": workload.Words(r.Out, uint64(i))},
		}})
	}
	if err := enc.Encode(talks); err != nil {
		return fmt.Errorf("write dataset: %w", err)
	}
	return out.Flush()
}
