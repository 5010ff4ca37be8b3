package http1

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// maxLine bounds the lines around the chunks of a body.
const maxLine = 64 << 10

type state uint8

const (
	ended   state = iota
	counted       // of a known length
	toClose       // up to the end of the connection
	size          // line with the size of a chunk
	chunk         // data of a chunk
	chunkEnd
	trailer
)

// Body follows the body of a message to its end. The zero value is a body without bytes.
type Body struct {
	state state
	left  int64  // bytes left of the body or of the chunk
	line  []byte // unfinished line
}

// RequestBody says how the body after the head of a request is delimited: without a length there is none.
func (h *Head) RequestBody() (Body, error) { return h.body(ended) }

// ResponseBody says how the body after the head of a response is delimited: without a length it goes on until the
// connection ends.
func (h *Head) ResponseBody() (Body, error) { return h.body(toClose) }

// body reads the fields that delimit a body; unknown is its state when they are missing.
func (h *Head) body(unknown state) (Body, error) {
	if codings := h.Get("Transfer-Encoding"); codings != "" {
		last := codings[strings.LastIndexByte(codings, ',')+1:]
		if strings.EqualFold(strings.TrimSpace(last), "chunked") {
			return Body{state: size}, nil
		}
		return Body{state: toClose}, nil
	}
	lengths := h.Get("Content-Length")
	if lengths == "" {
		return Body{state: unknown}, nil
	}
	first, again, more := strings.Cut(lengths, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 63)
	for more && err == nil { // a proxy may repeat the field, with one and the same value
		var other string
		other, again, more = strings.Cut(again, ",")
		if strings.TrimSpace(other) != strings.TrimSpace(first) {
			err = Err
		}
	}
	switch {
	case err != nil:
		return Body{}, fmt.Errorf("%w: content-length %.30q", Err, lengths)
	case n == 0:
		return Body{}, nil
	}
	return Body{state: counted, left: int64(n)}, nil
}

// Ended reports whether the body is complete.
func (b *Body) Ended() bool { return b.state == ended }

// EndsWithConnection reports whether the body goes on until the connection ends.
func (b *Body) EndsWithConnection() bool { return b.state == toClose }

// Feed takes the next bytes and gives the content among them to emit. It returns how many belong to the body: fewer
// than given only when the body is complete, or with an error.
func (b *Body) Feed(data []byte, emit func([]byte)) (used int, err error) {
	for used < len(data) && b.state != ended {
		rest := data[used:]
		n := len(rest)
		switch b.state {
		case counted, chunk:
			n = b.content(rest, emit)
		case toClose:
			emit(rest)
		default:
			if n, err = b.readLine(rest); err != nil {
				return used, err
			}
		}
		used += n
	}
	return used, nil
}

func (b *Body) content(data []byte, emit func([]byte)) int {
	n := int(min(b.left, int64(len(data))))
	b.left -= int64(n)
	emit(data[:n])
	if b.left == 0 {
		if b.state == chunk {
			b.state = chunkEnd
		} else {
			b.state = ended
		}
	}
	return n
}

// readLine takes the next line around the chunks, or the part of it that is there.
func (b *Body) readLine(data []byte) (int, error) {
	line, _, whole := bytes.Cut(data, []byte{'\n'})
	n := len(line)
	if len(b.line)+n > maxLine {
		return 0, fmt.Errorf("%w: chunk line over %d bytes", Err, maxLine)
	}
	if !whole {
		b.line = append(b.line, line...)
		return n, nil
	}
	if len(b.line) > 0 {
		line = append(b.line, line...)
		b.line = b.line[:0]
	}
	return n + 1, b.chunkLine(bytes.TrimSuffix(line, []byte{'\r'}))
}

func (b *Body) chunkLine(line []byte) error {
	switch b.state {
	case chunkEnd:
		if len(line) != 0 {
			return fmt.Errorf("%w: chunk longer than its size", Err)
		}
		b.state = size
	case trailer:
		if len(line) == 0 {
			b.state = ended
		}
	default:
		n, err := chunkSize(line)
		if err != nil {
			return err
		}
		b.left = n
		b.state = chunk
		if n == 0 {
			b.state = trailer
		}
	}
	return nil
}

func chunkSize(line []byte) (int64, error) {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	digits = bytes.TrimRight(digits, " \t")
	var n int64
	for _, c := range digits {
		var d byte
		switch {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = c | 0x20 - 'a' + 10
		default:
			return 0, fmt.Errorf("%w: chunk size %.20q", Err, line)
		}
		n = n<<4 | int64(d)
	}
	if len(digits) == 0 || len(digits) > 15 {
		return 0, fmt.Errorf("%w: chunk size %.20q", Err, line)
	}
	return n, nil
}
