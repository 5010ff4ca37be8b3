package enginelog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Step is one step of an engine, as a line of its iteration details tells it.
type Step struct {
	Line         int
	Prompts      int // requests that computed prompt tokens
	PromptTokens int
	Decodes      int // requests that generated
	DecodeTokens int
	Elapsed      time.Duration
	Usage        float64 // of the KV cache, 0 to 1; below zero where the line does not say
}

// ParseStep reads a line of iteration details. Its parts are found by their names, so that versions that
// add to it stay readable.
func ParseStep(text string) (Step, bool) {
	s := Step{Usage: -1}
	_, text, _ = strings.Cut(text, "Iteration(")
	ms, ok := number(after(text, "elapsed time: "))
	if !ok || !strings.HasPrefix(strings.TrimLeft(after(text, "elapsed time: "), "0123456789."), " ms") || ms > 1e9 {
		return s, false
	}
	s.Elapsed = time.Duration(ms * float64(time.Millisecond))
	for _, p := range []struct {
		name string
		to   *int
	}{
		{" context requests", &s.Prompts},
		{" context tokens", &s.PromptTokens},
		{" generation requests", &s.Decodes},
		{" generation tokens", &s.DecodeTokens},
	} {
		n, found := before(text, p.name)
		if !found && p.to != &s.DecodeTokens {
			return s, false
		}
		*p.to = n
	}
	s.DecodeTokens = max(s.DecodeTokens, s.Decodes)
	if pct, ok := number(after(text, "KV cache usage: ")); ok && pct <= 100 {
		s.Usage = pct / 100
	}
	return s, s.Elapsed > 0 && s.PromptTokens+s.DecodeTokens > 0
}

// after is what follows a mark, empty without it.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// number reads the number a text begins with, with commas between its digits.
func number(text string) (float64, bool) {
	n := 0
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.' || text[n] == ',') {
		n++
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(text[:n], ".,"), ",", ""), 64)
	return v, err == nil
}

// MaxCount is more tokens or requests than any step or cache has.
const MaxCount = 1 << 31

// Whole reads the whole number a text begins with; zero where there is none, or one that no server has.
func Whole(text string) int {
	v, ok := number(text)
	if !ok || v != math.Trunc(v) || v >= MaxCount {
		return 0
	}
	return int(v)
}

// Float reads the number a text begins with; zero where there is none.
func Float(text string) float64 {
	v, _ := number(text)
	return v
}

// before reads the whole number that stands before a mark.
func before(text, mark string) (int, bool) {
	i := strings.Index(text, mark)
	if i < 0 {
		return 0, false
	}
	j := i
	for j > 0 && text[j-1] >= '0' && text[j-1] <= '9' {
		j--
	}
	v, ok := number(text[j:i])
	return Whole(text[j:i]), ok && v < MaxCount
}
