package launch

import (
	"regexp"
	"strconv"
	"strings"
)

// Facts are what a server says of itself when it starts.
type Facts struct {
	Version        string   `json:"version,omitempty"`
	KVTokens       int      `json:"kv_cache_tokens,omitempty"`
	MaxConcurrency float64  `json:"max_concurrency,omitempty"` // requests of full length the KV cache holds
	WeightsGiB     float64  `json:"weights_gib,omitempty"`
	KVGiB          float64  `json:"kv_cache_gib,omitempty"`
	ActivationGiB  float64  `json:"activation_gib,omitempty"`
	Warnings       []string `json:"warnings,omitempty"` // the first few
}

var (
	versionLine    = regexp.MustCompile(`(?i)(?:vLLM API server version|vLLM version|version[ =:]+)\s*v?(\d+\.\d+[\w.+-]*)`)
	kvTokensLine   = regexp.MustCompile(`GPU KV cache size:\s*([\d,]+)\s*tokens`)
	kvBlocksLine   = regexp.MustCompile(`# GPU blocks:\s*(\d+)`)
	concurrentLine = regexp.MustCompile(`Maximum concurrency for [\d,]+ tokens per request:\s*([\d.]+)x`)
	weightsLine    = regexp.MustCompile(`(?i)model (?:loading|weights) took\s*([\d.]+)\s*Gi?B`)
	kvMemoryLine   = regexp.MustCompile(`(?i)available KV cache memory:\s*([\d.]+)\s*GiB`)
	activationLine = regexp.MustCompile(`(?i)(?:peak activation memory(?: is|:)?|activation peak memory takes)\s*([\d.]+)\s*GiB`)
	weightsTake    = regexp.MustCompile(`(?i)model weights take\s*([\d.]+)\s*GiB|Load weight end\..*mem usage=([\d.]+) GB`)
	restForKV      = regexp.MustCompile(`reserved for KV Cache is\s*([\d.]+)\s*GiB`)
	poolLine       = regexp.MustCompile(`max_total_num_tokens=(\d+)|KV Cache is allocated\. #tokens: (\d+)`)
	slotsLine      = regexp.MustCompile(`n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(true|false)'`)
	warningLine    = regexp.MustCompile(`\bWARNING\b|^\d+(?:\.\d+){3} W `)
)

const maxWarnings = 10

// ReadFacts finds them in what a server printed.
func ReadFacts(log string) Facts {
	var f Facts
	for line := range strings.SplitSeq(log, "\n") {
		if m := versionLine.FindStringSubmatch(line); m != nil && f.Version == "" {
			f.Version = m[1]
		}
		if m := kvTokensLine.FindStringSubmatch(line); m != nil {
			f.KVTokens = int(number(strings.ReplaceAll(m[1], ",", "")))
		}
		if m := kvBlocksLine.FindStringSubmatch(line); m != nil && f.KVTokens == 0 {
			f.KVTokens = 16 * int(number(m[1]))
		}
		if m := poolLine.FindStringSubmatch(line); m != nil {
			f.KVTokens = int(number(m[1] + m[2]))
		}
		if m := slotsLine.FindStringSubmatch(line); m != nil {
			f.MaxConcurrency, f.KVTokens = number(m[1]), int(number(m[2]))
			if m[3] == "false" { // each has its own
				f.KVTokens *= int(f.MaxConcurrency)
			}
		}
		if m := weightsTake.FindStringSubmatch(line); m != nil {
			f.WeightsGiB = number(m[1] + m[2])
		}
		for _, figure := range []struct {
			re *regexp.Regexp
			to *float64
		}{{concurrentLine, &f.MaxConcurrency}, {weightsLine, &f.WeightsGiB}, {kvMemoryLine, &f.KVGiB}, {restForKV, &f.KVGiB}, {activationLine, &f.ActivationGiB}} {
			if m := figure.re.FindStringSubmatch(line); m != nil {
				*figure.to = number(m[1])
			}
		}
		if warningLine.MatchString(line) && len(f.Warnings) < maxWarnings {
			f.Warnings = append(f.Warnings, clean(line))
		}
	}
	return f
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v
}
