package metrics

import (
	"time"

	"spate/internal/call"
)

// This file holds each per-request formula once. All of them take one record and return a duration
// (or a number) and whether the record has it.

// between is the time from one stamp to another, where both were taken.
func between(from, to time.Duration) (time.Duration, bool) {
	return to - from, from >= 0 && to >= 0
}

// OutputTokens is vLLM's output length: the count the record carries; where it is zero, 1 without a
// tokenizer to tell and 0 with one.
func OutputTokens(r *call.Record, tokenizer bool) int {
	if r.Out.N > 0 || tokenizer {
		return r.Out.N
	}
	return 1
}

// InputTokens is the prompt length: the server's count if it sent one, else the workload's.
func InputTokens(r *call.Record) int {
	if r.In.N > 0 {
		return r.In.N
	}
	return r.Asked.N
}

// TTFT is vLLM's time to first token: from just before the request was written to the first message
// that has choices, empty or not (for chat that is the role message). 0 without any chunk, and the whole
// latency where nothing is generated.
func TTFT(r *call.Record) (time.Duration, bool) {
	switch {
	case len(r.Chunks) > 0:
		return between(r.Sent, r.Chunks[0].At)
	case pools(r):
		return between(r.Sent, r.Headers)
	}
	return 0, r.Sent >= 0
}

// pools reports a request that asked for no text: only those count their inputs.
func pools(r *call.Record) bool { return r.Inputs > 0 }

// TTFTDue is the same first message seen from the time the request was due.
func TTFTDue(r *call.Record) (time.Duration, bool) {
	switch {
	case len(r.Chunks) > 0:
		return between(r.Due, r.Chunks[0].At)
	case pools(r):
		return between(r.Due, r.Headers)
	}
	return 0, false
}

// FirstByte is the time from sending to the first byte of the response.
func FirstByte(r *call.Record) (time.Duration, bool) { return between(r.Sent, r.FirstByte) }

// FirstToken is the time from sending to the first non-empty content of any kind.
func FirstToken(r *call.Record) (time.Duration, bool) { return between(r.Sent, r.FirstToken) }

// FirstText is the time from sending to the first content a user sees.
func FirstText(r *call.Record) (time.Duration, bool) { return between(r.Sent, r.FirstText) }

// LastToken is the time from sending to the last non-empty content.
func LastToken(r *call.Record) (time.Duration, bool) { return between(r.Sent, r.LastToken) }

// Closed is the time from sending to the end of the response.
func Closed(r *call.Record) (time.Duration, bool) { return between(r.Sent, r.End) }

// Latency is vLLM's end-to-end latency: to the last chunk with choices, or to the last message when
// the rule says so.
func Latency(r *call.Record, rule EndRule) (time.Duration, bool) {
	return between(r.Sent, endOf(r, rule))
}

// LatencyDue is the same end seen from the time the request was due.
func LatencyDue(r *call.Record, rule EndRule) (time.Duration, bool) {
	return between(r.Due, endOf(r, rule))
}

// endOf is the stamp that ends the request under the rule.
func endOf(r *call.Record, rule EndRule) time.Duration {
	last := call.Unset
	if n := len(r.Chunks); n > 0 {
		last = r.Chunks[n-1].At
	}
	switch rule {
	case Headers:
		return firstSet(r.Headers, r.LastEvent, r.End)
	case LastEvent:
		return firstSet(r.LastEvent, last, r.End)
	}
	return firstSet(last, r.LastEvent, r.End)
}

// TPOT is vLLM's time per output token after the first, in seconds; false for outputs of one token
// or none, which vLLM leaves out.
func TPOT(r *call.Record, rule EndRule, tokenizer bool) (float64, bool) {
	latency, ok := Latency(r, rule)
	if !ok {
		return 0, false
	}
	first, _ := TTFT(r)
	return tpotOf(latency, first, OutputTokens(r, tokenizer))
}

// tpotOf is the formula.
func tpotOf(latency, first time.Duration, out int) (float64, bool) {
	if out <= 1 {
		return 0, false
	}
	return seconds(latency-first) / float64(out-1), true
}

// DispatchLag is how late the tool let the request go: its own fault.
func DispatchLag(r *call.Record) (time.Duration, bool) { return between(r.Due, r.Dispatched) }

