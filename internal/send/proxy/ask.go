package proxy

import (
	"strings"

	"github.com/valyala/fastjson"

	"spate/internal/send/http1"
)

// ask is what the body of a request says.
type ask struct {
	prompt  bool // there is one
	model   string
	stream  bool
	session string
	most    int     // output tokens asked for
	ids     []int32 // a prompt of token ids
	text    string  // one of text; of messages, one line of role and content after another
	chat    *fastjson.Value
	tools   *fastjson.Value
}

// sessionHeaders name a conversation in the ways clients and routers do.
var sessionHeaders = []string{"x-session-id", "x-conversation-id", "x-correlation-id", "session-id", "x-user-id"}

// sessionFields do so in the body.
var sessionFields = [][]string{
	{"session_id"},
	{"conversation_id"},
	{"session_params", "id"},
	{"prompt_cache_key"},
	{"previous_response_id"},
	{"metadata", "session_id"},
	{"metadata", "user_id"},
	{"user"},
}

func sessionOf(h *http1.Head) string {
	for _, name := range sessionHeaders {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// notPrompts are paths of requests that have a text and generate nothing from it.
var notPrompts = []string{"/tokenize", "/detokenize", "/apply-template", "/infill/reset"}

// readAsk reads the body of a request to any of the protocols; zero where it is none.
func readAsk(p *fastjson.Parser, path string, body []byte) ask {
	var a ask
	for _, suffix := range notPrompts {
		if strings.HasSuffix(path, suffix) {
			return a
		}
	}
	v, err := p.ParseBytes(body)
	if err != nil || v.Type() != fastjson.TypeObject {
		return a
	}
	a.model = string(v.GetStringBytes("model"))
	a.stream = v.GetBool("stream") || strings.Contains(path, "stream")
	for _, at := range sessionFields {
		if id := v.GetStringBytes(at...); len(id) > 0 && a.session == "" {
			a.session = string(id)
		}
	}
	for _, at := range [][]string{
		{"max_completion_tokens"},
		{"max_tokens"},
		{"max_output_tokens"},
		{"n_predict"},
		{"max_new_tokens"},
		{"sampling_params", "max_new_tokens"},
		{"parameters", "max_new_tokens"},
		{"options", "num_predict"},
	} {
		if n := v.GetInt(at...); n > 0 && a.most == 0 {
			a.most = n
		}
	}
	a.readPrompt(v)
	return a
}

// readPrompt puts the parts of a prompt in the order in which models read them: what stays the same over a
// conversation stands first, so that its turns share their beginning.
func (a *ask) readPrompt(v *fastjson.Value) {
	var text strings.Builder
	if tools := v.Get("tools"); tools != nil && tools.Type() == fastjson.TypeArray {
		a.tools = tools
		text.WriteString(string(tools.MarshalTo(nil)) + "\n")
	}
	for _, key := range []string{"system", "instructions"} {
		if part := v.Get(key); part != nil {
			text.WriteString("system\n")
			a.add(&text, part)
			text.WriteByte('\n')
		}
	}
	if a.chat = v.Get("messages"); a.chat != nil && a.chat.Type() == fastjson.TypeArray {
		a.prompt = true
		addMessages(a, &text, a.chat)
	} else {
		a.chat = nil
	}
	for _, key := range []string{"prompt", "input", "inputs", "text", "text_input", "input_ids", "query", "documents", "texts"} {
		if part := v.Get(key); part != nil && part.Type() != fastjson.TypeNull {
			a.prompt = true
			a.add(&text, part)
		}
	}
	a.text = text.String()
}

func addMessages(a *ask, text *strings.Builder, list *fastjson.Value) {
	for _, m := range list.GetArray() {
		text.Write(m.GetStringBytes("role"))
		text.WriteByte('\n')
		for _, key := range []string{"content", "reasoning_content", "tool_calls", "tool_call_id"} {
			if part := m.Get(key); part != nil {
				a.add(text, part)
			}
		}
		text.WriteByte('\n')
	}
}

// add appends a prompt or a part of one: text, token ids, parts of text and images, or a list of such.
func (a *ask) add(text *strings.Builder, v *fastjson.Value) {
	switch v.Type() {
	case fastjson.TypeString:
		text.Write(v.GetStringBytes())
	case fastjson.TypeNumber:
		a.ids = append(a.ids, int32(v.GetInt()))
	case fastjson.TypeArray:
		for _, part := range v.GetArray() {
			if part.Get("role") != nil && part.Get("content") != nil { // messages of the responses API
				text.Write(part.GetStringBytes("role"))
				text.WriteByte('\n')
				a.add(text, part.Get("content"))
				text.WriteByte('\n')
				continue
			}
			a.add(text, part)
		}
	case fastjson.TypeObject:
		if t := v.Get("text"); t != nil && t.Type() == fastjson.TypeString {
			text.Write(t.GetStringBytes())
			return
		}
		raw := v.MarshalTo(nil)
		if v.Get("image_url") != nil || v.Get("source") != nil || v.Get("input_audio") != nil || v.Get("images") != nil {
			raw = []byte("\x00" + digest(raw) + "\x00") // an image is some tokens, not the text of its bytes
		}
		text.Write(raw)
	}
}
