package protocol

import (
	"path"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"spate/internal/call"
)

const embeddings = "/v1/embeddings"

func poolingOf(name, about, endpoint string, port int, how pooling) Protocol {
	return Protocol{
		Name: name, About: about, Path: endpoint, Suffix: path.Base(endpoint), Port: port, Family: Pooling,
		IDs: !how.messages && !how.infinity && !how.rank, Manner: Manner{Whole: true, Ranks: how.rank}, Codec: how,
	}
}

// pooling speaks the protocols that embed, score or rank: one JSON answer, nothing generated.
type pooling struct {
	truncate bool // vLLM cuts inputs that are too long when asked to
	messages bool // the input goes as chat messages
	infinity bool // an image goes as its address, with what it is
	clip     bool // the model takes a text or an image: beside an image the text is left empty
	vlm2vec  bool // the model wants instructions, after the image
	rank     bool // a query and documents
}

// Encode implements Codec.
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
	case b.infinity:
		b.setInfinity(&o, r)
	case len(r.Prompt.Messages) > 0 || b.messages:
		o.set("messages", b.chat(r))
	default:
		o.set("input", input(r))
	}
	if b.truncate {
		o.set("truncate_prompt_tokens", []byte("-1"))
	}
	if b.rank {
		return o.appendTo(dst), nil // vLLM's client sends no extra body here
	}
	return o.finish(dst, s.Extra, r.Extra)
}

// setInfinity sets the input: a text, or the address of an image.
func (b pooling) setInfinity(o *object, r *call.Request) {
	text, media := parts(r)
	if len(media) == 0 || text != "" && !b.clip {
		if len(r.Prompt.Messages) > 0 {
			o.set("input", appendString(nil, text))
		} else {
			o.set("input", input(r))
		}
		return
	}
	kind := string(media[0].GetStringBytes("type"))
	o.set("input", appendString(nil, string(media[0].GetStringBytes(kind, "url"))))
	modality, _, _ := strings.Cut(kind, "_")
	o.set("modality", appendString(nil, modality))
}

// chat is the input as messages. vlm2vec alternates between an instruction about the image alone and one
// with the text, as vLLM's client does.
func (b pooling) chat(r *call.Request) []byte {
	if !b.clip && !b.vlm2vec {
		return messages(r)
	}
	text, media := parts(r)
	switch {
	case b.vlm2vec && r.ID%2 == 0:
		text = "Represent the given image."
	case b.vlm2vec:
		text = "Represent the given image with the following question: " + text
	case len(media) > 0:
		text = ""
	}
	content := make([][]byte, 0, len(media)+1)
	said := append(appendString([]byte(`{"type":"text","text":`), text), '}')
	if !b.vlm2vec {
		content = append(content, said)
	}
	for _, m := range media {
		content = append(content, m.MarshalTo(nil))
	}
	if b.vlm2vec {
		content = append(content, said)
	}
	out := []byte(`[{"role":"user","content":[`)
	for i, part := range content {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, part...)
	}
	return append(out, "]}]"...)
}

// parts are the text of a request and what comes with it that is no text.
func parts(r *call.Request) (text string, media []*fastjson.Value) {
	if len(r.Prompt.Messages) == 0 {
		return r.Prompt.Text, nil
	}
	v, err := fastjson.ParseBytes(r.Prompt.Messages)
	if err != nil {
		return r.Prompt.Text, nil
	}
	var words []string
	for i := range v.GetArray() {
		content := v.Get(strconv.Itoa(i), "content")
		if content.Type() == fastjson.TypeString {
			words = append(words, string(content.GetStringBytes()))
		}
		for _, part := range content.GetArray() {
			if string(part.GetStringBytes("type")) == "text" {
				words = append(words, string(part.GetStringBytes("text")))
			} else {
				media = append(media, part)
			}
		}
	}
	return strings.Join(words, "\n"), media
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

// Decode implements Codec. Ranking servers count all tokens under another name.
func (pooling) Decode(v *fastjson.Value, e *Event) {
	if decodeCommon(v, e); e.Usage != nil && e.Usage.Prompt == 0 {
		e.Usage.Prompt = number(v, "usage", "total_tokens")
	}
}
