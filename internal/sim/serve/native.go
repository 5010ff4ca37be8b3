package serve

import (
	"encoding/json"
	"strconv"
)

// nativeBody is a call of SGLang's own endpoint, /generate.
type nativeBody struct {
	Text     json.RawMessage `json:"text"`
	IDs      json.RawMessage `json:"input_ids"`
	Sampling struct {
		MaxTokens *int `json:"max_new_tokens"`
		MinTokens int  `json:"min_new_tokens"`
		IgnoreEOS bool `json:"ignore_eos"`
		N         *int `json:"n"`
	} `json:"sampling_params"`
	Stream bool `json:"stream"`
	Stamp  bool `json:"spate_ns"`
}

// nativeTokens is how many tokens SGLang answers with when nothing is said.
const nativeTokens = 128

// decodeNative reads a call of /generate.
func decodeNative(body []byte, needIDs bool) (*genCall, error) {
	var b nativeBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("", "the body is not the JSON object expected here: %v", err)
	}
	p := &b.Sampling
	c := &genCall{
		native: true, stream: b.Stream, stamp: b.Stamp, logprobs: -1, minTokens: p.MinTokens, ignoreEOS: p.IgnoreEOS,
		maxTokens: nativeTokens, n: 1,
	}
	if p.N != nil && *p.N != 1 {
		return nil, badRequest("n", "this server answers with one choice, n=%d was asked for", *p.N)
	}
	if p.MaxTokens != nil {
		c.maxTokens = *p.MaxTokens
	}
	if c.maxTokens < 1 || c.minTokens < 0 || c.minTokens > c.maxTokens {
		return nil, badRequest("sampling_params", "max_new_tokens is %d and min_new_tokens %d", c.maxTokens, c.minTokens)
	}
	raw := b.Text
	if len(raw) == 0 || string(raw) == "null" {
		raw = b.IDs
	}
	if len(raw) == 0 {
		return nil, badRequest("text", "Either text, input_ids or input_embeds should be provided.")
	}
	var err error
	if c.text, c.ids, err = decodePrompt(raw); err != nil {
		return nil, err
	}
	return c, c.tokenize(needIDs)
}

// nativeOutput appends one event of /generate: all of the answer so far, not what was added.
func (e *encoder) nativeOutput(b []byte, o Output, at int64, bad, mute bool) []byte {
	e.text = e.words(e.text, o.Tokens, bad)
	e.tokens += int(o.Tokens)
	b = append(b, `data: `...)
	b = e.native(b, o.Finish, mute, at)
	return append(b, "\n\n"...)
}

// native appends the object that an event or a whole answer of /generate is.
func (e *encoder) native(b []byte, f Finish, mute bool, at int64) []byte {
	b = append(b, `{"text":"`...)
	b = append(b, e.text...)
	b = append(b, `","output_ids":`...)
	b = e.ids(b, e.req.word, int32(e.tokens))
	b = append(b, `,"meta_info":{"id":`...)
	b = append(b, quote(e.req.ID)...)
	b = append(b, `,"finish_reason":`...)
	switch {
	case f == Running || mute:
		b = append(b, `null`...)
	case f == FinishLength:
		b = append(b, `{"type":"length","length":`...)
		b = strconv.AppendInt(b, int64(e.tokens), 10)
		b = append(b, '}')
	default:
		b = append(b, `{"type":"stop","matched":`...)
		b = strconv.AppendInt(b, eosID, 10)
		b = append(b, '}')
	}
	b = append(b, `,"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(e.req.PromptTokens), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(e.tokens), 10)
	b = append(b, `,"cached_tokens":`...)
	b = strconv.AppendInt(b, e.cached.Load(), 10)
	if f != Running {
		b = append(b, `,"e2e_latency":`...)
		b = strconv.AppendFloat(b, float64(at-e.req.Arrived)/1e9, 'f', 6, 64)
	}
	b = append(b, '}')
	if e.stampKey {
		b = append(b, `,"spate_ns":`...)
		b = strconv.AppendInt(b, at, 10)
	}
	return append(b, '}')
}

// nativeBody renders the whole answer of /generate.
func (w *pumping) nativeBody(f Finish) []byte {
	e := &w.s.enc
	e.text = append(e.text[:0], w.reply(0).text...)
	return e.native(nil, f, w.s.fate.style.noFinish, Mono())
}
