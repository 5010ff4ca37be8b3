package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// apiError is a refusal in the shape vLLM gives it.
type apiError struct {
	status  int
	kind    string
	message string
	param   string
}

func (e *apiError) Error() string { return e.message }

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "BadRequestError", message: fmt.Sprintf(format, args...), param: param}
}

// genCall is a decoded completion or chat call.
type genCall struct {
	chat         bool
	stream       bool
	usage        bool // include_usage
	continuous   bool // usage on every chunk
	returnIDs    bool // token ids on every chunk
	stamp        bool // spate_ns on every chunk
	model        string
	text         string  // the prompt as text, empty when it came as ids
	ids          []int32 // the prompt as ids, when it came so or when they are needed
	promptTokens int
	maxTokens    int // 0: not given
	minTokens    int
	ignoreEOS    bool
	logprobs     int  // alternatives to tell for each token; -1 for no logprobs at all
	native       bool // SGLang's own endpoint rather than OpenAI's
	adapter      int  // LoRA adapter, from 1
	n            int  // answers
}

// promptText returns the prompt as text, however it came.
func (c *genCall) promptText() string {
	if c.text == "" {
		return decode(c.ids)
	}
	return c.text
}

// genBody is the part of a request body the server reads. The rest is accepted and ignored, as
// sampling has no meaning here.
type genBody struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	ReturnTokenIDs bool            `json:"return_token_ids"`
	Stamp          bool            `json:"spate_ns"`
	Logprobs       json.RawMessage `json:"logprobs"` // a number for completions, a switch for chat
	TopLogprobs    int             `json:"top_logprobs"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// decodeCall reads the body of a completion or chat call. needIDs asks for the prompt's token ids
// even when nothing but their number would be used.
func decodeCall(body []byte, chat, needIDs bool) (*genCall, error) {
	var b genBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("", "the body is not the JSON object expected here: %v", err)
	}
	c := &genCall{
		chat: chat, stream: b.Stream, model: b.Model, returnIDs: b.ReturnTokenIDs, stamp: b.Stamp,
		minTokens: b.MinTokens, ignoreEOS: b.IgnoreEOS, n: 1,
	}
	if o := b.StreamOptions; o != nil {
		if !b.Stream {
			return nil, badRequest("stream_options", "stream_options is only allowed when stream is true")
		}
		c.usage, c.continuous = o.IncludeUsage, o.IncludeUsage && o.ContinuousUsage
	}
	if b.N != nil {
		if c.n = *b.N; c.n < 1 {
			return nil, badRequest("n", "n must be at least 1, got %d.", c.n)
		}
	}
	if err := c.limits(&b); err != nil {
		return nil, err
	}
	if err := c.askLogprobs(&b); err != nil {
		return nil, err
	}
	if err := c.prompt(&b); err != nil {
		return nil, err
	}
	return c, c.tokenize(needIDs)
}

// tokenize counts the prompt's tokens, and keeps their ids when somebody needs them.
func (c *genCall) tokenize(needIDs bool) error {
	if c.ids != nil {
		c.promptTokens = len(c.ids)
	} else if needIDs || c.returnIDs {
		c.ids = encode(make([]int32, 0, len(c.text)/3+8), c.text)
		c.promptTokens = len(c.ids)
	} else {
		c.promptTokens = countTokens(c.text)
	}
	if c.promptTokens == 0 {
		return badRequest("prompt", "the prompt is empty")
	}
	return nil
}

func (c *genCall) limits(b *genBody) error {
	limit := b.MaxTokens
	if c.chat && b.MaxCompletionTokens != nil {
		limit = b.MaxCompletionTokens
	}
	switch {
	case limit != nil && *limit < 1:
		return badRequest("max_tokens", "max_tokens must be at least 1, got %d.", *limit)
	case limit != nil:
		c.maxTokens = *limit
	case !c.chat:
		c.maxTokens = 16
	}
	if c.minTokens < 0 || (c.maxTokens > 0 && c.minTokens > c.maxTokens) {
		return badRequest("min_tokens", "min_tokens must be between 0 and max_tokens, got %d.", c.minTokens)
	}
	return nil
}

func (c *genCall) prompt(b *genBody) error {
	if c.chat {
		if len(b.Messages) == 0 {
			return badRequest("messages", "messages must be a list of at least one message")
		}
		text, err := renderChat(b.Messages, true)
		c.text = text
		return err
	}
	text, ids, err := decodePrompt(b.Prompt)
	c.text, c.ids = text, ids
	return err
}

// decodePrompt takes a prompt given as text or as token ids, alone or as a list of one.
func decodePrompt(raw json.RawMessage) (string, []int32, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, nil, err
	}
	var ids []int32
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &ids) == nil && len(ids) > 0 && !bytes.Contains(raw, []byte("null")) {
		for _, id := range ids {
			if id < 0 {
				return "", nil, badRequest("prompt", "token id %d is out of vocabulary", id)
			}
		}
		return "", ids, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
		return "", nil, badRequest("prompt", "prompt must be a string, a list of token ids, or a list of one of these")
	}
	if len(list) > 1 {
		return "", nil, badRequest("prompt", "this server takes one prompt per request, got %d", len(list))
	}
	if inner := bytes.TrimSpace(list[0]); len(inner) == 0 || (inner[0] != '"' && inner[0] != '[') {
		return "", nil, badRequest("prompt", "prompt must be a string, a list of token ids, or a list of one of these")
	}
	return decodePrompt(list[0])
}

// renderChat is the server's chat template: each message as "role: content" on its own line, then
// "assistant:" when an answer is to follow. Only text parts of a content list count.
func renderChat(messages []chatMessage, ask bool) (string, error) {
	var b strings.Builder
	for i := range messages {
		m := &messages[i]
		b.WriteString(m.Role)
		b.WriteString(": ")
		if err := writeContent(&b, m.Content); err != nil {
			return "", err
		}
		b.WriteByte('\n')
	}
	if ask {
		b.WriteString("assistant:")
	}
	return b.String(), nil
}

func writeContent(b *strings.Builder, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	var s string
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &s); err != nil {
			return badRequest("messages", "content: %v", err)
		}
		b.WriteString(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return badRequest("messages", "content must be a string or a list of parts")
	}
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return nil
}
