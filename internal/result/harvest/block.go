package harvest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/result"
)

// The result block that vLLM's client prints, and those of its descendants: a title between equals
// signs, rows "Label:   value", section titles between dashes, and a rule at the end.

var (
	blockTitle = regexp.MustCompile(`={4,} ?Serving Benchmark Result ?(?:\(.*\) ?)?={4,}`)
	blockRule  = regexp.MustCompile(`(?:^|[^=])={20,}$`)
	blockPart  = regexp.MustCompile(`(?:^|[^-])-{3,}[^-].*[^-]-{3,}$`)
	blockRow   = regexp.MustCompile(`([A-Za-z#][^:]*):(?: +(\S+(?: set)?)| *)$`)
	latencyRow = regexp.MustCompile(`^(Mean|Median|Std|Std Dev|Min|Max|P\d+(?:\.\d+)?) ` +
		`(TTFT|TPOT|ITL|E2EL|E2E Latency|Client Queue Time|E2EL incl\. Client Queue) \(ms\)$`)
	positionRow = regexp.MustCompile(`^Position \d+$`)
	printed     = regexp.MustCompile(`^-?` + num + `(?:[eE][-+]?\d+)?$`)
	printedWord = regexp.MustCompile(`^-?(?:inf|nan|Infinity|NaN|Inf)$`)
)

// blockLabels names the rows that are no figures of the catalogue by the key of the same figure in the tool's file.
var blockLabels = map[string]string{
	"Backend":                              "backend",
	"Traffic request rate":                 "request_rate",
	"Request rate configured (RPS)":        "request_rate",
	"Max request concurrency":              "max_concurrency",
	"Max reqeuest concurrency":             "max_concurrency", // as SGLang spelt it for a year
	"Maximum request concurrency":          "max_concurrency",
	"Total requests":                       "num_prompts",
	"Total input text tokens":              "total_input_text_tokens",
	"Total input vision tokens":            "total_input_vision_tokens",
	"Total generated tokens (retokenized)": "total_output_tokens_retokenized",
	"User throughput (tok/s)":              "user_throughput",
	"Concurrency":                          "concurrency",
	"Accept length":                        "accept_length",
	"Probe requests completed":             "probe_completed",
	"Probe requests failed":                "probe_failed",
	"Median probe E2EL (ms)":               "probe_median_e2el_ms",
	"P99 probe E2EL (ms)":                  "probe_p99_e2el_ms",
	"Max probe E2EL (ms)":                  "probe_max_e2el_ms",
	"Acceptance rate (%)":                  "spec_decode_acceptance_rate",
	"Acceptance length":                    "spec_decode_acceptance_length",
	"Drafts":                               "spec_decode_num_drafts",
	"Draft tokens":                         "spec_decode_draft_tokens",
	"Accepted tokens":                      "spec_decode_accepted_tokens",
	"Committed throughput (tok/s)":         "diffusion_committed_throughput",
	"Denoising steps per canvas":           "diffusion_denoising_steps_per_canvas",
	"Committed per denoising step":         "diffusion_committed_per_denoising_step",
	"Committed tokens":                     "diffusion_committed_tokens",
	"Denoising steps":                      "diffusion_denoising_steps",
	"Canvas positions evaluated":           "diffusion_canvas_positions_evaluated",
	"Total prompt tokens":                  "total_prompt_tokens",
	"Total cached tokens":                  "total_cached_tokens",
	"Last generation throughput (tok/s)":   "last_gen_throughput",
}

// openers are rows that occur in a block only, and so can be taken for one that lost its title.
var openers = []string{
	"completed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput",
}

// rowFigures are the rows of the catalogue's figures.
var rowFigures = func() map[string]*figure.Figure {
	out := figure.By(figure.VLLM)
	maps.Copy(out, figure.By(figure.SGLang))
	return out
}()

var latencyNames = func() map[string]string {
	out := map[string]string{"Client Queue Time": "client_queue_time", "E2EL incl. Client Queue": "e2el_including_client_queue"}
	for _, name := range figure.Latencies() {
		f := figure.Get(name)
		for _, short := range append([]string{f.Label}, f.Spelled[figure.SGLang]...) {
			out[short] = name
		}
	}
	return out
}()

// rowName is the key of a row's figure; ok is false for rows of no known block.
func rowName(label string) (name string, ok bool) {
	if name, ok = blockLabels[label]; ok {
		return name, true
	}
	if f := rowFigures[label]; f != nil && !f.HasStats() {
		return f.Name, true
	}
	m := latencyRow.FindStringSubmatch(label)
	if m == nil {
		return "", false
	}
	stat := strings.ToLower(strings.TrimSuffix(m[1], " Dev"))
	return stat + "_" + latencyNames[m[2]] + "_ms", true
}

// block is a result block being read.
type block struct {
	source   result.Source
	metrics  result.Figures
	extra    result.Figures
	problems []result.Problem
	headless bool
	noise    int // lines in a row that are no part of it
	tab      int // columns before the title: a log's prefix
}

// maxBlockNoise is how many foreign lines in a row end a block that has no rule at its end.
const maxBlockNoise = 40

