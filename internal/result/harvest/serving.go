package harvest

import (
	"regexp"
	"slices"
	"strings"

	"spate/internal/result"
)

// The result files of vLLM's client and of those descended from it: one flat object.

var latencyKey = regexp.MustCompile(`^(?:mean|median|std|min|max|p\d+(?:\.\d+)?)_(?:ttft|tpot|itl|e2el|e2e_latency)_ms$`)

// isServing: a duration, a count and a rate, all three numbers.
func isServing(n *node) bool {
	for _, key := range []string{"duration", "completed", "request_throughput"} {
		v := n.get(key)
		if v == nil || v.kind != 'n' && v.kind != 'w' {
			return false
		}
	}
	return true
}

// servingContext are keys that describe the run rather than measure it.
var servingContext = map[string]string{
	"date": "date", "backend": "backend", "endpoint_type": "backend", "model_id": "model", "tokenizer_id": "tokenizer",
	"label": "label", "tag": "label", "dataset_name": "dataset", "num_prompts": "num_prompts", "request_rate": "request_rate",
	"max_concurrency": "max_concurrency", "burstiness": "burstiness", "random_input_len": "input_len",
	"random_output_len": "output_len", "random_range_ratio": "random_range_ratio",
}

// servingRenames are keys that other clients spell differently.
var servingRenames = map[string]string{"total_throughput": "total_token_throughput", "request_goodput:": "request_goodput"}

func readServing(n *node) []result.Entry {
	r := result.Entry{Format: servingFormat(n)}
	for i, key := range n.keys {
		servingField(&r, key, n.kids[i])
	}
	for _, key := range []string{"ttfts", "itls", "input_lens", "output_lens"} {
		if list := n.get(key); list != nil && list.kind == '[' && list.count > 0 {
			r.Context.Propose(result.Fact{Name: "per_request_entries", Value: list.count, From: "file: " + key, Line: list.line})
		}
	}
	return []result.Entry{r}
}

func servingFormat(n *node) string {
	switch {
	case n.has("total_output_tokens_retokenized"), n.has("mean_e2e_latency_ms"), n.has("total_throughput"):
		return result.FormatSGLangJSON
	case n.has("user_throughput"), n.has("avg_decoded_tokens_per_iter"):
		return result.FormatTRTJSON
	}
	return result.FormatVLLMJSON
}

func servingField(r *result.Entry, key string, v *node) {
	if name, ok := servingContext[key]; ok && !v.isNull() {
		r.Context.Propose(result.Fact{Name: name, Value: v.value(), From: "file: " + key, Line: v.line})
	}
	name, from := key, ""
	if to, ok := servingRenames[key]; ok {
		name, from = to, key
	}
	if strings.HasSuffix(key, "_e2e_latency_ms") {
		name, from = strings.Replace(key, "_e2e_latency_ms", "_e2el_ms", 1), key
	}
	f, isNumber := number(name, v, from)
	switch {
	case isNumber:
		r.Metrics.Set(f)
	case v.kind == 's' && (key == "request_rate" || key == "backend"):
		r.Metrics.Set(result.NewWord(key, v.text, ""))
	case v.kind == '{':
		flatten(&r.Extra, key, v)
	case v.kind == '[' && strings.HasPrefix(key, "spec_decode_"):
		r.Context.Propose(result.Fact{Name: key, Value: v.value(), From: "file: " + key, Line: v.line})
	case v.kind == 's' && servingContext[key] == "":
		r.Context.Propose(result.Fact{Name: key, Value: v.text, From: "file: metadata", Line: v.line})
	}
}

// The variant for PyTorch's benchmark database: a list with one record per metric, each holding all the
// other figures too.

func isPyTorch(n *node) bool {
	return n.has("benchmark", "model", "metric") && n.get("metric", "benchmark_values") != nil
}

func readPyTorch(n *node) []result.Entry {
	r := result.Entry{Format: result.FormatPyTorchJSON}
	info := n.get("metric", "extra_info")
	if info != nil && info.kind == '{' {
		for i, key := range info.keys {
			servingField(&r, key, info.kids[i])
		}
	}
	values := n.get("metric", "benchmark_values")
	name := n.get("metric", "name").str()
	if name != "" && values.kind == '[' && len(values.kids) > 0 {
		if f, ok := number(name, values.kids[0], ""); ok {
			r.Metrics.Set(f)
		}
	}
	fact(&r.Context, "model", n, "model", "name")
	fact(&r.Context, "arguments", n, "benchmark", "extra_info", "args")
	return []result.Entry{r}
}

// joins reports whether b is another part of a: the next record of the same PyTorch file, or the next
// row of EvalScope's percentiles.
func joins(a, b *result.Entry) bool {
	if a.Format != b.Format || a.Source.File != b.Source.File {
		return false
	}
	switch a.Format {
	case result.FormatEvalScopeRank:
		return b.Context.Text("percentile") != "" && !shares(a.Metrics, b.Metrics)
	case result.FormatPyTorchJSON:
		same := func(name string) bool {
			x, _ := a.Metrics.Get(name)
			y, _ := b.Metrics.Get(name)
			return x.Text == y.Text
		}
		return same("duration") && same("completed") && a.Context.Text("date") == b.Context.Text("date")
	}
	return false
}

// shares reports whether the two have a figure of one name.
func shares(a, b result.Figures) bool {
	return slices.ContainsFunc(a, func(f result.Figure) bool { _, ok := b.Get(f.Name); return ok })
}

func join(a, b *result.Entry) {
	for _, f := range b.Metrics {
		a.Metrics.Set(f)
	}
	for _, f := range b.Extra {
		a.Extra.Set(f)
	}
	for _, f := range b.Context {
		a.Context.Propose(f)
	}
	a.Source.EndLine = max(a.Source.EndLine, b.Source.EndLine)
}
