// Package chat renders Hugging Face chat templates: it turns a list of
// messages into the one prompt string a model was trained to read.
//
// The stage before it is the caller that has messages and a chat_template
// string (workload, from a tokenizer's configuration); the stage after it is
// the tokenizer, which counts or encodes the rendered prompt. The template
// language is the part of Jinja2 those templates use, with the settings
// transformers gives it: trim_blocks, lstrip_blocks, a sandbox in which no
// value can be changed in place, and the tojson, raise_exception and
// strftime_now helpers. A template that goes beyond (inheritance, recursive
// loops, integers over 64 bits) is refused with its line number. Two liberties
// are taken: the condition of a "for ... if" is decided for all items before
// the first pass, and the views that keys(), values() and items() give are
// plain lists.
//
// Read this file first, then lex.go, parse.go and exec.go in that order.
package chat

import (
	"errors"
	"fmt"
	"time"
)

// maxSource bounds the template text Parse accepts. The largest real template
// known is under 64 KiB.
const maxSource = 1 << 20

// limits bounds one rendering, so that a hostile template ends in an error
// instead of a stuck or swollen process.
type limits struct {
	steps  int // nodes evaluated and elements built; a thousand messages take two hundred thousand
	bytes  int // built in all, in strings, lists and what making them takes
	output int // bytes in the prompt or in any single string: 16 MiB are four million tokens
	depth  int // nesting of evaluation, macros included
}

var defaultLimits = limits{steps: 1 << 21, bytes: 128 << 20, output: 16 << 20, depth: 12_000}

// Template is a parsed chat template. It is immutable and may be rendered by
// many goroutines at once.
type Template struct {
	body   []stmt
	lib    *library
	limits limits
}

// Message is one turn of a conversation. In the template it is a mapping with
// the keys role, content and those of Extra, in that order.
type Message struct {
	Role string
	// Content is a string, a list of parts as decoded from JSON, or nil for
	// null.
	Content any
	// NoContent leaves the content key out altogether, which templates tell
	// apart from null.
	NoContent bool
	// Extra holds further fields: tool_calls, tool_call_id, name and so on.
	Extra *Dict
}

// Input is what one rendering reads.
//
// Values are nil, bool, integers, floats, strings, []any, map[string]any
// (taken in key order, so that output never depends on map order), *Dict
// (which keeps its own order, as DecodeJSON gives it) and json.Number.
type Input struct {
	Messages            []Message
	AddGenerationPrompt bool
	// BOS and EOS are the special tokens' text. An empty one is undefined in
	// the template, as for a tokenizer that has none.
	BOS, EOS string
	// Tools is the list of tool descriptions, or nil for none.
	Tools any
	// Extra holds further variables (chat_template_kwargs, documents,
	// pad_token ...). They take precedence over every other variable.
	Extra map[string]any
	// Now serves strftime_now. When nil, strftime_now is undefined, and
	// templates that ask for it fall back to a fixed date.
	Now func() time.Time
}

// Error is a mistake in a template, or a conversation it cannot take.
type Error struct {
	Line int
	Msg  string
	// Raised is set when the template itself refused the conversation with
	// raise_exception; Msg is then the template's own sentence.
	Raised bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("chat template line %d: %s", e.Line, e.Msg)
}

// at gives err a line, unless a deeper place already did.
func at(err error, line int) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	_, raised := errors.AsType[raisedError](err)
	return &Error{Line: line, Msg: err.Error(), Raised: raised}
}

// Parse reads a template.
func Parse(src string) (*Template, error) {
	if len(src) > maxSource {
		return nil, &Error{Line: 1, Msg: fmt.Sprintf("template is %d bytes long, the limit is %d", len(src), maxSource)}
	}
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks, lib: newLibrary()}
	body, err := p.template()
	if err != nil {
		return nil, err
	}
	return &Template{body: body, lib: p.lib, limits: defaultLimits}, nil
}

// Render fills the template with in.
func (t *Template) Render(in Input) (string, error) {
	r := &run{lib: t.lib, left: t.limits.steps, bytes: t.limits.bytes, lim: t.limits}
	vars, err := r.variables(in)
	if err != nil {
		return "", fmt.Errorf("chat template input: %w", err)
	}
	root := &scope{vars: vars}
	out := &output{run: r}
	if _, err := r.block(t.body, &scope{parent: root}, out); err != nil {
		return "", err
	}
	return out.b.String(), nil
}

// variables builds the outermost scope. tools and documents are always
// defined, as null when absent, because that is how transformers calls a
// template.
func (r *run) variables(in Input) (map[string]any, error) {
	vars := globals()
	msgs := make([]any, len(in.Messages))
	for i, m := range in.Messages {
		d, err := m.dict()
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		msgs[i] = d
	}
	tools, err := convert(in.Tools, 0)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	vars["messages"] = msgs
	vars["tools"] = tools
	vars["documents"] = nil
	vars["add_generation_prompt"] = in.AddGenerationPrompt
	if in.BOS != "" {
		vars["bos_token"] = in.BOS
	}
	if in.EOS != "" {
		vars["eos_token"] = in.EOS
	}
	if in.Now != nil {
		vars["strftime_now"] = strftimeNow(in.Now)
	}
	for name, v := range in.Extra {
		if vars[name], err = convert(v, 0); err != nil {
			return nil, fmt.Errorf("variable %q: %w", name, err)
		}
	}
	return vars, nil
}

func (m Message) dict() (*Dict, error) {
	d := NewDict()
	d.Set("role", m.Role)
	if !m.NoContent {
		c, err := convert(m.Content, 0)
		if err != nil {
			return nil, fmt.Errorf("content: %w", err)
		}
		d.Set("content", c)
	}
	if m.Extra == nil {
		return d, nil
	}
	for i, k := range m.Extra.keys {
		v, err := convert(m.Extra.vals[i], 0)
		if err != nil {
			return nil, fmt.Errorf("field %v: %w", k, err)
		}
		d.set(k, v)
	}
	return d, nil
}
