package client

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxHead bounds the response's status line and headers.
const maxHead = 64 << 10

// head is what spate needs of a response's status line and headers.
type head struct {
	status     int
	sse        bool // the body is an event stream
	keep       bool // the connection may carry another request
	retryAfter time.Duration
	binary     bool   // the body is bytes of no known form
	metadata   string // what vLLM tells of an answer of bytes
}

type h1State uint8

const (
	h1Head    h1State = iota
	h1Counted         // body of a known length
	h1Close           // body up to the end of the connection
	h1Size            // chunk size line
	h1Chunk           // chunk data
	h1ChunkEnd
	h1Trailer
	h1Done
)

// h1 is a push parser of one HTTP/1.1 response. It is hand-written because the stamp of a chunk must be
// taken on the read that brought it, which a pull reader with its own buffers hides.
type h1 struct {
	onHead func(head)
	onBody func([]byte)
	state  h1State
	buf    []byte // unfinished head or size line
	left   int64  // bytes left of the body or chunk
	head   head
}

var errHTTP = errors.New("not an HTTP response")

// feed parses the next bytes and reports how many it used: fewer than given only when the response
// is complete.
func (p *h1) feed(b []byte) (used int, err error) {
	all := len(b)
	for len(b) > 0 && p.state != h1Done {
		var n int
		switch p.state {
		case h1Head:
			n, err = p.readHead(b)
		case h1Counted, h1Chunk:
			n = p.readCounted(b)
		case h1Close:
			n = len(b)
			p.onBody(b)
		case h1Size, h1ChunkEnd, h1Trailer:
			n, err = p.readLine(b)
		}
		if err != nil {
			return all - len(b), err
		}
		b = b[n:]
	}
	return all - len(b), nil
}

// eof is the end of the connection; it reports whether the response was complete by then.
func (p *h1) eof() bool { return p.state == h1Done || p.state == h1Close }

func (p *h1) readCounted(b []byte) int {
	n := len(b)
	if int64(n) > p.left {
		n = int(p.left)
	}
	p.left -= int64(n)
	p.onBody(b[:n])
	if p.left == 0 {
		if p.state == h1Chunk {
			p.state = h1ChunkEnd
		} else {
			p.state = h1Done
		}
	}
	return n
}

// readLine handles the short lines of the chunked coding.
func (p *h1) readLine(b []byte) (int, error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(p.buf)+len(b) > maxHead {
			return 0, fmt.Errorf("%w: chunk line over %d bytes", errHTTP, maxHead)
		}
		p.buf = append(p.buf, b...)
		return len(b), nil
	}
	line := b[:i]
	if len(p.buf) > 0 {
		line = append(p.buf, line...)
		p.buf = p.buf[:0]
	}
	return i + 1, p.chunkLine(bytes.TrimSuffix(line, []byte{'\r'}))
}

func (p *h1) chunkLine(line []byte) error {
	switch p.state {
	case h1ChunkEnd:
		if len(line) != 0 {
			return fmt.Errorf("%w: chunk longer than its size", errHTTP)
		}
		p.state = h1Size
	case h1Trailer:
		if len(line) == 0 {
			p.state = h1Done
		}
	default:
		size, err := chunkSize(line)
		if err != nil {
			return err
		}
		p.left = size
		p.state = h1Chunk
		if size == 0 {
			p.state = h1Trailer
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
			return 0, fmt.Errorf("%w: chunk size %.20q", errHTTP, line)
		}
		n = n<<4 | int64(d)
	}
	if len(digits) == 0 || len(digits) > 15 {
		return 0, fmt.Errorf("%w: chunk size %.20q", errHTTP, line)
	}
	return n, nil
}

// readHead collects the head, which may arrive in pieces, and parses it when it is complete.
func (p *h1) readHead(b []byte) (int, error) {
	old := len(p.buf)
	if old+len(b) <= maxHead {
		p.buf = append(p.buf, b...)
	} else {
		p.buf = append(p.buf, b[:maxHead-old]...)
	}
	end := headEnd(p.buf, old)
	if end < 0 {
		if len(p.buf) >= maxHead {
			return 0, fmt.Errorf("%w: headers over %d bytes", errHTTP, maxHead)
		}
		if bad := min(len(p.buf), 5); string(p.buf[:bad]) != "HTTP/"[:bad] {
			return 0, fmt.Errorf("%w: it begins %.40q", errHTTP, p.buf)
		}
		return len(b), nil
	}
	text := string(p.buf[:end])
	p.buf = p.buf[:0]
	if err := p.parseHead(text); err != nil {
		return 0, err
	}
	return end - old, nil
}

// headEnd finds the end of the blank line after the headers; from is where new bytes begin.
func headEnd(b []byte, from int) int {
	from = max(0, from-3)
	for i := from; i < len(b); i++ {
		if b[i] != '\n' {
			continue
		}
		if i+1 < len(b) && b[i+1] == '\n' {
			return i + 2
		}
		if i+2 < len(b) && b[i+1] == '\r' && b[i+2] == '\n' {
			return i + 3
		}
	}
	return -1
}

func (p *h1) parseHead(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	proto, after, ok := strings.Cut(strings.TrimSuffix(first, "\r"), " ")
	code, _, _ := strings.Cut(after, " ")
	status, err := strconv.Atoi(code)
	if !ok || !strings.HasPrefix(proto, "HTTP/1.") || err != nil || len(code) != 3 || status < 100 {
		return fmt.Errorf("%w: status line %.60q", errHTTP, first)
	}
	if status < 200 { // an interim response: the real one follows
		return nil
	}
	p.head = head{status: status, keep: proto == "HTTP/1.1"}
	length, chunked, err := p.fields(rest)
	if err != nil {
		return err
	}
	switch {
	case status == 204 || status == 304:
		p.state = h1Done
	case chunked:
		p.state = h1Size
	case length == 0:
		p.state = h1Done
	case length > 0:
		p.state, p.left = h1Counted, length
	default:
		p.state, p.head.keep = h1Close, false
	}
	p.onHead(p.head)
	return nil
}

// fields reads the header lines that matter; length is -1 when not given.
func (p *h1) fields(lines string) (length int64, chunked bool, err error) {
	length = -1
	for line := range strings.SplitSeq(lines, "\n") {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			length, err = strconv.ParseInt(value, 10, 64)
			if err != nil || length < 0 {
				return 0, false, fmt.Errorf("%w: content-length %.30q", errHTTP, value)
			}
		case "transfer-encoding":
			chunked = strings.EqualFold(value, "chunked")
		case "connection":
			p.head.keep = p.head.keep && !strings.EqualFold(value, "close")
		case "content-type":
			p.head.sse, p.head.binary = bodyForm(value)
		case "metadata":
			p.head.metadata = value
		case "retry-after":
			p.head.retryAfter = retryAfter(value)
		}
	}
	return length, chunked, nil
}

// bodyForm tells an event stream and plain bytes from other bodies.
func bodyForm(contentType string) (sse, binary bool) {
	t := strings.ToLower(contentType)
	return strings.HasPrefix(t, "text/event-stream"), strings.HasPrefix(t, "application/octet-stream")
}

// retryAfter reads the delay form of Retry-After; the date form is rare and read as none.
func retryAfter(value string) time.Duration {
	secs, err := strconv.ParseFloat(value, 64)
	if err != nil || secs < 0 || secs > 1e6 {
		return 0
	}
	return time.Duration(secs * float64(time.Second))
}
