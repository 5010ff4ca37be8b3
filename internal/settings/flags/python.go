package flags

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"

	"spate/internal/settings/config"
)

// Namespace is the line vLLM prints first: every argument of vllm bench serve as Python shows it,
// with secrets replaced. Call it before Resolve, which fills in more than the user's arguments.
func Namespace(b *config.Bench) string {
	shown := b.Redacted()
	var parts []string
	for _, d := range table(&shown) {
		if d.VLLM {
			parts = append(parts, strings.ReplaceAll(d.Name, "-", "_")+"="+d.value.python())
		}
	}
	return "Namespace(" + strings.Join(parts, ", ") + ")"
}

// Argument is one argument of vllm bench serve with its value as JSON has it.
type Argument struct {
	Name  string
	Value any // nil, a bool, a number or a text
}

// Arguments lists what Namespace prints, for result files.
func Arguments(b *config.Bench) []Argument {
	shown := b.Redacted()
	var out []Argument
	for _, d := range table(&shown) {
		if d.VLLM {
			out = append(out, Argument{strings.ReplaceAll(d.Name, "-", "_"), argument(d.value)})
		}
	}
	return out
}

func argument(v *value) any {
	switch py := v.python(); {
	case py == "None":
		return nil
	case py == "True", py == "False":
		return py == "True"
	case py[0] == '\'' || py[0] == '"': // a text, even one that reads like a number
		return v.text()
	default:
		if n, err := strconv.Atoi(py); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(py, 64); err == nil {
			return f
		}
	}
	return v.text()
}

// pyText is None for a string that is not set.
func pyText(s string) string {
	if s == "" {
		return "None"
	}
	return pyString(s)
}

func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func pyList(items []string) string {
	if len(items) == 0 {
		return "None"
	}
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = pyString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// pyString quotes like Python's repr: single quotes unless the text has those and no double ones.
func pyString(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(pyEscape(r))
		}
	}
	b.WriteByte(quote)
	return b.String()
}

func pyEscape(r rune) string {
	hex := strconv.FormatInt(int64(r), 16)
	pad := func(n int) string { return strings.Repeat("0", n-len(hex)) + hex }
	switch {
	case r < 0x100:
		return `\x` + pad(2)
	case r < 0x10000:
		return `\u` + pad(4)
	}
	return `\U` + pad(8)
}

// pyFloat is Python's repr of a float: the shortest digits, always with a point or an exponent.
func pyFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	exp, err := strconv.Atoi(sci[strings.IndexByte(sci, 'e')+1:])
	if err == nil && f != 0 && (exp < -4 || exp >= 16) {
		return sci
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// pyJSON shows decoded JSON as Python shows a dict, keys in their order.
func pyJSON(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b strings.Builder
	if !pyWalk(dec, &b) {
		return pyString(string(raw))
	}
	return b.String()
}

// pyWalk writes the next JSON value.
func pyWalk(dec *json.Decoder, b *strings.Builder) bool {
	tok, err := dec.Token()
	if err != nil {
		return false
	}
	switch t := tok.(type) {
	case json.Delim:
		b.WriteRune(rune(t))
		for n := 0; dec.More(); n++ {
			if n > 0 {
				b.WriteString(", ")
			}
			if t == '{' {
				if !pyWalk(dec, b) {
					return false
				}
				b.WriteString(": ")
			}
			if !pyWalk(dec, b) {
				return false
			}
		}
		end, err := dec.Token()
		if err != nil {
			return false
		}
		if d, ok := end.(json.Delim); ok {
			b.WriteRune(rune(d))
		}
	case string:
		b.WriteString(pyString(t))
	case bool:
		b.WriteString(pyBool(t))
	case json.Number:
		b.WriteString(t.String())
	default:
		b.WriteString("None")
	}
	return true
}
