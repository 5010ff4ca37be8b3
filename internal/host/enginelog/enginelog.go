// Package enginelog reads the lines that engines print: what a server says of itself while it starts (startup.go),
// the stats lines in which it says every few seconds how it is doing (this file for vLLM, sglang.go), and vLLM's
// details of single steps (step.go). harvest and calibrate find them in logs of the past, launch and observe in a log
// that is being written. It is pure and knows neither files nor clocks.
package enginelog

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Sample is one stats line of an engine, numbers as printed.
type Sample struct {
	Line          int         `json:"line"`
	Time          string      `json:"time,omitempty"` // as printed, which is without a year
	Engine        string      `json:"engine,omitempty"`
	PromptTPS     json.Number `json:"prompt_throughput,omitempty"`     // tokens/s
	GenerationTPS json.Number `json:"generation_throughput,omitempty"` // tokens/s
	Running       json.Number `json:"running,omitempty"`
	Waiting       json.Number `json:"waiting,omitempty"`
	Swapped       json.Number `json:"swapped,omitempty"` // V0 only
	Deferred      json.Number `json:"deferred,omitempty"`
	Preemptions   json.Number `json:"preemptions,omitempty"`
	KVUsage       json.Number `json:"kv_usage_percent,omitempty"`
	CPUKVUsage    json.Number `json:"cpu_kv_usage_percent,omitempty"` // V0 only
	PrefixHit     json.Number `json:"prefix_hit_percent,omitempty"`
	CPUPrefixHit  json.Number `json:"cpu_prefix_hit_percent,omitempty"` // V0 only
	ExternalHit   json.Number `json:"external_prefix_hit_percent,omitempty"`
	MMHit         json.Number `json:"mm_cache_hit_percent,omitempty"`
	Cut           bool        `json:"truncated,omitempty"` // the line has lost its beginning or its end
}

var (
	engineTime   = regexp.MustCompile(`(\d{2,4}-\d{2}(?:-\d{2})?[ T]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?)`)
	engineName   = regexp.MustCompile(`Engine (\d+):|(\d+ Engines Aggregated):`)
	v0PrefixLine = regexp.MustCompile(`Prefix cache hit rate: GPU: (` + Number + `)%, CPU: (` + Number + `)%`)
)

// Number is the pattern of a number as JSON takes it, so that what was printed can be passed on.
const Number = `(?:0|[1-9]\d*)(?:\.\d+)?`

// engineParts are the parts of a stats line, each found by itself so that a cut line keeps the rest.
var engineParts = []struct {
	find *regexp.Regexp
	set  func(*Sample, json.Number)
}{
	{part(`Avg prompt throughput: (N) tokens/s`), func(s *Sample, n json.Number) { s.PromptTPS = n }},
	{part(`Avg generation throughput: (N) tokens/s`), func(s *Sample, n json.Number) { s.GenerationTPS = n }},
	{part(`Running: (N) reqs`), func(s *Sample, n json.Number) { s.Running = n }},
	{part(`(?:Waiting|Pending): (N) reqs`), func(s *Sample, n json.Number) { s.Waiting = n }},
	{part(`Swapped: (N) reqs`), func(s *Sample, n json.Number) { s.Swapped = n }},
	{part(`Deferred: (N) reqs`), func(s *Sample, n json.Number) { s.Deferred = n }},
	{part(`Preemptions: (N)`), func(s *Sample, n json.Number) { s.Preemptions = n }},
	{part(`GPU KV cache usage: (N)%`), func(s *Sample, n json.Number) { s.KVUsage = n }},
	{part(`CPU KV cache usage: (N)%`), func(s *Sample, n json.Number) { s.CPUKVUsage = n }},
	{part(`(?:^|[,.] )Prefix cache hit rate: (N)%`), func(s *Sample, n json.Number) { s.PrefixHit = n }},
	{part(`External prefix cache hit rate: (N)%`), func(s *Sample, n json.Number) { s.ExternalHit = n }},
	{part(`MM cache hit rate: (N)%`), func(s *Sample, n json.Number) { s.MMHit = n }},
}

func part(pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "(N)", "("+Number+")"))
}

// Parse recognises a stats line of the V0 or V1 engine, whole or cut.
func Parse(text string, line int) (Sample, bool) {
	throughput := strings.Contains(text, "generation throughput: ")
	queue := strings.Contains(text, "Running: ") && strings.Contains(text, " reqs")
	if !throughput && !queue {
		return Sample{}, false
	}
	s := Sample{Line: line}
	found := 0
	for _, p := range engineParts {
		if m := p.find.FindStringSubmatch(text); m != nil {
			p.set(&s, json.Number(m[1]))
			found++
		}
	}
	if found < 2 || s.Running == "" && s.GenerationTPS == "" {
		return Sample{}, false
	}
	if m := engineTime.FindStringSubmatch(text); m != nil {
		s.Time = m[1]
	}
	if m := engineName.FindStringSubmatch(text); m != nil {
		s.Engine = m[1] + m[2]
	}
	s.Cut = s.PromptTPS == "" || s.Running == "" || s.KVUsage == ""
	return s, true
}

// Complete recognises the line that follows a V0 stats line and completes it.
func Complete(text string, into *Sample) bool {
	m := v0PrefixLine.FindStringSubmatch(text)
	if m == nil || into == nil {
		return false
	}
	into.PrefixHit, into.CPUPrefixHit = json.Number(m[1]), json.Number(m[2])
	return true
}
