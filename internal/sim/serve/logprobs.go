package serve

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxLogprobs is the most alternatives a call may ask for, as vLLM has it.
const maxLogprobs = 20

// askLogprobs reads how many alternatives a call wants for each token: completions say a number,
// chat says yes and then a number.
func (c *genCall) askLogprobs(b *genBody) error {
	c.logprobs = -1
	raw := bytes.TrimSpace(b.Logprobs)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) || bytes.Equal(raw, []byte("false")) {
		return nil
	}
	if c.chat {
		if !bytes.Equal(raw, []byte("true")) {
			return badRequest("logprobs", "logprobs must be true or false")
		}
		c.logprobs = b.TopLogprobs
	} else if err := json.Unmarshal(raw, &c.logprobs); err != nil {
		return badRequest("logprobs", "logprobs must be a number")
	}
	if c.logprobs < 0 || c.logprobs > maxLogprobs {
		return badRequest("logprobs", "Requested sample logprobs of %d, which is greater than max allowed: %d", c.logprobs, maxLogprobs)
	}
	return nil
}

// logprobs appends the logprobs of n tokens from word on, in the shape of the endpoint: null when
// none were asked for. Their values mean nothing; their number and form do.
func (e *encoder) logprobs(b []byte, word int, n int32, offset int) []byte {
	if e.call.logprobs < 0 {
		return append(b, `null`...)
	}
	if e.call.chat {
		return e.chatLogprobs(b, word, n)
	}
	b = append(b, `{"text_offset":[`...)
	w := word
	for i := range n {
		b = comma(b, int(i))
		b = strconv.AppendInt(b, int64(offset), 10)
		offset += len(outWords[w])
		w = (w + e.stride) % len(outWords)
	}
	b = append(b, `],"token_logprobs":[`...)
	for i := range n {
		b = append(comma(b, int(i)), guess(0)...)
	}
	b = append(b, `],"tokens":[`...)
	w = word
	for i := range n {
		b = append(comma(b, int(i)), quote(outWords[w])...)
		w = (w + e.stride) % len(outWords)
	}
	b = append(b, `],"top_logprobs":[`...)
	w = word
	for i := range n {
		b = append(comma(b, int(i)), '{')
		for k := range max(e.call.logprobs, 1) {
			b = append(comma(b, k), quote(outWords[(w+k)%len(outWords)])...)
			b = append(append(b, ':'), guess(k)...)
		}
		b = append(b, '}')
		w = (w + e.stride) % len(outWords)
	}
	return append(b, `]}`...)
}

func (e *encoder) chatLogprobs(b []byte, word int, n int32) []byte {
	b = append(b, `{"content":[`...)
	for i := range n {
		b = comma(b, int(i))
		b = appendLogprob(b, word, 0)
		b = append(b, `,"top_logprobs":[`...)
		for k := range e.call.logprobs {
			b = appendLogprob(comma(b, k), (word+k)%len(outWords), k)
			b = append(b, '}')
		}
		b = append(b, `]}`...)
		word = (word + e.stride) % len(outWords)
	}
	return append(b, `]}`...)
}

// appendLogprob appends one token's object without its closing brace.
func appendLogprob(b []byte, word, k int) []byte {
	b = append(b, `{"token":`...)
	b = append(b, quote(outWords[word])...)
	b = append(b, `,"logprob":`...)
	b = append(b, guess(k)...)
	b = append(b, `,"bytes":[`...)
	for i, c := range []byte(outWords[word]) {
		b = strconv.AppendInt(comma(b, i), int64(c), 10)
	}
	return append(b, ']')
}

// guess is the logprob of the k-th best token.
func guess(k int) string { return "-" + strconv.Itoa(k) + ".25" }

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}
