package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/load/build"
	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/safe/infile"
	"spate/internal/settings/config"
	"spate/internal/token/tokenizer"
)

// Stats is what `spate dataset stats` prints.
type Stats struct {
	Dataset  string          `json:"dataset"`
	Requests int             `json:"requests"`
	Input    trace.Spread    `json:"input_tokens"`
	Output   trace.Spread    `json:"output_tokens"`
	Arrivals *trace.Arrivals `json:"arrivals,omitempty"` // null in a closed loop
	Load     string          `json:"load"`
	Hits     Hits            `json:"ideal_prefix_cache"`
	Notes    []string        `json:"notes,omitempty"`
}

// Hits is what a prefix cache without bounds would hit.
type Hits struct {
	Rate   float64 `json:"hit_rate"`
	Tokens int64   `json:"tokens"`
	Hit    int64   `json:"hit"`
	Unit   string  `json:"unit"` // what is counted: tokens, or bytes where there is no tokenizer
	Block  int     `json:"block"`
}

// StatsOf makes the very requests that bench would send, and looks at them. look says where files of the Hugging Face
// hub lie, block is the size of a cache's blocks for datasets other than traces.
func StatsOf(ctx context.Context, c *config.Bench, tok *tokenizer.Tokenizer, look func(*workload.HF), block int) (*Stats, error) {
	wcfg := build.Workload(c, open, c.Model.SkipTokenizerInit)
	look(&wcfg.HF)
	wcfg.Endless = false
	stream, err := workload.New(wcfg, workload.Wrap(tok), nil)
	if err != nil {
		return nil, err
	}
	st := &Stats{Dataset: c.Dataset.Name}
	rows, err := rowsOf(ctx, stream, tok, block)
	if err == nil {
		err = st.arrivals(c, stream, len(rows))
	}
	if ideal, ok := stream.Ideal(); ok && err == nil {
		st.Hits = Hits{ideal.Rate(), ideal.Tokens, ideal.Hit, "tokens", wcfg.Trace.Format.Chunk}
	} else if err == nil {
		st.Hits = hitsOf(rows, tok != nil || wcfg.IDs, block)
	}
	st.Notes = stream.Notes()
	if err = errors.Join(err, stream.Close()); err != nil {
		return nil, err
	}
	var in, out []int
	for _, row := range rows {
		in, out = append(in, row.tokens), append(out, row.Out)
	}
	st.Requests, st.Input, st.Output = len(rows), trace.SpreadOf(in), trace.SpreadOf(out)
	return st, nil
}

func open(path string) (workload.File, error) { return infile.Dataset(path) }

// arrivals looks at when requests would go.
func (st *Stats) arrivals(c *config.Bench, stream *workload.Stream, n int) error {
	a, err := c.Arrivals(max(n, 1), stream.Times).Arrivals()
	if err != nil {
		return err
	}
	st.Load = a.Text
	if a.Plan.Due == nil {
		return nil
	}
	var times []time.Duration
	for t := range a.Plan.Due {
		if times = append(times, t); len(times) >= n {
			break
		}
	}
	look := trace.ArrivalsOf(times)
	st.Arrivals = &look
	return nil
}

// promptRow is a request as a row: its blocks count tokens, or bytes of text where nothing counts tokens.
type promptRow struct {
	trace.Row
	tokens int
	text   string
}

// rowsOf makes all requests of a stream.
func rowsOf(ctx context.Context, stream *workload.Stream, tok *tokenizer.Tokenizer, block int) ([]promptRow, error) {
	var enc *tokenizer.Encoder
	if tok != nil {
		enc = tok.NewEncoder()
	}
	var out []promptRow
	for {
		r, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("make requests: %w", err)
		}
		text := r.Prompt.Text + string(r.Prompt.Messages) + strings.Join(r.Prompt.Texts, "\n")
		row := promptRow{Row: trace.Row{Out: r.MaxOut}, tokens: r.In.N, text: text}
		row.In, row.Blocks = blocksOf(&r, text, enc, block)
		out = append(out, row)
	}
}

// blocksOf cuts a prompt into blocks and names them by what is in them. Without a tokenizer a block is as many
// bytes as its tokens have at four to a token.
func blocksOf(r *call.Request, text string, enc *tokenizer.Encoder, block int) (int, []uint64) {
	ids := r.Prompt.IDs
	if ids == nil && enc != nil {
		ids = enc.Encode(nil, text, true)
	}
	var pieces []string
	n := len(text)
	if ids != nil {
		n = len(ids)
		for part := range slices.Chunk(ids, block) {
			pieces = append(pieces, fmt.Sprint(part))
		}
	} else {
		for rest := text; rest != ""; {
			k := min(len(rest), 4*block)
			pieces = append(pieces, rest[:k])
			rest = rest[k:]
		}
	}
	names := make([]uint64, len(pieces))
	for i, piece := range pieces {
		h := fnv.New64a()
		_, _ = io.WriteString(h, piece) // never fails
		names[i] = h.Sum64() >> 11      // as many bits as a JSON number keeps
	}
	return n, names
}

func hitsOf(rows []promptRow, tokens bool, block int) Hits {
	unit := "tokens"
	if !tokens {
		unit, block = "bytes", 4*block
	}
	list := make([]trace.Row, len(rows))
	for i := range rows {
		list[i] = rows[i].Row
	}
	ideal := trace.IdealHits(list, block)
	return Hits{ideal.Rate(), ideal.Tokens, ideal.Hit, unit, block}
}

// Write prints the figures with bars.
func (st *Stats) Write(w io.Writer) error {
	var b strings.Builder
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s %s\n", label, fmt.Sprintf(format, args...))
	}
	row("dataset", "%s", st.Dataset)
	row("requests", "%d", st.Requests)
	row("load", "%s", st.Load)
	if a := st.Arrivals; a != nil && a.Span > 0 {
		row("arrivals", "%.3f per second over %v, at most %d in a second, gap spread %.2f (Poisson is 1), longest pause %v",
			a.Rate, a.Span.Round(time.Millisecond), a.Peak, a.GapCV, a.Longest.Round(time.Millisecond))
	}
	row("ideal prefix hits", "%.4f%% (%d of %d prompt %s, blocks of %d, an unlimited cache)", 100*st.Hits.Rate, st.Hits.Hit, st.Hits.Tokens, st.Hits.Unit, st.Hits.Block)
	for _, side := range []struct {
		name string
		s    trace.Spread
	}{{"input tokens", st.Input}, {"output tokens", st.Output}} {
		s := side.s
		row(side.name, "%d in all; shortest %d, mean %.1f, median %d, p90 %d, p99 %d, longest %d", s.Total, s.Min, s.Mean, s.P50, s.P90, s.P99, s.Max)
		most := 1
		for _, bar := range s.Bars {
			most = max(most, bar.Count)
		}
		for _, bar := range s.Bars {
			row(fmt.Sprintf("  %d to %d", bar.From, bar.To-1), "%-40s %d", strings.Repeat("#", (bar.Count*40+most-1)/most), bar.Count)
		}
	}
	for _, n := range st.Notes {
		row("note", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
