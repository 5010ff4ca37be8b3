package launch

import (
	"errors"
	"strings"
)

// Split is a command line as words, as a shell would: quotes hold words together, a backslash takes the next
// character as it is. Nothing is expanded; what needs a shell says sh -c.
func Split(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	inWord := false
	quote := rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
				continue
			}
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				out = append(out, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escaped:
		return nil, errors.New("a backslash at the end")
	case inWord:
		out = append(out, word.String())
	}
	return out, nil
}
