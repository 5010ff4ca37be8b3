package launch

import (
	"cmp"
	"regexp"
	"strings"

	"spate/internal/host/enginelog"
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

var warningLine = regexp.MustCompile(`\bWARNING\b|^\d+(?:\.\d+){3} W `)

const (
	maxWarnings = 10
	blockTokens = 16 // of a cache that is told in blocks
)

// ReadFacts finds them in what a server printed.
func ReadFacts(log string) Facts {
	var s enginelog.Start
	var warnings []string
	for line := range strings.SplitSeq(log, "\n") {
		s.Read(line)
		if warningLine.MatchString(line) && len(warnings) < maxWarnings {
			warnings = append(warnings, clean(line))
		}
	}
	return Facts{
		Version: s.Version, KVTokens: cmp.Or(s.KVTokens, blockTokens*s.Blocks), MaxConcurrency: s.Requests,
		WeightsGiB: s.WeightsGiB, KVGiB: s.KVGiB, ActivationGiB: s.ActivationGiB, Warnings: warnings,
	}
}
