package metrics

import (
	"strings"

	"spate/internal/call"
)

// Detail is vLLM's per-request arrays, over all requests in dispatch order; times in seconds. A
// request that did not succeed has 0, no gaps and no text.
type Detail struct {
	InputLens  []int       `json:"input_lens"`
	OutputLens []int       `json:"output_lens"`
	TTFTs      []float64   `json:"ttfts"`
	ITLs       [][]float64 `json:"itls"`
	StartTimes []float64   `json:"start_times"`
	Texts      []string    `json:"generated_texts"`
	Errors     []string    `json:"errors"`
}

// Detailed makes the arrays of vLLM's detailed result.
func Detailed(recs []call.Record, run Run) Detail {
	z := summarizer{set: call.List(recs)}
	order := z.counted()
	n := len(order)
	d := Detail{
		InputLens: make([]int, n), OutputLens: make([]int, n),
		TTFTs: make([]float64, n), ITLs: make([][]float64, n),
		StartTimes: make([]float64, n), Texts: make([]string, n), Errors: make([]string, n),
	}
	for i, number := range order {
		r := &recs[number]
		d.InputLens[i] = InputTokens(r)
		d.StartTimes[i] = seconds(max(0, firstSet(r.Sent, r.Started, r.Dispatched, r.Due)))
		if r.Outcome != call.OK {
			d.ITLs[i] = []float64{}
			d.Errors[i] = errorOf(r)
			continue
		}
		ttft, _ := TTFT(r)
		d.OutputLens[i] = OutputTokens(r, run.Tokenizer)
		d.TTFTs[i] = seconds(ttft)
		d.ITLs[i] = appendITL(make([]float64, 0, max(0, len(r.Chunks)-1)), r.Chunks)
		d.Texts[i] = r.Text
	}
	return d
}

// FirstErrors quotes the first requests that did not succeed, in dispatch order.
func FirstErrors(set call.Set, most int) []string {
	var out []string
	z := summarizer{set: set}
	for r := range set.Pick(z.counted()) {
		if len(out) == most {
			break
		}
		if e := errorOf(r); r.Outcome != call.OK && r.Fault != call.FaultStopped && e != "" {
			out = append(out, strings.Clone(e))
		}
	}
	return out
}

// errorOf is why a request did not succeed, in words where there are any.
func errorOf(r *call.Record) string {
	if r.Err == "" {
		return string(r.Fault)
	}
	return r.Err
}
