package harvest

import (
	"strings"

	"spate/internal/result"
)

// argument is one setting of a run as a command line or a Namespace spells it.
type argument struct {
	name  string
	value any // string, json.Number, bool, nil, or the text of anything else
}

// readNamespace reads what Python prints for parsed arguments, Namespace(a=1, b='x', c=None). ok is
// false when text is no such thing; whole is false when its end is missing.
func readNamespace(text string) (args []argument, whole, ok bool) {
	start := strings.Index(text, "Namespace(")
	if start < 0 {
		return nil, false, false
	}
	rest := text[start+len("Namespace("):]
	for {
		rest = strings.TrimLeft(rest, " ,")
		if strings.HasPrefix(rest, ")") {
			return args, true, len(args) > 0
		}
		name, after, found := strings.Cut(rest, "=")
		if !found || !isIdentifier(name) {
			return args, false, len(args) > 0
		}
		end, closed := literalEnd(after)
		args = append(args, argument{name, literal(strings.TrimSpace(after[:end]))})
		if !closed {
			return args, false, true
		}
		rest = after[end:]
	}
}

func isIdentifier(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range s {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// literalEnd is where a Python value ends: at a comma or bracket outside quotes and brackets.
func literalEnd(s string) (end int, closed bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '"':
			n := quotedLen(s[i:])
			if n == 0 {
				return len(s), false
			}
			i += n - 1
		case '(', '[', '{', '<':
			depth++
		case ')', ']', '}', '>':
			if depth == 0 {
				return i, true
			}
			depth--
		case ',':
			if depth == 0 {
				return i, true
			}
		}
	}
	return len(s), false
}

// quotedLen is the length of the string literal s starts with, 0 when it has no end.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// literal is the value of simple Python literals; anything else stays text.
func literal(s string) any {
	switch s {
	case "None":
		return nil
	case "True", "False":
		return s == "True"
	}
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && quotedLen(s) == len(s) {
		return unquote(s[1 : len(s)-1])
	}
	return result.Plain(s)
}

// unquote undoes the escapes Python's repr makes.
func unquote(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(s)
}
