// Package http1 finds where HTTP/1.1 messages begin and end, in bytes that are pushed to it as they arrive. A pull
// reader with its own buffers would hide which read brought a byte, and both users need to know: client stamps
// every read, and proxy passes every read on before it looks at it.
package http1

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Err is what every error of this package wraps.
var Err = errors.New("not an HTTP/1.1 message")

// Head is the first line of a message and its fields, as they were written.
type Head struct {
	Line   string
	Fields []Field
}

// Field is one line of a head.
type Field struct{ Name, Value string }

// HeadEnd returns where the head at the start of b ends, after its empty line, or -1 when it does not end in b. The
// bytes before from were searched already.
func HeadEnd(b []byte, from int) int {
	for at := max(0, from-3); ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		switch rest := b[at:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return at + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return at + 2
		}
	}
}

// ParseHead reads a whole head. A line that is not a field is an error; the other fields are returned all the same.
func ParseHead(text string) (h Head, err error) {
	text = strings.TrimRight(text, "\r\n")
	first, rest, more := strings.Cut(text, "\n")
	h.Line = strings.TrimSuffix(first, "\r")
	if !more {
		return h, nil
	}
	h.Fields = make([]Field, 0, 1+strings.Count(rest, "\n"))
	for line := range strings.SplitSeq(rest, "\n") {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			err = fmt.Errorf("%w: header line %.60q", Err, line)
			continue
		}
		h.Fields = append(h.Fields, Field{name, strings.Trim(value, " \t")})
	}
	return h, err
}

// Get returns the value of a field; several of one name are joined by commas.
func (h *Head) Get(name string) string {
	out, found := "", false
	for _, f := range h.Fields {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		if found {
			out += ", "
		}
		out, found = out+f.Value, true
	}
	return out
}

// Request splits the first line of a request.
func (h *Head) Request() (method, target string, err error) {
	words := strings.Split(h.Line, " ")
	if len(words) != 3 || words[0] == "" || words[1] == "" || !strings.HasPrefix(words[2], "HTTP/1.") {
		return "", "", fmt.Errorf("%w: request line %.60q", Err, h.Line)
	}
	return words[0], words[1], nil
}

// Status reads the first line of a response.
func (h *Head) Status() (int, error) {
	version, rest, _ := strings.Cut(h.Line, " ")
	code, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil || len(code) != 3 || n < 100 {
		return 0, fmt.Errorf("%w: status line %.60q", Err, h.Line)
	}
	return n, nil
}

// Keep reports whether the connection may carry another message after this response.
func (h *Head) Keep() bool {
	if !strings.HasPrefix(h.Line, "HTTP/1.1 ") {
		return false
	}
	for option := range strings.SplitSeq(h.Get("Connection"), ",") {
		if strings.EqualFold(strings.TrimSpace(option), "close") {
			return false
		}
	}
	return true
}
