package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// maxHead is the longest head of a message that is followed; a longer one is handed on without a look.
const maxHead = 1 << 20

var (
	errHead  = errors.New("not the head of an HTTP/1.1 message")
	errChunk = errors.New("not a chunk of an HTTP/1.1 body")
)

// head is the first line of a message and its fields, as they were written.
type head struct {
	line   string
	fields [][2]string
}

// get is the value of a field; several are joined by commas.
func (h *head) get(name string) string {
	var out []string
	for _, f := range h.fields {
		if strings.EqualFold(f[0], name) {
			out = append(out, f[1])
		}
	}
	return strings.Join(out, ", ")
}

// headEnd is where the head at the start of b ends, after the empty line; 0 when it does not end in b.
func headEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return 0
		}
		line := bytes.TrimSuffix(b[at:at+i], []byte("\r"))
		if len(line) == 0 && at > 0 {
			return at + i + 1
		}
		at += i + 1
	}
}

func parseHead(b []byte) (head, error) {
	var h head
	for i, line := range strings.Split(string(bytes.TrimRight(b, "\r\n")), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if i == 0 {
			h.line = line
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return h, errHead
		}
		h.fields = append(h.fields, [2]string{name, strings.Trim(value, " \t")})
	}
	return h, nil
}

// request splits the first line of a request.
func (h *head) request() (method, target string, err error) {
	words := strings.Split(h.line, " ")
	if len(words) != 3 || words[0] == "" || words[1] == "" || !strings.HasPrefix(words[2], "HTTP/1.") {
		return "", "", errHead
	}
	return words[0], words[1], nil
}

// status reads the first line of a response.
func (h *head) status() (int, error) {
	version, rest, _ := strings.Cut(h.line, " ")
	code, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil || n < 100 || n > 999 {
		return 0, errHead
	}
	return n, nil
}

// rewritten is the head of a request as the server gets it: with its own host, and its path in front.
func (h *head) rewritten(host, prefix string) []byte {
	line := h.line
	if method, target, err := h.request(); err == nil && prefix != "" && strings.HasPrefix(target, "/") {
		line = method + " " + prefix + target + h.line[len(method)+1+len(target):]
	}
	out := append(make([]byte, 0, 1024), line+"\r\n"...)
	for _, f := range h.fields {
		if strings.EqualFold(f[0], "Host") {
			f[1] = host
		}
		out = append(out, f[0]+": "+f[1]+"\r\n"...)
	}
	return append(out, "\r\n"...)
}

// body follows the body of a message to its end.
type body struct {
	framing framing
	left    int64 // of a known length, or of the chunk
	state   chunkState
	size    []byte // digits of the chunk's size so far
	blank   bool   // nothing stands on the line of the trailer yet
}

type framing int

const (
	byLength framing = iota
	byChunks
	byClose // until the connection ends
)

type chunkState int

const (
	inSize chunkState = iota
	inExtension
	inData
	afterData
	inTrailer
)

// bodyOf says how the body after a head is delimited. A request without a length has none; a response without
// one goes on until the connection ends.
func bodyOf(h *head, request bool) (body, error) {
	if codings := h.get("Transfer-Encoding"); codings != "" {
		if strings.HasSuffix(strings.ToLower(codings), "chunked") {
			return body{framing: byChunks}, nil
		}
		return body{framing: byClose}, nil
	}
	length := h.get("Content-Length")
	switch {
	case length == "" && request:
		return body{}, nil
	case length == "":
		return body{framing: byClose}, nil
	}
	first, _, _ := strings.Cut(length, ",")
	n, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if err != nil || n < 0 {
		return body{}, errHead
	}
	return body{left: n}, nil
}

// over reports whether nothing is left to come, before any of it has.
func (b *body) over() bool { return b.framing == byLength && b.left == 0 }

// feed takes bytes of the body and gives its content to emit. It says how many bytes belong to the body and
// whether it has ended.
func (b *body) feed(data []byte, emit func([]byte)) (used int, done bool, err error) {
	switch b.framing {
	case byClose:
		emit(data)
		return len(data), false, nil
	case byLength:
		n := int(min(b.left, int64(len(data))))
		emit(data[:n])
		b.left -= int64(n)
		return n, b.left == 0, nil
	}
	for used < len(data) {
		if b.state == inData {
			n := int(min(b.left, int64(len(data)-used)))
			emit(data[used : used+n])
			used += n
			if b.left -= int64(n); b.left == 0 {
				b.state = afterData
			}
			continue
		}
		c := data[used]
		used++
		if done, err = b.step(c); done || err != nil {
			return used, done, err
		}
	}
	return used, false, nil
}

// step takes one byte of what stands around the content of chunks.
func (b *body) step(c byte) (done bool, err error) {
	switch b.state {
	case inSize, inExtension:
		switch {
		case c == '\n':
			return false, b.sized()
		case b.state == inExtension || c == '\r':
		case c == ';' || c == ' ' || c == '\t':
			b.state = inExtension
		case len(b.size) >= 15:
			return false, errChunk
		default:
			b.size = append(b.size, c)
		}
	case afterData:
		if c == '\n' {
			b.state = inSize
		} else if c != '\r' {
			return false, errChunk
		}
	case inTrailer:
		if c == '\n' {
			done = b.blank
			b.blank = true
		} else if c != '\r' {
			b.blank = false
		}
	}
	return done, nil
}

func (b *body) sized() error {
	n, err := strconv.ParseInt(string(b.size), 16, 64)
	if err != nil || n < 0 {
		return errChunk
	}
	b.size, b.left, b.state = b.size[:0], n, inData
	if n == 0 {
		b.state, b.blank = inTrailer, true
	}
	return nil
}
