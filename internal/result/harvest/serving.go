package harvest

import (
	"regexp"
	"slices"
	"strings"
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

func readServing(n *node) []Result {
	r := Result{Format: servingFormat(n)}
	for i, key := range n.keys {
		servingField(&r, key, n.kids[i])
	}
	for _, key := range []string{"ttfts", "itls", "input_lens", "output_lens"} {
		if list := n.get(key); list != nil && list.kind == '[' && list.count > 0 {
			r.Context.propose(Fact{"per_request_entries", list.count, "file: " + key, list.line})
		}
	}
	return []Result{r}
}

func servingFormat(n *node) string {
	switch {
	case n.has("total_output_tokens_retokenized"), n.has("mean_e2e_latency_ms"), n.has("total_throughput"):
		return FormatSGLangJSON
	case n.has("user_throughput"), n.has("avg_decoded_tokens_per_iter"):
		return FormatTRTJSON
	}
	return FormatVLLMJSON
}

func servingField(r *Result, key string, v *node) {
	if name, ok := servingContext[key]; ok && !v.isNull() {
		r.Context.propose(Fact{name, v.value(), "file: " + key, v.line})
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
		r.Metrics.set(f)
	case v.kind == 's' && (key == "request_rate" || key == "backend"):
		r.Metrics.set(Figure{Name: key, Text: v.text, Word: true})
	case v.kind == '{':
		r.Extra.flatten(key, v)
	case v.kind == '[' && strings.HasPrefix(key, "spec_decode_"):
		r.Context.propose(Fact{key, v.value(), "file: " + key, v.line})
	case v.kind == 's' && servingContext[key] == "":
		r.Context.propose(Fact{key, v.text, "file: metadata", v.line})
	}
}

// The variant for PyTorch's benchmark database: a list with one record per metric, each holding all the
// other figures too.

func isPyTorch(n *node) bool {
	return n.has("benchmark", "model", "metric") && n.get("metric", "benchmark_values") != nil
}

func readPyTorch(n *node) []Result {
	r := Result{Format: FormatPyTorchJSON}
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
			r.Metrics.set(f)
		}
	}
	r.Context.fact("model", n, "model", "name")
	r.Context.fact("arguments", n, "benchmark", "extra_info", "args")
	return []Result{r}
}

// joins reports whether b is another part of a: the next record of the same PyTorch file, or the next
// row of EvalScope's percentiles.
func joins(a, b *Result) bool {
	if a.Format != b.Format || a.Source.File != b.Source.File {
		return false
	}
	switch a.Format {
	case FormatEvalScopeRank:
		return b.Context.Text("percentile") != "" && !shares(a.Metrics, b.Metrics)
	case FormatPyTorchJSON:
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
func shares(a, b Figures) bool {
	return slices.ContainsFunc(a, func(f Figure) bool { _, ok := b.Get(f.Name); return ok })
}

func join(a, b *Result) {
	for _, f := range b.Metrics {
		a.Metrics.set(f)
	}
	for _, f := range b.Extra {
		a.Extra.set(f)
	}
	for _, f := range b.Context {
		a.Context.propose(f)
	}
	a.Source.EndLine = max(a.Source.EndLine, b.Source.EndLine)
}
