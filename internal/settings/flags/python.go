package flags

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"spate/internal/pytext"
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
	return pytext.Quote(s)
}

func pyList(items []string) string {
	if len(items) == 0 {
		return "None"
	}
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = pytext.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// pyJSON shows decoded JSON as Python shows a dict, keys in their order.
func pyJSON(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b strings.Builder
	if !pyWalk(dec, &b) {
		return pytext.Quote(string(raw))
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
		b.WriteString(pytext.Quote(t))
	case bool:
		b.WriteString(pytext.Bool(t))
	case json.Number:
		b.WriteString(t.String())
	default:
		b.WriteString("None")
	}
	return true
}
