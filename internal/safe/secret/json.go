package secret

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

var brokenJSON = regexp.MustCompile(`(['"]?)([A-Za-z_-]+)['"]?\s*:\s*('[^']*'?|"[^"]*"?|\$\{[^}\s]*\}|[^,}\s]+)`)

// JSON hides the values of secret keys in a user's JSON object or array; ok reports whether text is one. What
// has nothing to hide comes back byte for byte.
func JSON(text string) (clean string, ok bool) { return hider(redacted).json(text) }

func (h hider) json(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return "", false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil || dec.More() {
		return h.text(brokenJSON.ReplaceAllStringFunc(text, h.broken)), true
	}
	if !h.tree(tree) {
		return text, true
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return Redacted, true
	}
	return strings.TrimSuffix(buf.String(), "\n"), true
}

// broken hides one pair of something that was meant to be JSON.
func (h hider) broken(pair string) string {
	m := brokenJSON.FindStringSubmatch(pair)
	if !Name(m[2]) {
		return pair
	}
	return strings.TrimSuffix(pair, m[3]) + h(m[2], strings.Trim(m[3], `'"`))
}

// tree hides secrets in place and reports whether it changed anything.
func (h hider) tree(node any) bool {
	changed := false
	switch n := node.(type) {
	case map[string]any:
		for k, v := range n {
			n[k], changed = h.leaf(k, v, changed)
		}
	case []any:
		for i, v := range n {
			n[i], changed = h.leaf("", v, changed)
		}
	}
	return changed
}

func (h hider) leaf(key string, v any, changed bool) (any, bool) {
	text, isText := v.(string)
	switch {
	case v == nil, isText && known(text):
		return v, changed
	case Name(key):
		if !isText {
			h.tree(v) // for those who collect secrets
			return Redacted, true
		}
		return h(key, text), true
	case isText && perhaps(key) && random(text):
		return h(key, text), true
	case isText:
		clean := h.text(text)
		return clean, changed || clean != text
	}
	return v, h.tree(v) || changed
}

// Document hides secrets in a JSON document of spate's own, or of another tool, and leaves everything else as it
// is, to the byte: texts under names that mean secrets, values beside such a name (name and value, flag and
// words), and in all other texts what clean finds; nil is Text.
func Document(data []byte, clean func(string) string) []byte {
	if clean == nil {
		clean = Text
	}
	d := document{clean: clean, out: make([]byte, 0, len(data))}
	for i := 0; i < len(data); {
		if data[i] == '"' {
			end := stringEnd(data, i)
			d.text(data[i:end])
			i = end
			continue
		}
		d.mark(data[i])
		d.out = append(d.out, data[i])
		i++
	}
	return d.out
}

// stringEnd is where the string that begins at i is over.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(data))
}

// document is a JSON text that is being gone through.
type document struct {
	clean func(string) string
	out   []byte
	stack []frame
}

// frame is an object or a list that is open.
type frame struct {
	object bool
	key    string // of the member that is being read; empty: a key comes next
	hidden bool   // all of it is secret
	named  bool   // a member of it said a name that means a secret
}

func (d *document) top() *frame {
	if len(d.stack) == 0 {
		return &frame{}
	}
	return &d.stack[len(d.stack)-1]
}

// secret reports whether the value that comes next is one.
func (f *frame) secret() bool {
	return f.hidden || f.object && (surely(f.key) || f.named && slices.Contains([]string{"value", "values", "words"}, strings.ToLower(f.key)))
}

func (d *document) mark(c byte) {
	switch c {
	case '{', '[':
		d.stack = append(d.stack, frame{object: c == '{', hidden: d.top().secret() && c == '['})
	case '}', ']':
		if len(d.stack) > 0 {
			d.stack = d.stack[:len(d.stack)-1]
		}
	case ',':
		d.top().key = ""
	}
}

func (d *document) text(quoted []byte) {
	f := d.top()
	var s string
	if json.Unmarshal(quoted, &s) != nil { // cut off, or no JSON
		d.out = append(d.out, d.clean(string(quoted))...)
		return
	}
	var clean string
	switch {
	case f.object && f.key == "":
		clean = d.clean(s)
		if f.key = s; s == "" {
			f.key = " "
		}
	case f.secret():
		clean = redacted("", s)
	default:
		clean = d.clean(s)
		f.named = f.named || f.object && slices.Contains([]string{"name", "flag", "key"}, strings.ToLower(f.key)) && Name(s)
	}
	if clean == s {
		d.out = append(d.out, quoted...)
		return
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if enc.Encode(clean) != nil { // cannot be: strings always encode
		buf.Reset()
		buf.WriteString(`"` + Redacted + `"`)
	}
	d.out = append(d.out, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// Any hides secrets in a value that was read from JSON, YAML or a command line; name is what it is called. It
// returns a copy where something was hidden.
func Any(name string, v any) any {
	switch v := v.(type) {
	case string:
		if surely(name) {
			return redacted(name, v)
		}
		return Text(v)
	case []string:
		if surely(name) {
			return slices.Repeat([]string{Redacted}, len(v))
		}
		return Args(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Any(name, v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Any(k, v[k])
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(v))
		for k, text := range v {
			out[k], _ = Any(k, text).(string)
		}
		return out
	}
	return v
}
