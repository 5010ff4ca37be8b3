// Package dataset looks at workloads before they are sent, makes traces from statistics, and turns one form of dataset
// into another: what spate dataset does. Requests are made by workload, as for a run; traces are read and written by
// trace. Read StatsOf, Wish.Rows and Conversion.Read.
package dataset

import (
	"fmt"
	"io"
	"math"
	"strings"

	"spate/internal/load/lengths"
	"spate/internal/load/schedule"
	"spate/internal/load/trace"
	"spate/internal/nearest"
	"spate/internal/rng"
	"spate/internal/safe/infile"
	"spate/internal/settings/config"
)

// Wish is a trace to draw: lengths, arrivals and shared beginnings.
type Wish struct {
	Requests    int
	Rate, Burst float64 // requests per second, infinite for all at once; shape of the gaps
	In, Out     string  // lengths: a number or a law such as normal(480,240)
	Groups      int     // of prompts that begin alike
	Share       float64 // of each prompt, its group has in common
	Seed        uint64
}

// Rows draws the trace, with blocks of this many tokens.
func (f *Wish) Rows(chunk int) ([]trace.Row, error) {
	lengths, err := lengths.Pairs(f.In, f.Out, f.Seed, open)
	if err != nil {
		return nil, err
	}
	spec := trace.Spec{Requests: f.Requests, Chunk: chunk, Groups: f.Groups, Share: f.Share, Length: lengths, Group: rng.New(f.Seed, "groups").IntN}
	if !math.IsInf(f.Rate, 1) {
		s := schedule.Settings{RequestRate: config.Float(f.Rate), Burstiness: config.Float(f.Burst)}
		a, err := (&schedule.Run{Settings: &s, N: f.Requests, Seed: uint32(f.Seed)}).Arrivals()
		if err != nil {
			return nil, err
		}
		spec.Due = a.Plan.Due
	}
	return trace.Make(spec)
}

// traceForms are the forms that hold no text.
var traceForms = []string{"mooncake", "timed_trace", "burstgpt"}

// Format is the form of a trace by its name; chunk, where above 0, is the size of its blocks.
func Format(name string, chunk int) (trace.Format, error) {
	form := trace.Mooncake()
	switch name {
	case "mooncake", "burstgpt":
	case "timed_trace":
		form = trace.Timed()
	default:
		return form, fmt.Errorf("form %q is unknown%s (there are %s)", name, nearest.Hint(name, traceForms), strings.Join(traceForms, ", "))
	}
	if chunk > 0 {
		form.Chunk = chunk
	}
	return form, nil
}

// Read reads a trace.
func Read(path, name string, form trace.Format) ([]trace.Row, error) {
	file, err := infile.Open(path, infile.MaxDataset)
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if name != "burstgpt" {
		rows, err := trace.Read(file, form, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return rows, nil
	}
	all, err := trace.ReadBurst(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	rows := make([]trace.Row, len(all))
	for i := range all {
		rows[i] = all[i].Row
	}
	return rows, nil
}

// Write writes a trace.
func Write(w io.Writer, rows []trace.Row, name string, form trace.Format) error {
	if name == "burstgpt" {
		return trace.WriteBurst(w, rows, "GPT-4")
	}
	return trace.Write(w, rows, form)
}

// Like draws a trace like another: lengths, pauses and shared blocks are those of its rows.
func Like(have []trace.Row, n, chunk int, seed uint64) ([]trace.Row, error) {
	return trace.Like(have, n, chunk, rng.New(seed, "rows").IntN, rng.New(seed, "gaps").IntN)
}