// Queue is how long the request then waited for a free slot under the concurrency cap.
func Queue(r *call.Record) (time.Duration, bool) { return between(r.Dispatched, r.Started) }

// appendITL adds vLLM's inter-token latencies in seconds: the gaps between consecutive chunks.
func appendITL(dst []float64, chunks []call.Chunk) []float64 {
	for i := 1; i < len(chunks); i++ {
		dst = append(dst, seconds(chunks[i].At-chunks[i-1].At))
	}
	return dst
}

// withoutRole drops the empty messages a chat answer opens with.
func withoutRole(chunks []call.Chunk) []call.Chunk {
	for i, c := range chunks {
		if c.Kind != 0 || c.Tokens > 0 {
			return chunks[i:]
		}
	}
	return chunks // nothing but empty messages: there is no role message to tell apart
}

// TokenSource says how the tokens of a request were assigned to its chunks.
type TokenSource string

// Sources of tokens per chunk, from best to worst.
const (
	TokensCounted TokenSource = "counted"       // the stream told the tokens of each chunk
	TokensSingle  TokenSource = "one_per_chunk" // as many tokens as chunks
	TokensSpread  TokenSource = "spread"        // the total divided evenly over the chunks
	TokensNone    TokenSource = "none"          // no chunks
)

// chunkTokens assigns the request's output tokens to its chunks, reusing dst. The counts add up to
// out unless the stream itself counted otherwise.
func chunkTokens(dst []int32, chunks []call.Chunk, out int) ([]int32, TokenSource) {
	dst = dst[:0]
	if len(chunks) == 0 {
		return dst, TokensNone
	}
	told, content, toldAll := 0, 0, true
	for _, c := range chunks {
		told += int(c.Tokens)
		if c.Kind != 0 {
			content++
			toldAll = toldAll && c.Tokens > 0
		}
	}
	if told > 0 && (told == out || toldAll) {
		for _, c := range chunks {
			dst = append(dst, c.Tokens)
		}
		return dst, TokensCounted
	}
	return guessTokens(dst, chunks, content, out)
}

// guessTokens assigns tokens nobody counted: one to each chunk if that fits the total for the
// chunks with content, for all chunks, or for all but the role message (a token may decode to no
// text); else evenly.
func guessTokens(dst []int32, chunks []call.Chunk, content, out int) ([]int32, TokenSource) {
	lead := len(chunks) - len(withoutRole(chunks))
	bears := func(i int) bool { return chunks[i].Kind != 0 }
	n, source := content, TokensSingle
	switch out {
	case content:
	case len(chunks):
		bears, n = func(int) bool { return true }, len(chunks)
	case len(chunks) - lead:
		bears, n = func(i int) bool { return i >= lead }, len(chunks)-lead
	default:
		source = TokensSpread
		if content == 0 {
			bears, n = func(int) bool { return true }, len(chunks)
		}
	}
	given, seen := 0, 0
	for i := range chunks {
		t := 0
		if bears(i) {
			seen++
			upto := (seen*out + n - 1) / n // rounds up: the first chunk always has one
			t = upto - given
			given = upto
		}
		dst = append(dst, int32(t))
	}
	return dst, source
}

// appendTokenITL adds the token-true inter-token latencies in seconds: the gap before a chunk of k
// tokens counts as k gaps of one k-th. The tokens of the first chunk came together with the first
// token and have no gap of their own. The sum is the time from the first to the last chunk that
// bore tokens. Gaps of one chunk are equal and given once, with their count.
func appendTokenITL(gaps []float64, counts []int, chunks []call.Chunk, tokens []int32) ([]float64, []int) {
	prev := call.Unset
	for i, k := range tokens {
		if k <= 0 {
			continue
		}
		at := chunks[i].At
		if prev >= 0 {
			gap := seconds(at - prev)
			if k > 1 {
				gap /= float64(k)
			}
			gaps, counts = append(gaps, gap), append(counts, int(k))
		}
		prev = at
	}
	return gaps, counts
}

// SlotToSend is the time from having a slot to the first byte written: encoding, waiting for a
// connection, and the tool's own scheduling.
func SlotToSend(r *call.Record) (time.Duration, bool) { return between(r.Started, r.Sent) }
