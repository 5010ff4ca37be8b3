package serve

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// answer is a response sent whole.
type answer struct {
	status     int
	ctype      string // application/json when empty
	retryAfter int
	body       []byte
}

// conn is one client connection. Its goroutine reads requests; while a stream is being written by
// the pacer it waits for the next request or for the client to leave.
type conn struct {
	net.Conn
	srv  *Server
	in   *metered
	br   *bufio.Reader
	raw  syscall.RawConn // nil when the bytes must pass through TLS
	keep bool

	// The argument and results of send, which is built once so that a write allocates nothing.
	send func(fd uintptr) bool
	out  []byte
	n    int
	err  error
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{Conn: nc, srv: s, in: &metered{Conn: nc}}
	c.br = bufio.NewReaderSize(c.in, 2048)
	if _, encrypted := nc.(*tls.Conn); encrypted {
		return c
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.send = func(fd uintptr) bool {
				c.n, c.err = sendNow(fd, c.out)
				return true
			}
		}
	}
	return c
}

// sendNow implements wire. Only the pacer calls it.
func (c *conn) sendNow(b []byte) (int, error) {
	c.out = b
	if err := c.raw.Write(c.send); err != nil {
		return 0, err
	}
	return c.n, c.err
}

// kill implements wire.
func (c *conn) kill(reset bool) {
	nc := c.Conn
	if t, ok := nc.(*tls.Conn); ok && reset {
		nc = t.NetConn()
	}
	if t, ok := nc.(*net.TCPConn); ok && reset {
		_ = t.SetLinger(0) // best effort: without it the client sees an orderly end
	}
	_ = nc.Close() // the other side may have closed it already
}

// answer implements wire.
func (c *conn) answer(a answer) error {
	b := make([]byte, 0, 256+len(a.body))
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.status)...)
	b = append(b, "\r\ndate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\nserver: spate-sim\r\ncontent-length: "...)
	b = strconv.AppendInt(b, int64(len(a.body)), 10)
	if len(a.body) > 0 {
		b = append(b, "\r\ncontent-type: "...)
		b = append(b, a.contentType()...)
	}
	if a.retryAfter > 0 {
		b = append(b, "\r\nretry-after: "...)
		b = strconv.AppendInt(b, int64(a.retryAfter), 10)
	}
	if !c.keep {
		b = append(b, "\r\nconnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	b = append(b, a.body...)
	_, err := c.Write(b)
	return err
}

func (a *answer) contentType() string {
	if a.ctype == "" {
		return "application/json"
	}
	return a.ctype
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.srv.forget(c)
	defer c.kill(false)
	for c.one() && c.keep && !c.srv.closing.Load() {
	}
}

// one reads and answers one request; false ends the connection.
func (c *conn) one() bool {
	req, body, ok := c.read()
	if !ok {
		return false
	}
	arrived := Mono()
	c.keep = !req.Close && req.ProtoAtLeast(1, 1)
	call, a := c.srv.route(req, body)
	if call == nil {
		return c.answer(*a) == nil
	}
	return c.generate(call, req, arrived)
}

// read takes one request off the connection.
func (c *conn) read() (*http.Request, []byte, bool) {
	c.in.allow(maxHead, idleWait)
	if _, err := c.br.Peek(1); err != nil {
		return nil, nil, false
	}
	c.in.allow(maxHead, headWait)
	req, err := http.ReadRequest(c.br)
	if err != nil {
		if errors.Is(err, errHead) {
			_ = c.answer(failure(&apiError{status: http.StatusRequestHeaderFieldsTooLarge, kind: "BadRequestError", message: errHead.Error()}))
			return nil, nil, false
		}
		if !errors.Is(err, io.EOF) && !isNet(err) {
			_ = c.answer(failure(&apiError{status: 400, kind: "BadRequestError", message: "this is not HTTP/1.1"}))
		}
		return nil, nil, false
	}
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, nil, false
		}
	}
	if req.ContentLength > maxBody {
		_ = c.answer(failure(&apiError{status: 413, kind: "BadRequestError", message: "the body is too large"}))
		return nil, nil, false
	}
	c.in.allow(2*maxBody, bodyWait) // the framing of the body counts as well
	body, err := readBody(req.Body, req.ContentLength)
	c.in.open()
	return req, body, err == nil
}

func isNet(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, net.ErrClosed)
}

const streamHead = "\r\nserver: spate-sim\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"

// generate answers a completion; false ends the connection.
func (c *conn) generate(call *genCall, req *http.Request, arrived int64) bool {
	s := c.srv.open(call, requestID(req.Header), arrived)
	s.wire, s.keep, s.chunked = c, c.keep, req.ProtoAtLeast(1, 1)
	s.direct = c.raw != nil && call.stream && s.fate.plain()
	if s.refused() {
		return s.truth.Status == "status"
	}
	if call.stream {
		b := append([]byte("HTTP/1.1 200 OK\r\ndate: "), time.Now().UTC().Format(http.TimeFormat)...)
		b = append(b, streamHead...)
		if s.chunked {
			b = append(b, "transfer-encoding: chunked\r\n"...)
		}
		if !c.keep {
			b = append(b, "connection: close\r\n"...)
		}
		if _, err := c.Write(append(b, "\r\n"...)); err != nil {
			s.end("abort")
			return false
		}
	}
	c.srv.submit(s)
	// The next request's first byte, or the end of the connection.
	if _, err := c.br.Peek(1); err != nil {
		s.hangUp()
		c.kill(false)
		<-s.done
		return false
	}
	<-s.done
	return true
}

// pause implements wire.
func (c *conn) pause(d time.Duration) bool {
	if d < 0 {
		_, _ = c.br.Peek(1) // returns when the client leaves; a client that pipelines is cut off
		return false
	}
	return c.srv.wait(d)
}
