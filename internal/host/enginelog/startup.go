package enginelog

import (
	"cmp"
	"maps"
	"regexp"
	"strings"
)

// Start is what a server says of itself while it starts. Zero values were not said.
type Start struct {
	Engine        string
	Version       string
	KVTokens      int     // size of the KV cache
	Blocks        int     // the same in blocks
	KVGiB         float64 // the same in memory
	Length        int     // longest context ...
	Requests      float64 // ... and how many of it the cache holds
	WeightsGiB    float64
	ActivationGiB float64
	Flags         map[string]string // of its command line, by name with dashes; values as written
}

// Sized reports whether the cache is known: the last thing a start says.
func (s *Start) Sized() bool { return s.KVTokens > 0 || s.Blocks > 0 }

// Merge adds what another source says; what is known already stays.
func (s *Start) Merge(o *Start) {
	s.Engine, s.Version = cmp.Or(s.Engine, o.Engine), cmp.Or(s.Version, o.Version)
	s.KVTokens, s.Blocks, s.KVGiB = cmp.Or(s.KVTokens, o.KVTokens), cmp.Or(s.Blocks, o.Blocks), cmp.Or(s.KVGiB, o.KVGiB)
	s.Length, s.Requests = cmp.Or(s.Length, o.Length), cmp.Or(s.Requests, o.Requests)
	s.WeightsGiB, s.ActivationGiB = cmp.Or(s.WeightsGiB, o.WeightsGiB), cmp.Or(s.ActivationGiB, o.ActivationGiB)
	if s.Flags == nil {
		s.Flags = maps.Clone(o.Flags)
		return
	}
	for k, v := range o.Flags {
		if _, ok := s.Flags[k]; !ok {
			s.Flags[k] = v
		}
	}
}

// Begins reports whether a line is the first of a start.
func Begins(line string) bool { return strings.Contains(line, "API server version") }

// Read takes what a line says, unless it is known already, and reports whether it said anything.
func (s *Start) Read(line string) bool {
	found := false
	for i := range startLines {
		l := &startLines[i]
		if !strings.Contains(line, l.hint) {
			continue
		}
		if m := l.find.FindStringSubmatch(line); m != nil {
			var got Start
			l.set(&got, m)
			s.Merge(&got)
			found = true
		}
	}
	return found
}

// startLines are the lines that servers print while they start: a cheap look, and what is read then. The groups of a
// pattern are numbers that Whole and Float read, or text.
var startLines = []struct {
	hint string
	find *regexp.Regexp
	set  func(s *Start, m []string)
}{
	// vLLM names itself, and with its logo only its version.
	{"ersion", regexp.MustCompile(`(?:vLLM (?:API server )?|█ +)version v?(\d+\.[\w.+-]*)`), func(s *Start, m []string) { s.Engine, s.Version = "vllm", m[1] }},
	{"LLM engine (v", regexp.MustCompile(`LLM engine \(v(\d+\.[\w.+-]*)\) with config: (.*)`), func(s *Start, m []string) {
		s.Engine, s.Version, s.Flags = "vllm", m[1], configFlags(m[2])
	}},
	{"GPU KV cache size", regexp.MustCompile(`GPU KV cache size: *([\d,]+) *tokens`), func(s *Start, m []string) { s.KVTokens = Whole(m[1]) }},
	{" blocks: ", regexp.MustCompile(`# (?:GPU|cuda) blocks: *([\d,]+)`), func(s *Start, m []string) { s.Blocks = Whole(m[1]) }},
	{"KV cache memory", regexp.MustCompile(`(?i)available KV cache memory: *([\d.]+) *GiB`), func(s *Start, m []string) { s.KVGiB = Float(m[1]) }},
	{"for KV Cache is", regexp.MustCompile(`reserved for KV Cache is *([\d.]+) *GiB`), func(s *Start, m []string) { s.KVGiB = Float(m[1]) }},
	{"Maximum concurrency for", regexp.MustCompile(`Maximum concurrency for ([\d,]+) tokens per request: *([\d.]+)x`), func(s *Start, m []string) {
		s.Length, s.Requests = Whole(m[1]), Float(m[2])
	}},
	{" took ", regexp.MustCompile(`(?i)model (?:loading|weights) took *([\d.]+) *Gi?B`), func(s *Start, m []string) { s.WeightsGiB = Float(m[1]) }},
	{"weights take", regexp.MustCompile(`(?i)model weights take *([\d.]+) *GiB`), func(s *Start, m []string) { s.WeightsGiB = Float(m[1]) }},
	{"ctivation", regexp.MustCompile(`(?i)(?:peak activation memory(?: is|:)?|activation peak memory takes) *([\d.]+) *GiB`), func(s *Start, m []string) { s.ActivationGiB = Float(m[1]) }},
	{"non-default args: {", regexp.MustCompile(`non-default args: (\{.*)`), func(s *Start, m []string) { s.Flags = flagNames(pythonItems(m[1])) }},
	{"args: Namespace(", regexp.MustCompile(`args: (Namespace\(.*)`), func(s *Start, m []string) { s.Flags = flagNames(pythonItems(m[1])) }},
	// SGLang.
	{"Load weight end.", regexp.MustCompile(`Load weight end\..*mem usage=([\d.]+) GB`), func(s *Start, m []string) { s.WeightsGiB = Float(m[1]) }},
	{"KV Cache is allocated", regexp.MustCompile(`KV Cache is allocated\. #tokens: (\d+)`), func(s *Start, m []string) { s.KVTokens = Whole(m[1]) }},
	{"max_total_num_tokens=", regexp.MustCompile(`max_total_num_tokens=(\d+)(.*)`), readSGLang},
	// llama.cpp: its slots share one cache, or each has its own.
	{"n_slots = ", regexp.MustCompile(`n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(true|false)'`), func(s *Start, m []string) {
		s.Length, s.Requests, s.KVTokens = Whole(m[2]), Float(m[1]), Whole(m[2])
		if m[3] == "false" {
			s.KVTokens = int(min(float64(s.KVTokens)*s.Requests, MaxCount))
		}
	}},
}

