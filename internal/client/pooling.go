package client

import (
	"encoding/json"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

// pooling speaks the protocols that embed, score or rank: one JSON answer, nothing generated.
type pooling struct {
	truncate bool // vLLM cuts inputs that are too long when asked to
	messages bool // the input goes as chat messages
	modality bool // Infinity wants to be told what an input is
	rank     bool // a query and documents
}

// Manner implements Backend.
func (pooling) Manner() Manner { return Manner{Whole: true} }

// Encode implements Backend.
func (b pooling) Encode(dst []byte, s *Body, r *call.Request) ([]byte, error) {
	var o object
	o.set("model", appendString(nil, model(s, r)))
	switch {
	case b.rank:
		query, documents := r.Prompt.Text, r.Prompt.Texts
		if len(documents) > 0 {
			query, documents = documents[0], documents[1:]
		}
		o.set("query", appendString(nil, query))
		o.set("documents", appendStrings(nil, documents))
	case len(r.Prompt.Messages) > 0 || b.messages:
		o.set("messages", messages(r))
	default:
		o.set("input", input(r))
	}
	if b.modality {
		o.set("modality", []byte(`"text"`))
	}
	if b.truncate {
		o.set("truncate_prompt_tokens", []byte("-1"))
	}
	if b.rank {
		return o.appendTo(dst), nil // vLLM's client sends no extra body here
	}
	for _, raw := range []json.RawMessage{s.Extra, r.Extra} {
		if err := o.merge(raw); err != nil {
			return dst, err
		}
	}
	return o.appendTo(dst), nil
}

// input is one text, one list of token ids, or a batch of texts.
func input(r *call.Request) []byte {
	if len(r.Prompt.Texts) > 0 {
		return appendStrings(nil, r.Prompt.Texts)
	}
	return prompt(r)
}

func appendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, t)
	}
	return append(b, ']')
}

// Decode implements Backend.
func (pooling) Decode(v *fastjson.Value, e *event) { decodeCommon(v, e) }
