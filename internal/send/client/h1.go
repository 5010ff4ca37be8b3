package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"spate/internal/send/http1"
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

// h1 is a push parser of one HTTP/1.1 response.
type h1 struct {
	onHead func(head)
	onBody func([]byte)
	inBody bool
	buf    []byte // unfinished head
	body   http1.Body
	head   head
}

// feed parses the next bytes and reports how many it used: fewer than given only when the response
// is complete.
func (p *h1) feed(b []byte) (used int, err error) {
	for used < len(b) && !p.inBody {
		n, err := p.readHead(b[used:])
		if err != nil {
			return used, err
		}
		used += n
	}
	n, err := p.body.Feed(b[used:], p.onBody)
	return used + n, err
}

// done reports whether the response is complete.
func (p *h1) done() bool { return p.inBody && p.body.Ended() }

// eof is the end of the connection; it reports whether the response was complete by then.
func (p *h1) eof() bool { return p.inBody && (p.body.Ended() || p.body.EndsWithConnection()) }

// readHead collects the head, which may arrive in pieces, and parses it when it is complete.
func (p *h1) readHead(b []byte) (int, error) {
	old := len(p.buf)
	p.buf = append(p.buf, b[:min(len(b), maxHead-old)]...)
	end := http1.HeadEnd(p.buf, old)
	if end < 0 {
		if len(p.buf) >= maxHead {
			return 0, fmt.Errorf("%w: headers over %d bytes", http1.Err, maxHead)
		}
		if bad := min(len(p.buf), 5); string(p.buf[:bad]) != "HTTP/"[:bad] {
			return 0, fmt.Errorf("%w: it begins %.40q", http1.Err, p.buf)
		}
		return len(b), nil
	}
	text := string(p.buf[:end])
	p.buf = p.buf[:0]
	return end - old, p.parseHead(text)
}

func (p *h1) parseHead(text string) error {
	h, _ := http1.ParseHead(text) // an answer may have a line that is no field; it is passed over
	status, err := h.Status()
	if err != nil || status < 200 { // after an interim response, the real one follows
		return err
	}
	if status != 204 && status != 304 {
		if p.body, err = h.ResponseBody(); err != nil {
			return err
		}
	}
	p.inBody = true
	p.head = head{status: status, keep: h.Keep() && !p.body.EndsWithConnection()}
	for _, f := range h.Fields {
		switch {
		case strings.EqualFold(f.Name, "Content-Type"):
			p.head.sse, p.head.binary = bodyForm(f.Value)
		case strings.EqualFold(f.Name, "Metadata"):
			p.head.metadata = f.Value
		case strings.EqualFold(f.Name, "Retry-After"):
			p.head.retryAfter = retryAfter(f.Value)
		}
	}
	p.onHead(p.head)
	return nil
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
