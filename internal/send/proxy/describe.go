package proxy

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/token/chat"
	"spate/internal/token/tokenizer"
)

// Line is one request of a recording: the columns of a Mooncake trace, then what else is known of it.
type Line struct {
	Timestamp float64  `json:"timestamp"` // ms since the recording began
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Blocks    []uint64 `json:"hash_ids"`

	Model   string   `json:"model,omitempty"`
	Path    string   `json:"path,omitempty"`
	Stream  bool     `json:"stream"`
	Session string   `json:"session,omitempty"`
	Status  int      `json:"status"`
	Fate    string   `json:"fate"`
	TTFT    *float64 `json:"ttft_ms,omitempty"`
	End     float64  `json:"end_ms"`
	Cached  *int     `json:"cached_tokens,omitempty"`
	Most    int      `json:"max_output,omitempty"`
	InFrom  Counter  `json:"input_from"`
	OutFrom Counter  `json:"output_from"`

	Prompt string `json:"prompt,omitempty"`
	Answer string `json:"answer,omitempty"`
}

// Counter is who counted tokens.
type Counter string

// The counters.
const (
	ByServer    Counter = "server"
	ByTokenizer Counter = "tokenizer"
	Estimated   Counter = "estimated" // characters / 4
	None        Counter = "none"      // there was nothing to count
)

// maxTokens is more than any prompt has; a server that counts more is not believed.
const maxTokens = 1 << 24

// words counts tokens with a tokenizer, by several goroutines.
type words struct {
	tok      *tokenizer.Tokenizer
	template *chat.Template
	encoders sync.Pool
}

func newWords(tok *tokenizer.Tokenizer) (*words, error) {
	w := &words{tok: tok}
	if tok == nil {
		return w, nil
	}
	w.encoders.New = func() any { return tok.NewEncoder() }
	if source := tok.Config().ChatTemplate; source != "" {
		var err error
		if w.template, err = chat.Parse(source); err != nil {
			w.template = nil // messages are then counted without what a template puts around them
		}
	}
	return w, nil
}

func (w *words) encode(text string, special bool) []int32 {
	enc, _ := w.encoders.Get().(*tokenizer.Encoder)
	defer w.encoders.Put(enc)
	return enc.Encode(nil, text, special)
}

// describe is what the trace says of a request that has ended; asked is false where it had no prompt.
func (p *Proxy) describe(x *exchange) (line Line, asked bool) {
	var asking, answering fastjson.Parser
	a, r := readAsk(&asking, x.path, x.asked), readReply(&answering, x)
	line = Line{
		Timestamp: millis(x.begun), End: millis(x.end - x.begun), Model: a.model, Path: x.path, Stream: a.stream, Status: x.status, Fate: x.fate,
		Most: a.most, Blocks: []uint64{}, InFrom: None, OutFrom: None,
	}
	if !a.prompt {
		line.Path = "" // whatever its maker puts into it
	}
	if id := x.session; id != "" || a.session != "" {
		if id == "" {
			id = a.session
		}
		line.Session = p.salt.word("session", id)
	}
	if r.first > 0 {
		ttft := millis(r.first - x.begun)
		line.TTFT = &ttft
	}
	if r.counted {
		line.Cached = &r.cached
	}
	if a.prompt {
		p.prompt(&line, &a, r.in)
	}
	p.answer(&line, &r)
	if p.cfg.KeepText {
		line.Prompt, line.Answer = a.text, string(r.text)
	}
	return line, a.prompt
}

// prompt fills in the length and the blocks of a prompt.
func (p *Proxy) prompt(line *Line, a *ask, told int) {
	ids, n := a.ids, utf8.RuneCountInString(a.text)
	line.Input, line.InFrom = (n+charsPerToken-1)/charsPerToken, Estimated
	if ids == nil && p.words.tok != nil {
		ids = p.words.tokens(a)
	}
	if ids != nil {
		line.Input, line.InFrom = len(ids), ByTokenizer
	}
	if told > 0 && told <= maxTokens {
		line.Input, line.InFrom = told, ByServer
	}
	blocks := p.salt.ofText(a.text, p.cfg.Block)
	if ids != nil {
		blocks = p.salt.ofTokens(ids, p.cfg.Block)
	}
	line.Blocks = blocks.fit(line.Input, p.cfg.Block)
	if line.Blocks == nil {
		line.Blocks = []uint64{}
	}
}

func (p *Proxy) answer(line *Line, r *reply) {
	switch {
	case r.out > 0:
		line.Output, line.OutFrom = r.out, ByServer
	case len(r.text) > 0 && p.words.tok != nil:
		line.Output, line.OutFrom = len(p.words.encode(string(r.text), false)), ByTokenizer
	case len(r.text) > 0:
		line.Output, line.OutFrom = (utf8.RuneCount(r.text)+charsPerToken-1)/charsPerToken, Estimated
	}
}

// tokens are the ids of a prompt of text; of messages with what the model's template puts around them.
func (w *words) tokens(a *ask) []int32 {
	if a.chat != nil && w.template != nil {
		if text, err := w.render(a); err == nil {
			return w.encode(text, false)
		}
	}
	return w.encode(a.text, a.chat == nil)
}

func (w *words) render(a *ask) (string, error) {
	cfg := w.tok.Config()
	in := chat.Input{AddGenerationPrompt: true, BOS: cfg.BOS, EOS: cfg.EOS}
	for _, m := range a.chat.GetArray() {
		msg := chat.Message{Role: string(m.GetStringBytes("role")), NoContent: m.Get("content") == nil, Extra: chat.NewDict()}
		v, err := chat.DecodeJSON(m.MarshalTo(nil))
		if err != nil {
			return "", err
		}
		if fields, ok := v.(*chat.Dict); ok {
			for key, value := range fields.All() {
				switch key {
				case "role":
				case "content":
					msg.Content = value
				default:
					msg.Extra.Set(key, value)
				}
			}
		}
		in.Messages = append(in.Messages, msg)
	}
	if a.tools != nil {
		tools, err := chat.DecodeJSON(a.tools.MarshalTo(nil))
		if err != nil {
			return "", err
		}
		in.Tools = tools
	}
	return w.template.Render(in)
}

// millis is a time in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return call.Millis(d.Round(time.Microsecond)) }
