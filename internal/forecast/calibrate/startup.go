package calibrate

import (
	"maps"
	"regexp"
	"strings"
)

// Server is what lines and commands say about a server. Zero values were not told.
type Server struct {
	Engine     string
	Version    string
	KVTokens   int     // size of the KV cache
	Blocks     int     // the same in blocks
	KVGiB      float64 // the same in memory
	Length     int     // longest context ...
	Requests   float64 // ... and how many of it the cache holds
	WeightsGiB float64
	Flags      map[string]string // of its command line, by name with dashes; values as written
}

// sized reports whether the cache is known: the last thing a start tells.
func (s *Server) sized() bool { return s.KVTokens > 0 || s.Blocks > 0 }

// merge adds what another source says; what is known already stays.
func (s *Server) merge(o *Server) {
	text := func(to *string, v string) {
		if *to == "" {
			*to = v
		}
	}
	text(&s.Engine, o.Engine)
	text(&s.Version, o.Version)
	fill(&s.KVTokens, o.KVTokens)
	fill(&s.Blocks, o.Blocks)
	fill(&s.KVGiB, o.KVGiB)
	fill(&s.Length, o.Length)
	fill(&s.Requests, o.Requests)
	fill(&s.WeightsGiB, o.WeightsGiB)
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

func fill[T int | float64](to *T, v T) {
	if *to == 0 {
		*to = v
	}
}

var versionMark = regexp.MustCompile(`(?:vLLM (?:API server )?version |LLM engine \(v)v?([0-9][\w.+-]*)`)

// begins reports whether a line is the first of a start.
func begins(text string) bool { return strings.Contains(text, "API server version") }

// startLines are the lines a server prints while it starts, each with a cheap look before the rest.
var startLines = []struct {
	hint string
	read func(s *Server, text string) bool
}{
	{"version ", readVersion},
	{"LLM engine (v", readConfig},
	{"GPU KV cache size", func(s *Server, text string) (ok bool) {
		s.KVTokens, ok = whole(after(text, "GPU KV cache size: "))
		return ok && strings.Contains(text, " tokens")
	}},
	{" blocks: ", readBlocks},
	{"Available KV cache memory", func(s *Server, text string) (ok bool) {
		s.KVGiB, ok = readNumber(after(text, "Available KV cache memory: "))
		return ok
	}},
	{"Maximum concurrency for", func(s *Server, text string) bool {
		n, ok := whole(after(text, "Maximum concurrency for "))
		x, fine := readNumber(after(text, "per request: "))
		s.Length, s.Requests = n, x
		return ok && fine && n > 0
	}},
	{"Model loading took", func(s *Server, text string) (ok bool) {
		s.WeightsGiB, ok = readNumber(after(text, "Model loading took "))
		return ok
	}},
	{"max_total_num_tokens=", readSGLang},
	{"non-default args: {", func(s *Server, text string) bool {
		s.Flags = flagNames(pythonItems(after(text, "non-default args: ")))
		return len(s.Flags) > 0
	}},
	{"args: Namespace(", func(s *Server, text string) bool {
		s.Flags = flagNames(pythonItems(after(text, "args: ")))
		return len(s.Flags) > 0
	}},
}

func readVersion(s *Server, text string) bool {
	m := versionMark.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	s.Engine, s.Version = "vllm", m[1]
	return true
}

// readConfig reads the engine's own summary of its settings.
func readConfig(s *Server, text string) bool {
	if !readVersion(s, text) {
		return false
	}
	items := pythonItems("(" + after(text, "with config: ") + ")")
	names := map[string]string{
		"model": "model", "max_seq_len": "max-model-len", "tensor_parallel_size": "tensor-parallel-size",
		"pipeline_parallel_size": "pipeline-parallel-size", "data_parallel_size": "data-parallel-size",
		"enable_prefix_caching": "enable-prefix-caching", "use_cached_outputs": "",
		"chunked_prefill_enabled": "enable-chunked-prefill", "kv_cache_dtype": "kv-cache-dtype", "quantization": "quantization",
	}
	s.Flags = map[string]string{}
	for k, v := range items {
		if to := names[k]; to != "" && v != "None" {
			s.Flags[to] = v
		}
	}
	return true
}

// readBlocks reads the older engine's line about its cache.
func readBlocks(s *Server, text string) bool {
	for _, mark := range []string{"# GPU blocks: ", "# cuda blocks: "} {
		if n, ok := whole(after(text, mark)); ok && n > 0 {
			s.Blocks = n
			return true
		}
	}
	return false
}

// readSGLang reads SGLang's summary.
func readSGLang(s *Server, text string) (ok bool) {
	s.Engine = "sglang"
	s.KVTokens, ok = whole(after(text, "max_total_num_tokens="))
	s.Flags = map[string]string{}
	for mark, flag := range map[string]string{
		"chunked_prefill_size=": "max-num-batched-tokens", "max_running_requests=": "max-num-seqs", "context_len=": "max-model-len",
	} {
		if n, found := whole(after(text, mark)); found && n > 0 {
			s.Flags[flag] = digits(after(text, mark))
		}
	}
	return ok
}

// digits is the number a text begins with, as written.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
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
