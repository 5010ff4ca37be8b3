package dataset

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/token/tokenizer"
)

// textForms are the forms that hold text.
var textForms = []string{"sharegpt", "custom"}

// Forms are the forms of files that can be converted.
func Forms() []string { return slices.Concat(textForms, traceForms) }

// Conversion turns one form of dataset into another.
type Conversion struct {
	From, To  string
	Tokenizer *tokenizer.Tokenizer // counts and makes tokens; nil: lengths of text are estimates
	Chunk     int                  // tokens of a block; 0: as the form has it
	Rate      float64              // requests per second, evenly spaced, where the file has no times
}

// Read reads a file; write then writes it in the other form.
func (f *Conversion) Read(ctx context.Context, path string) (write func(io.Writer) error, notes []string, err error) {
	form, _ := Format(f.From, f.Chunk) // that of text is Mooncake's, for blocks
	target, _ := Format(f.To, f.Chunk)
	var rows []promptRow
	switch {
	case slices.Contains(textForms, f.From):
		rows, notes, err = f.promptRows(ctx, path, target.Chunk)
	case slices.Contains(textForms, f.To):
		rows, notes, err = f.promptRows(ctx, path, form.Chunk)
	default:
		var plain []trace.Row
		plain, err = Read(path, f.From, form)
		for _, r := range plain {
			rows = append(rows, promptRow{Row: r})
		}
	}
	if err != nil {
		return nil, notes, err
	}
	return func(w io.Writer) error {
		if slices.Contains(textForms, f.To) {
			return writeTexts(w, rows, f.To)
		}
		return Write(w, f.traced(rows, form.Chunk, target.Chunk), f.To, target)
	}, notes, nil
}

// traced makes rows fit for a trace: their own times or even ones, lengths in tokens, blocks of the size it has.
func (f *Conversion) traced(rows []promptRow, from, to int) []trace.Row {
	out := make([]trace.Row, len(rows))
	for i, r := range rows {
		out[i] = r.Row
		if r.text != "" {
			out[i].In = r.tokens
		}
		if f.Rate > 0 && out[i].At == 0 {
			out[i].At = time.Duration(float64(i) / f.Rate * float64(time.Second))
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
func (f *Conversion) promptRows(ctx context.Context, path string, chunk int) (rows []promptRow, notes []string, err error) {
	cfg, err := workload.Default(f.From)
	if err != nil {
		return nil, notes, err
	}
	cfg.Path, cfg.Open, cfg.NoShuffle, cfg.NoOversample, cfg.SkipTemplate, cfg.N = path, open, true, true, true, 1<<30
	switch f.From {
	case "custom":
		cfg.N = 0
	case "burstgpt":
		cfg.N, cfg.SelfTimed = 0, true
	case "mooncake", "timed_trace":
		cfg.N, cfg.Trace.Format.Chunk = 0, chunk
	}
	stream, err := workload.New(cfg, workload.Wrap(f.Tokenizer), nil)
	if err != nil {
		return nil, notes, err
	}
	rows, err = rowsOf(ctx, stream, f.Tokenizer, chunk)
	times, timesErr := stream.Times()
	notes = stream.Notes()
	if err = errors.Join(err, timesErr, stream.Close()); err != nil {
		return nil, notes, err
	}
	for i := range min(len(times), len(rows)) {
		rows[i].At = times[i]
	}
	return rows, notes, nil
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
