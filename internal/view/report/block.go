// Package report turns results into what people read. It prints vLLM's result block (block.go) so
// that scripts which grep it keep working, and spate's own findings below it (findings.go). It comes after
// result, metrics and verdict, and computes no figure of its own. Read block.go first.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/result"
)

// Style is whose form of the block to print.
type Style string

// Styles of the result block, by vLLM release.
const (
	Head Style = "head" // vLLM of August 2026
	V10  Style = "v10"  // 0.10
	V6   Style = "v6"   // 0.6.4
)

// BlockInput is what the block tells of a run.
type BlockInput struct {
	Style          Style // empty means Head
	Summary        *metrics.Summary
	MaxConcurrency *int
	RequestRate    float64   // +Inf when there was none
	Tokenizer      bool      // false leaves out what vLLM cannot count without one
	Metrics        []string  // names of --percentile-metrics
	Percentiles    []float64 // in the order to print
	Errors         []string  // of failed requests, in dispatch order
	Spec           *result.SpecDecode
}

const (
	blockWidth = 50
	maxErrors  = 10
)

// Block prints the result block as vLLM prints it, to the byte, trailing spaces included.
func Block(w io.Writer, in BlockInput) error {
	b := &block{in: in}
	if in.Style == "" {
		b.in.Style = Head
	}
	if b.in.Style == Head {
		b.failures()
	}
	b.title(" Serving Benchmark Result ", '=')
	b.totals()
	b.throughput()
	b.probe()
	b.latencies()
	b.spec()
	b.line(strings.Repeat("=", blockWidth))
	_, err := io.WriteString(w, b.String())
	return err
}

type block struct {
	strings.Builder
	in BlockInput
}

// failures are told ahead of the block.
func (b *block) failures() {
	if len(b.in.Errors) == 0 {
		return
	}
	b.line("Failed requests during benchmark run detected (capping to 10):")
	for i, e := range b.in.Errors[:min(maxErrors, len(b.in.Errors))] {
		b.line(fmt.Sprintf("Error %d: %s", i, harmless(e)))
	}
}

// harmless keeps what a server said from moving the cursor.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

func (b *block) totals() {
	s, head := b.in.Summary, b.in.Style == Head
	b.named("completed")
	if head {
		b.named("failed")
	}
	if b.in.MaxConcurrency != nil && b.in.Style != V6 {
		b.count("Maximum request concurrency:", *b.in.MaxConcurrency)
	}
	if !math.IsInf(b.in.RequestRate, 1) && b.in.Style != V6 {
		b.figure("Request rate configured (RPS):", b.in.RequestRate)
	}
	b.named("duration")
	b.named("total_input_tokens")
	if b.tokens() && s.Pooling == nil {
		b.named("total_output_tokens")
	}
}

func (b *block) throughput() {
	s, head := b.in.Summary, b.in.Style == Head
	b.named("request_throughput")
	if s.Pooling != nil {
		b.named("input_sequence_throughput")
		if b.tokens() {
			b.named("total_token_throughput")
		}
		return
	}
	if s.RequestGoodput != nil {
		b.named("request_goodput")
	}
	if b.tokens() {
		b.named("output_throughput")
		if head {
			b.named("max_output_tokens_per_s")
		}
	}
	if head {
		b.figure("Peak concurrent requests:", float64(s.MaxConcurrent)) // printed with decimals, though it is a count
		if s.RTFx > 0 {
			b.named("rtfx")
		}
	}
	if b.tokens() {
		r := figure.Must("total_token_throughput")
		names := r.Spelled[figure.VLLM] // the later one is that of older releases
		if head {
			names = names[:1]
		}
		b.figure(names[len(names)-1]+":", r.Of(s).V)
	}
}

// tokens reports whether lines about tokens are printed; before HEAD there was always a tokenizer.
func (b *block) tokens() bool {
	return b.in.Tokenizer || b.in.Style != Head
}

func (b *block) probe() {
	p := b.in.Summary.Probe
	if p.Completed == 0 || b.in.Style != Head {
		return
	}
	b.title("Probe Requests", '-')
	b.count("Probe requests completed:", p.Completed)
	b.count("Probe requests failed:", p.Failed)
	b.figure("Median probe E2EL (ms):", p.Median)
	b.figure("P99 probe E2EL (ms):", p.P99)
	b.figure("Max probe E2EL (ms):", p.Max)
}

func (b *block) latencies() {
	s := b.in.Summary
	for _, name := range figure.Latencies() {
		if slices.Contains(b.in.Metrics, name) && (name == "e2el" || b.tokens() && s.Pooling == nil) {
			b.latency(figure.Get(name))
		}
	}
}

func (b *block) latency(f *figure.Figure) {
	b.title(f.Row(), '-')
	rows := []figure.Ref{f.Stat("mean"), f.Stat("median")}
	for _, p := range b.in.Percentiles {
		rows = append(rows, f.At(p))
	}
	for _, r := range rows {
		b.row(r)
	}
}

func (b *block) spec() {
	s := b.in.Spec
	if s == nil || b.in.Style != Head {
		return
	}
	b.title("Speculative Decoding", '-')
	b.figure("Acceptance rate (%):", s.Rate)
	b.figure("Acceptance length:", s.Length)
	b.count("Drafts:", s.Drafts)
	b.count("Draft tokens:", s.DraftTokens)
	b.count("Accepted tokens:", s.Accepted)
	if len(s.PerPosition) == 0 {
		return
	}
	b.line("Per-position acceptance (%):")
	for i, share := range s.PerPosition {
		b.figure(fmt.Sprintf("  Position %d:", i), share*100)
	}
}

func (b *block) line(s string) {
	b.WriteString(s)
	b.WriteByte('\n')
}

// title centres s; of an odd number of fill characters the extra one goes to the right.
func (b *block) title(s string, fill byte) {
	n := max(0, blockWidth-len(s))
	b.line(strings.Repeat(string(fill), n/2) + s + strings.Repeat(string(fill), n-n/2))
}

// named prints the row of a figure.
func (b *block) named(key string) { b.row(figure.Must(key)) }

func (b *block) row(r figure.Ref) {
	v, label := r.Of(b.in.Summary).V, r.BlockRow()+":"
	if r.Whole() {
		b.count(label, int(v))
		return
	}
	b.figure(label, v)
}

func (b *block) count(label string, n int) {
	b.line(fmt.Sprintf("%-40s %-10d", label, n))
}

func (b *block) figure(label string, v float64) {
	b.line(fmt.Sprintf("%-40s %-10s", label, twoDecimals(v)))
}

// twoDecimals is Python's .2f, which spells the special values in small letters.
func twoDecimals(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'f', 2, 64), "+"))
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
