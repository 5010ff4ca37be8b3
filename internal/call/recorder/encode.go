package recorder

import (
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"spate/internal/call"
)

// Append appends r as one line of the log, for who sends it elsewhere. Text says whether the answer's texts go along.
func Append(dst []byte, r *call.Record, text bool) []byte { return appendRecord(dst, r, text) }

// appendRecord appends r as one JSON line. It is written by hand because it runs beside the
// measurement: one pass, no reflection, no allocation once dst has grown.
//
// Absent means the zero value, except for stamps, where absent means Unset; chunks are columns of
// equal length, and a column that says nothing new (every chunk visible, token counts unknown) is
// left out. decode.go holds the same table the other way round.
func appendRecord(dst []byte, r *call.Record, text bool) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, int64(r.ID), 10)
	dst = appendText(dst, "name", r.Name)
	dst = appendInt(dst, "attempt", int64(r.Attempt))
	dst = appendBool(dst, "retried", r.Retried)
	dst = appendText(dst, "phase", string(r.Phase))
	dst = appendText(dst, "session", r.Session)
	dst = appendInt(dst, "turn", int64(r.Turn))
	dst = appendText(dst, "model", r.Model)
	dst = appendInt(dst, "target", int64(r.Target))
	dst = appendText(dst, "worker", r.Worker)
	dst = appendLabels(dst, r.Labels)
	dst = appendStamps(dst, r)
	dst = appendChunks(dst, r.Chunks)
	dst = appendCounts(dst, r)
	dst = appendText(dst, "finish", r.Finish)
	if text {
		dst = appendText(dst, "text", r.Text)
		dst = appendText(dst, "thoughts", r.Thoughts)
		dst = appendText(dst, "tool_text", r.ToolText)
	}
	if s := r.Server; s != nil {
		dst = append(dst, `,"server":{"queue_ns":`...)
		dst = strconv.AppendInt(dst, int64(s.Queue), 10)
		dst = appendNumber(dst, "first_token_ns", int64(s.FirstToken))
		dst = appendNumber(dst, "generation_ns", int64(s.Generation))
		dst = appendNumber(dst, "mean_itl_ns", int64(s.MeanITL))
		dst = append(dst, '}')
	}
	dst = appendInt(dst, "status", int64(r.Status))
	dst = appendText(dst, "outcome", string(r.Outcome))
	dst = appendText(dst, "fault", string(r.Fault))
	dst = appendText(dst, "error", r.Err)
	dst = appendInt(dst, "retry_wait_ns", int64(r.RetryWait))
	return append(dst, '}', '\n')
}

func appendStamps(dst []byte, r *call.Record) []byte {
	dst = appendStamp(dst, "due_ns", r.Due)
	dst = appendStamp(dst, "dispatched_ns", r.Dispatched)
	dst = appendStamp(dst, "started_ns", r.Started)
	dst = appendStamp(dst, "sent_ns", r.Sent)
	dst = appendStamp(dst, "first_byte_ns", r.FirstByte)
	dst = appendStamp(dst, "headers_ns", r.Headers)
	dst = appendStamp(dst, "first_token_ns", r.FirstToken)
	dst = appendStamp(dst, "first_text_ns", r.FirstText)
	dst = appendStamp(dst, "last_token_ns", r.LastToken)
	dst = appendStamp(dst, "last_event_ns", r.LastEvent)
	dst = appendStamp(dst, "end_ns", r.End)
	dst = appendInt(dst, "dial_ns", int64(r.Dial))
	dst = appendInt(dst, "handshake_ns", int64(r.Handshake))
	dst = appendBool(dst, "in_band", r.InBand)
	return appendBool(dst, "reused", r.Reused)
}

func appendCounts(dst []byte, r *call.Record) []byte {
	dst = appendCount(dst, "asked", r.Asked)
	dst = appendInt(dst, "asked_out", int64(r.AskedOut))
	dst = appendInt(dst, "inputs", int64(r.Inputs))
	dst = appendInt(dst, "audio_ns", int64(r.Audio))
	dst = appendCount(dst, "in", r.In)
	dst = appendCount(dst, "out", r.Out)
	dst = appendCount(dst, "cached", r.Cached)
	dst = appendCount(dst, "reason", r.Reason)
	dst = appendCount(dst, "tool_out", r.ToolOut)
	dst = appendInt(dst, "claimed", int64(r.Claimed))
	return appendInt(dst, "bytes_in", r.BytesIn)
}

func appendChunks(dst []byte, chunks []call.Chunk) []byte {
	if len(chunks) == 0 {
		return dst
	}
	tokens, kinds := false, false
	dst = appendKey(dst, "chunk_ns")
	dst = append(dst, '[')
	for i := range chunks {
		c := &chunks[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(c.At), 10)
		tokens = tokens || c.Tokens != 0
		kinds = kinds || c.Kind != call.Visible
	}
	dst = append(dst, ']')
	if tokens {
		dst = appendColumn(dst, "chunk_tokens", chunks, func(c *call.Chunk) int64 { return int64(c.Tokens) })
	}
	if kinds {
		dst = appendColumn(dst, "chunk_kind", chunks, func(c *call.Chunk) int64 { return int64(c.Kind) })
	}
	return dst
}

func appendColumn(dst []byte, key string, chunks []call.Chunk, value func(*call.Chunk) int64) []byte {
	dst = appendKey(dst, key)
	dst = append(dst, '[')
	for i := range chunks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, value(&chunks[i]), 10)
	}
	return append(dst, ']')
}

func appendLabels(dst []byte, labels map[string]string) []byte {
	if len(labels) == 0 {
		return dst
	}
	dst = appendKey(dst, "labels")
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = appendString(dst, labels[k])
	}
	return append(dst, '}')
}

func appendKey(dst []byte, key string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

func appendNumber(dst []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(dst, key), n, 10)
}

func appendInt(dst []byte, key string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return appendNumber(dst, key, n)
}

func appendStamp(dst []byte, key string, at time.Duration) []byte {
	if at == call.Unset {
		return dst
	}
	return appendNumber(dst, key, int64(at))
}

func appendBool(dst []byte, key string, b bool) []byte {
	if !b {
		return dst
	}
	return append(appendKey(dst, key), "true"...)
}

func appendCount(dst []byte, key string, c call.Count) []byte {
	if c == (call.Count{}) {
		return dst
	}
	dst = appendKey(dst, key)
	dst = append(dst, `{"n":`...)
	dst = strconv.AppendInt(dst, int64(c.N), 10)
	dst = appendText(dst, "from", string(c.From))
	return append(dst, '}')
}

func appendText(dst []byte, key, s string) []byte {
	if s == "" {
		return dst
	}
	return appendString(appendKey(dst, key), s)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, as JSON cannot
// carry them.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, b)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
}