// beginBlock recognises a title.
func beginBlock(file, text string, line int) *block {
	if !blockTitle.MatchString(text) {
		return nil
	}
	return &block{source: result.Source{File: file, Line: line}, tab: blockTitle.FindStringIndex(text)[0]}
}

// beginHeadless recognises a row of a block whose title is lost.
func beginHeadless(file, text string, line int) *block {
	label, value, ok := splitRow(text)
	if !ok || !printed.MatchString(value) {
		return nil
	}
	name, ok := rowName(label)
	if !ok || !slices.Contains(openers, name) && !latencyRow.MatchString(label) {
		return nil
	}
	b := &block{source: result.Source{File: file, Line: line}, headless: true}
	b.row(label, value, line)
	return b
}

// splitRow takes "Label:   value" apart, past what a log puts before it.
func splitRow(text string) (label, value string, ok bool) {
	text = strings.TrimSpace(text)
	m := blockRow.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return strings.TrimSpace(m[1]), m[2], true
}

// take reads a line. It reports whether the line is part of the block, and whether it ends it.
func (b *block) take(text string, line int) (mine, end bool) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return true, false
	case blockRule.MatchString(trimmed):
		b.source.EndLine = line
		return true, true
	case blockPart.MatchString(trimmed):
		b.noise = 0
		return true, false
	}
	if len(text) > b.tab && b.tab > 0 {
		if label, value, ok := splitRow(text[b.tab:]); ok && b.known(label, value, line) {
			return true, false
		}
	}
	label, value, ok := splitRow(text)
	if ok && b.known(label, value, line) {
		return true, false
	}
	if ok && value != "" && strings.LastIndex(text, value) == b.tab+labelWidth+1 {
		b.noise = 0
		b.extra.Set(result.NewPrinted(label, value, ""))
		return true, false
	}
	b.noise++
	return false, b.noise > maxBlockNoise
}

// labelWidth is the column all these clients pad labels to; a row laid out so is one even when its
// label is new.
const labelWidth = 40

// known reads a row if it is one of a block.
func (b *block) known(label, value string, line int) bool {
	_, ok := rowName(label)
	if !ok && !positionRow.MatchString(label) {
		return false
	}
	b.noise = 0
	b.row(label, value, line)
	return true
}

func (b *block) row(label, value string, line int) {
	into := &b.metrics
	name, ok := rowName(label)
	if !ok {
		into, name = &b.extra, strings.ToLower(strings.ReplaceAll(label, " ", "_"))
	}
	word := !printed.MatchString(value)
	switch {
	case value == "":
		b.damaged(line, fmt.Sprintf("row %q has no value", label+":"))
		return
	case word && name != "backend" && name != "request_rate" && name != "max_concurrency" && !printedWord.MatchString(value):
		b.damaged(line, fmt.Sprintf("row %q has %q where a number belongs", label+":", result.Shorten(value, 40)))
		return
	}
	if old, twice := into.Get(name); twice && old.Text != value && name != "request_rate" {
		b.damaged(line, fmt.Sprintf("row %q comes twice, as %s and %s; the first is kept", label+":", old.Text, value))
		return
	}
	into.Set(result.NewPrinted(name, value, ""))
	b.source.EndLine = line
}

func (b *block) damaged(line int, text string) {
	b.problems = append(b.problems, result.Problem{File: b.source.File, Line: line, Kind: result.Damaged, Text: text})
}

// result is the block as far as it was read; ok is false when that is nothing. whole says that its end
// was seen.
func (b *block) result(whole bool) (result.Entry, bool) {
	if len(b.metrics) < 3 && b.headless {
		return result.Entry{}, false
	}
	r := result.Entry{Source: b.source, Format: b.format(), Metrics: b.metrics, Extra: b.extra, Problems: b.problems}
	add := func(kind result.Kind, text string) {
		r.Problems = append(r.Problems, result.Problem{File: b.source.File, Line: b.source.Line, Kind: kind, Text: text})
	}
	switch {
	case b.headless:
		add(result.Truncated, "result block without its title: what was above this row is lost")
	case len(b.metrics) == 0:
		add(result.Damaged, "result block without rows")
	}
	if !whole {
		add(result.Truncated, fmt.Sprintf("result block without its end, %d rows kept", len(b.metrics)))
	}
	if whole && !b.headless && len(b.metrics) > 0 {
		for _, name := range []string{"completed", "duration", "request_throughput"} {
			if _, ok := b.metrics.Get(name); !ok {
				add(result.Damaged, "result block has no row for "+name)
			}
		}
	}
	return r, true
}

// format tells the block's maker by the rows only it prints.
func (b *block) format() string {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := b.metrics.Get(n); return ok })
	}
	switch {
	case has("user_throughput", "num_prompts"):
		return result.FormatTRTBlock
	case has("backend", "total_output_tokens_retokenized"):
		if has("concurrency", "max_concurrency", "max_output_tokens_per_s", "total_token_throughput", "accept_length", "p90_ttft_ms", "max_itl_ms") {
			return result.FormatSGLangBlock
		}
		return result.FormatLMDeployBlock
	}
	return result.FormatVLLMBlock
}