// configFlags reads the engine's own summary of its settings.
func configFlags(config string) map[string]string {
	names := map[string]string{
		"model": "model", "max_seq_len": "max-model-len", "tensor_parallel_size": "tensor-parallel-size",
		"pipeline_parallel_size": "pipeline-parallel-size", "data_parallel_size": "data-parallel-size",
		"enable_prefix_caching": "enable-prefix-caching", "chunked_prefill_enabled": "enable-chunked-prefill",
		"kv_cache_dtype": "kv-cache-dtype", "quantization": "quantization",
	}
	flags := map[string]string{}
	for k, v := range pythonItems("(" + config + ")") {
		if to := names[k]; to != "" && v != "None" {
			flags[to] = v
		}
	}
	return flags
}

var sglangSummary = map[string]*regexp.Regexp{
	"max-num-batched-tokens": regexp.MustCompile(`\bchunked_prefill_size=([1-9]\d*)`),
	"max-num-seqs":           regexp.MustCompile(`\bmax_running_requests=([1-9]\d*)`),
	"max-model-len":          regexp.MustCompile(`\bcontext_len=([1-9]\d*)`),
}

// readSGLang reads SGLang's summary, under the names of vLLM's flags.
func readSGLang(s *Start, m []string) {
	s.Engine, s.KVTokens, s.Flags = "sglang", Whole(m[1]), map[string]string{}
	for flag, find := range sglangSummary {
		if n := find.FindStringSubmatch(m[2]); n != nil {
			s.Flags[flag] = n[1]
		}
	}
}

// flagNames are settings by the name of their flag. What says nothing is left out.
func flagNames(items map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range items {
		k = strings.ReplaceAll(k, "_", "-")
		if k == "model-tag" {
			k = "model"
		}
		if v != "" && v != "None" {
			out[k] = v
		}
	}
	return out
}

// pythonItems reads the scalar items of a dict, a Namespace or another call as Python prints them. Items
// that hold others are passed over.
func pythonItems(text string) map[string]string {
	out := map[string]string{}
	i := strings.IndexAny(text, "({")
	if i < 0 {
		return out
	}
	for i++; i < len(text); {
		n := itemEnd(text[i:])
		if key, value, ok := pythonItem(text[i : i+n]); ok {
			out[key] = value
		}
		i += n
		if i < len(text) && text[i] != ',' {
			break // the end
		}
		i++
	}
	return out
}

// itemEnd is the length of the item a text begins with: up to a comma or the bracket that ends it all.
func itemEnd(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth == 0 {
				return i
			}
			depth--
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(text)
}

// pythonItem reads key=value or 'key': value.
func pythonItem(text string) (key, value string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "'") {
		key, value, ok = strings.Cut(text[1:], "':")
	} else {
		key, value, ok = strings.Cut(text, "=")
	}
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
		return strings.TrimSpace(key), value[1 : n-1], ok
	}
	if strings.ContainsAny(value, "([{") {
		return "", "", false
	}
	return strings.TrimSpace(key), value, ok && key != ""
}
