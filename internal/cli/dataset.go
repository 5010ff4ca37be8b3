package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/call"
	"spate/internal/load/build"
	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/rng"
	"spate/internal/safe/infile"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/token/tokenizer"
)

// newDataset is `spate dataset stats|make|convert`.
func newDataset(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Show a workload before it is sent, make one, or convert one",
		Long: `Show what a workload looks like before anything is sent, make a trace from statistics, or turn one form
of dataset into another.`,
		Example: `  spate dataset stats --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0
  spate dataset make --like trace.jsonl --requests 100000 -o long.jsonl
  spate dataset make --requests 1000 --rate 4 --isl 'lognormal(2000,1500)' --osl 200 --groups 20 --share 0.5 -o made.jsonl
  spate dataset convert --from burstgpt --to mooncake burst.csv -o burst.jsonl
  spate dataset convert --from sharegpt --to mooncake --rate 2 --tokenizer Qwen/Qwen3-8B chats.json -o chats.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(newDatasetStats(p), newDatasetMake(p), newDatasetConvert(p))
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

// workloadStats is what `spate dataset stats` prints.
type workloadStats struct {
	Dataset  string          `json:"dataset"`
	Requests int             `json:"requests"`
	Input    trace.Spread    `json:"input_tokens"`
	Output   trace.Spread    `json:"output_tokens"`
	Arrivals *trace.Arrivals `json:"arrivals,omitempty"` // null in a closed loop
	Load     string          `json:"load"`
	Hits     hitStats        `json:"ideal_prefix_cache"`
	Notes    []string        `json:"notes,omitempty"`
}

// hitStats is what a prefix cache without bounds would hit.
type hitStats struct {
	Rate   float64 `json:"hit_rate"`
	Tokens int64   `json:"tokens"`
	Hit    int64   `json:"hit"`
	Unit   string  `json:"unit"` // what is counted: tokens, or bytes where there is no tokenizer
	Block  int     `json:"block"`
}

func newDatasetStats(p Process) *cobra.Command {
	own := pflag.NewFlagSet("stats", pflag.ContinueOnError)
	asJSON := own.Bool("json", false, "print a JSON object instead of text")
	block := own.Int("block", 16, "tokens of a cache block, for datasets other than traces")
	help := own.BoolP("help", "h", false, "help for this command")
	cmd := &cobra.Command{
		Use:   "stats [flags of spate bench]",
		Short: "Show lengths, arrival rates and the ideal prefix-hit rate of a workload",
		Long: `Make the very requests spate bench would send for the same flags, send none, and show their lengths, when
they would go, and what share of prompt tokens a prefix cache without bounds would have.`,
		Example: `  spate dataset stats --dataset-name sharegpt --dataset-path chats.json --tokenizer Qwen/Qwen3-8B
  spate dataset stats --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0 --json`,
		DisableFlagParsing: true,
	}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) {
		mixedHelp(p.Stdout, c, own)
	})
	cmd.RunE = func(c *cobra.Command, args []string) error {
		mixed, err := divideFlags(own, args, nil)
		if err != nil {
			return usage{"spate dataset stats", err}
		}
		if *help {
			return c.Help()
		}
		r, err := benchSettings(p, "dataset stats", mixed.bench)
		if err != nil {
			return err
		}
		st, err := statsOf(c.Context(), p, r, *block)
		if err != nil {
			return err
		}
		if *asJSON {
			enc := json.NewEncoder(p.Stdout)
			enc.SetIndent("", "  ")
			return enc.Encode(st)
		}
		return printStats(p.Stdout, st)
	}
	return cmd
}

// statsOf makes the requests and looks at them.
func statsOf(ctx context.Context, p Process, r *flags.Result, block int) (*workloadStats, error) {
	c := r.Bench
	if block < 1 {
		return nil, usage{"spate dataset stats", fmt.Errorf("--block %d: a block has at least one token", block)}
	}
	tok, err := p.local().Tokenizer(&c.Model)
	if err != nil {
		return nil, err
	}
	wcfg := build.Workload(c, openDataset, c.Model.SkipTokenizerInit)
	wcfg.HF.Look(p.getenv, p.home())
	wcfg.Endless = false
	stream, err := workload.New(wcfg, workload.Wrap(tok), nil)
	if err != nil {
		return nil, err
	}
	st := &workloadStats{Dataset: c.Dataset.Name}
	rows, err := rowsOf(ctx, stream, tok, block)
	if err == nil {
		err = st.arrivals(c, stream, len(rows))
	}
	if ideal, ok := stream.Ideal(); ok && err == nil {
		st.Hits = hitStats{ideal.Rate(), ideal.Tokens, ideal.Hit, "tokens", wcfg.Trace.Format.Chunk}
	} else if err == nil {
		st.Hits = hitsOf(rows, tok != nil || wcfg.IDs, block)
	}
	st.Notes = append(r.Notes, stream.Notes()...)
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

func openDataset(path string) (workload.File, error) { return infile.Dataset(path) }

// arrivals looks at when requests would go.
func (st *workloadStats) arrivals(c *config.Bench, stream *workload.Stream, n int) error {
	a, err := build.NewArrivals(&c.Load, max(n, 1))
	if c.SelfTimed() {
		var times []time.Duration
		if times, err = stream.Times(); err == nil {
			a, err = build.Timed(&c.Load, times)
		}
	}
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

func hitsOf(rows []promptRow, tokens bool, block int) hitStats {
	unit := "tokens"
	if !tokens {
		unit, block = "bytes", 4*block
	}
	list := make([]trace.Row, len(rows))
	for i := range rows {
		list[i] = rows[i].Row
	}
	ideal := trace.IdealHits(list, block)
	return hitStats{ideal.Rate(), ideal.Tokens, ideal.Hit, unit, block}
}

func printStats(w io.Writer, st *workloadStats) error {
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
	row("ideal prefix hits", "%.4f%% (%d of %d prompt %s, blocks of %d, a cache without bounds)", 100*st.Hits.Rate, st.Hits.Hit, st.Hits.Tokens, st.Hits.Unit, st.Hits.Block)
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

// makeFlags are those of `spate dataset make`.
type makeFlags struct {
	requests, chunk, groups int
	rate, burst, share      float64
	isl, osl, like, to, out string
	seed                    uint64
}

func newDatasetMake(p Process) *cobra.Command {
	var f makeFlags
	cmd := &cobra.Command{
		Use:   "make [flags]",
		Short: "Make a trace from statistics, or one like another",
		Long: `Write a trace with given lengths, arrivals and shared beginnings. With --like, lengths, pauses and shared
blocks are drawn from a trace that exists; a made trace can be longer than it and tells nobody's traffic.`,
		Example: `  spate dataset make --requests 1000 --rate 4 --isl 'lognormal(2000,1500)' --osl 200 --groups 20 --share 0.5 -o made.jsonl
  spate dataset make --like trace.jsonl --requests 100000 -o long.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runDatasetMake(p, &f) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.requests, "requests", 1000, "rows to write")
	fs.Float64Var(&f.rate, "rate", 1, "requests per second; inf sends all at once")
	fs.Float64Var(&f.burst, "burstiness", 1, "shape of the gaps: 1 is Poisson, below 1 comes in bursts, inf is even")
	fs.StringVar(&f.isl, "isl", "1024", "prompt lengths: a number or a law such as normal(480,240)")
	fs.StringVar(&f.osl, "osl", "128", "output lengths, likewise")
	fs.IntVar(&f.groups, "groups", 1, "groups of prompts that begin alike")
	fs.Float64Var(&f.share, "share", 0, "share of each prompt its group has in common, 0 to 1")
	fs.IntVar(&f.chunk, "chunk", 0, "tokens of a block; 512 for mooncake and 16 for timed_trace when not given")
	fs.StringVar(&f.like, "like", "", "trace to draw from, in the form of --to")
	fs.StringVar(&f.to, "to", "mooncake", "form: mooncake, timed_trace or burstgpt")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of everything that is drawn")
	fs.StringVarP(&f.out, "output", "o", "-", "file to write; - is standard output")
	return cmd
}

func runDatasetMake(p Process, f *makeFlags) error {
	bad := func(err error) error { return usage{"spate dataset make", err} }
	form, err := traceFormat(f.to, f.chunk)
	if err != nil {
		return bad(err)
	}
	var rows []trace.Row
	if f.like != "" {
		have, err := readRows(f.like, f.to, form)
		if err != nil {
			return err
		}
		rows, err = trace.Like(have, f.requests, form.Chunk, rng.New(f.seed, "rows").IntN, rng.New(f.seed, "gaps").IntN)
		if err != nil {
			return bad(err)
		}
	} else if rows, err = f.make(form.Chunk); err != nil {
		return bad(err)
	}
	return writeOut(p, f.out, func(w io.Writer) error { return writeRows(w, rows, f.to, form) })
}

// make draws a trace from the flags.
func (f *makeFlags) make(chunk int) ([]trace.Row, error) {
	lengths, err := workload.NewLengths(f.isl, f.osl, f.seed, openDataset)
	if err != nil {
		return nil, err
	}
	spec := trace.Spec{Requests: f.requests, Chunk: chunk, Groups: f.groups, Share: f.share, Length: lengths, Group: rng.New(f.seed, "groups").IntN}
	if !math.IsInf(f.rate, 1) {
		c := config.Load{RequestRate: config.Float(f.rate), Burstiness: config.Float(f.burst), Seed: int64(f.seed)}
		a, err := build.NewArrivals(&c, f.requests)
		if err != nil {
			return nil, err
		}
		spec.Due = a.Plan.Due
	}
	return trace.Make(spec)
}

// traceForms are the forms that hold no text.
var traceForms = []string{"mooncake", "timed_trace", "burstgpt"}

func traceFormat(name string, chunk int) (trace.Format, error) {
	form := trace.Mooncake()
	switch name {
	case "mooncake", "burstgpt":
	case "timed_trace":
		form = trace.Timed()
	default:
		return form, fmt.Errorf("form %q is unknown%s (there are %s)", name, config.DidYouMean(name, traceForms), strings.Join(traceForms, ", "))
	}
	if chunk > 0 {
		form.Chunk = chunk
	}
	return form, nil
}

func readRows(path, name string, form trace.Format) ([]trace.Row, error) {
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

func writeRows(w io.Writer, rows []trace.Row, name string, form trace.Format) error {
	if name == "burstgpt" {
		return trace.WriteBurst(w, rows, "GPT-4")
	}
	return trace.Write(w, rows, form)
}

// writeOut writes to a file, or to standard output.
func writeOut(p Process, name string, write func(io.Writer) error) error {
	if name == "-" || name == "" {
		return write(p.Stdout)
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write dataset: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
