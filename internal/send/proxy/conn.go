package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spate/internal/send/http1"
)

// linger is how long a client may go on sending after the server has closed: closing at once could take back
// an answer that is still on its way.
const linger = 2 * time.Second

// readSize is the size of one read.
const readSize = 64 << 10

// conn is one connection of a client and the one to the server that belongs to it. Bytes go through as they
// come, a close as a close and a reset as a reset; what they mean is looked at after they have left.
type conn struct {
	proxy    *Proxy
	client   net.Conn
	upstream net.Conn // nil when there is none to the server

	mu      sync.Mutex
	opaque  atomic.Bool // nothing more is understood of what passes
	pending []*exchange // asked and not answered to the end, oldest first
	up      message     // the request that comes
	down    message     // the answer that comes
	left    bool        // the client sends nothing more, which is how most leave
	cutOff  bool
}

// message is how far one direction of a connection has come.
type message struct {
	head   []byte        // of a message that has begun, until it is whole
	begun  time.Duration // when its first byte came
	inBody bool
	body   http1.Body
	x      *exchange // whose body it is
}

func (m *message) idle() bool { return !m.inBody && len(m.head) == 0 }

func (c *conn) serve() {
	upstream, err := c.proxy.dial()
	if err != nil {
		c.refuse(err)
		c.leave(fateUnreachable)
		return
	}
	c.mu.Lock()
	c.upstream = upstream
	cut := c.cutOff
	c.mu.Unlock()
	if cut {
		c.cut()
	}
	var wg sync.WaitGroup
	wg.Go(c.downward)
	c.upward()
	wg.Wait()
	c.leave(fateClientGone)
	_ = c.client.Close()   // both are closed for good here; nobody reads them any more
	_ = c.upstream.Close() // as above
}

// upward hands on what the client sends.
func (c *conn) upward() {
	buf := make([]byte, readSize)
	for {
		n, err := c.client.Read(buf)
		if n > 0 {
			if _, failed := c.upstream.Write(c.ask(buf[:n])); failed != nil {
				c.discard(buf)
				return
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			c.mu.Lock()
			c.left = true
			c.mu.Unlock()
			closeWrite(c.upstream) // the client may still be listening
			return
		default:
			c.leave(fateClientGone)
			reset(c.upstream)
			return
		}
	}
}

// discard reads what a client still sends to a server that listens no more, so that the answer is not lost.
func (c *conn) discard(buf []byte) {
	_ = c.client.SetReadDeadline(time.Now().Add(linger)) // on a closed connection the read fails anyway
	for {
		if _, err := c.client.Read(buf); err != nil {
			return
		}
	}
}

// downward hands on what the server sends, and looks at it afterwards.
func (c *conn) downward() {
	buf := make([]byte, readSize)
	for {
		n, err := c.upstream.Read(buf)
		at := c.proxy.now()
		if n > 0 {
			_, gone := c.client.Write(buf[:n])
			c.answer(buf[:n], at)
			if gone != nil {
				c.leave(fateClientGone)
				reset(c.upstream)
				return
			}
		}
		if err == nil {
			if c.finished() {
				c.cut()
			}
			continue
		}
		c.closed(at)
		if errors.Is(err, io.EOF) {
			closeWrite(c.client)
			_ = c.client.SetReadDeadline(time.Now().Add(linger)) // as in discard
		} else {
			reset(c.client)
		}
		return
	}
}

// closed is the end of what the server sends: of an answer without a length it is the proper end.
func (c *conn) closed(at time.Duration) {
	c.mu.Lock()
	if c.down.inBody && c.down.body.EndsWithConnection() {
		c.answeredAll(c.down.x, at)
	}
	c.mu.Unlock()
	c.leave(fateServerGone)
}

// ask looks at bytes of the client and returns what the server is to get.
func (c *conn) ask(b []byte) []byte {
	if c.opaque.Load() {
		return b
	}
	at := c.proxy.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up.inBody { // the usual case of a long body: nothing is copied
		used, err := c.askBody(b)
		if err != nil {
			c.giveUp()
			return b
		}
		if used == len(b) {
			return b
		}
		return append(slices.Clone(b[:used]), c.askHeads(b[used:], at)...)
	}
	return c.askHeads(b, at)
}

// askHeads is ask from the head of a request on.
func (c *conn) askHeads(b []byte, at time.Duration) (out []byte) {
	for len(b) > 0 {
		if c.up.inBody {
			used, err := c.askBody(b)
			if err != nil {
				c.giveUp()
				return append(out, b...)
			}
			out, b = append(out, b[:used]...), b[used:]
			continue
		}
		if len(c.up.head) == 0 {
			c.up.begun = at
		}
		before := len(c.up.head)
		c.up.head = append(c.up.head, b...)
		end := http1.HeadEnd(c.up.head, before)
		if end < 0 {
			if len(c.up.head) > maxHead {
				return append(out, c.unread()...)
			}
			return out
		}
		rest := b[end-before:]
		head, err := c.begin(c.up.head[:end])
		if err != nil {
			return append(out, c.unread()...)
		}
		c.up.head = c.up.head[:0]
		out, b = append(out, head...), rest
	}
	return out
}

// unread gives up on a head that is none and returns it.
func (c *conn) unread() []byte {
	c.pending = append(c.pending, &exchange{begun: c.up.begun})
	c.giveUp()
	return c.up.head
}

// begin takes the head of a request and returns the server's version of it.
func (c *conn) begin(raw []byte) ([]byte, error) {
	h, err := http1.ParseHead(string(raw))
	if err != nil {
		return nil, err
	}
	method, target, err := h.Request()
	if err != nil {
		return nil, err
	}
	b, err := h.RequestBody()
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(target, "?") // keys can stand behind it
	x := &exchange{begun: c.up.begun, method: method, path: path, session: sessionOf(&h)}
	c.pending = append(c.pending, x)
	c.up.inBody, c.up.body, c.up.x = true, b, x
	if b.Ended() {
		c.askedAll()
	}
	u := c.proxy.upstream
	return rewritten(&h, u.Host, strings.TrimRight(u.EscapedPath(), "/")), nil
}

func (c *conn) askBody(b []byte) (used int, err error) {
	used, err = c.up.body.Feed(b, c.up.x.takeAsked)
	if err == nil && c.up.body.Ended() {
		c.askedAll()
	}
	return used, err
}

// askedAll is the end of a request. Its answer may have come before it.
func (c *conn) askedAll() {
	x := c.up.x
	c.up.inBody, c.up.x = false, nil
	if x.askedAll = true; x.answered {
		c.settle(x)
	}
}

// answer looks at bytes of the server.
func (c *conn) answer(b []byte, at time.Duration) {
	if c.opaque.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 && !c.opaque.Load() {
		if !c.down.inBody {
			before := len(c.down.head)
			c.down.head = append(c.down.head, b...)
			end := http1.HeadEnd(c.down.head, before)
			if end < 0 {
				if len(c.down.head) > maxHead {
					c.giveUp()
				}
				return
			}
			b = b[end-before:]
			raw := c.down.head[:end]
			c.down.head = nil
			c.answerHead(raw, at)
			continue
		}
		x := c.down.x
		used, err := c.down.body.Feed(b, func(p []byte) { x.take(p, at) })
		if err != nil {
			c.giveUp()
			return
		}
		if c.down.body.Ended() {
			c.answeredAll(x, at)
		}
		b = b[used:]
	}
}

func (c *conn) answerHead(raw []byte, at time.Duration) {
	h, err := http1.ParseHead(string(raw))
	status, bad := h.Status()
	x := c.unanswered()
	if err != nil || bad != nil || x == nil {
		c.giveUp()
		return
	}
	if status/100 == 1 && status != 101 {
		return // the answer itself comes after it
	}
	x.status, x.form, x.encoding = status, h.Get("Content-Type"), h.Get("Content-Encoding")
	if status == 101 || x.method == "CONNECT" && status/100 == 2 {
		c.giveUp()
		return
	}
	b, err := h.ResponseBody()
	if err != nil {
		c.giveUp()
		return
	}
	if x.method == "HEAD" || status == 204 || status == 304 {
		b = http1.Body{}
	}
	c.down.inBody, c.down.body, c.down.x = true, b, x
	if b.Ended() {
		c.answeredAll(x, at)
	}
}

// unanswered is the oldest request without an answer.
func (c *conn) unanswered() *exchange {
	for _, x := range c.pending {
		if !x.answered {
			return x
		}
	}
	return nil
}

func (c *conn) answeredAll(x *exchange, at time.Duration) {
	c.down.inBody, c.down.x = false, nil
	x.answered, x.end, x.fate = true, at, fateOK
	if x.askedAll {
		c.settle(x)
	}
}

// settle hands a request that has ended over to be written down.
func (c *conn) settle(x *exchange) {
	c.pending = slices.DeleteFunc(c.pending, func(other *exchange) bool { return other == x })
	c.proxy.finish(x)
}

// giveUp is for bytes that are no HTTP/1.1, or another protocol from here on: they pass without a look.
func (c *conn) giveUp() {
	c.opaque.Store(true)
	c.end(fateOpaque)
}

// end settles all that is pending; mu is held.
func (c *conn) end(fate string) {
	at := c.proxy.now()
	for _, x := range c.pending {
		if !x.answered {
			x.end, x.fate = at, fate
		}
		c.proxy.finish(x)
	}
	c.pending, c.up.x, c.down.x = nil, nil, nil
	c.up.inBody, c.down.inBody = false, false
}

// leave settles what was under way when a side went.
func (c *conn) leave(fate string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cutOff:
		fate = fateStopped
	case c.left && fate == fateServerGone:
		fate = fateClientGone // the server went because the client had
	}
	c.opaque.Store(true)
	c.end(fate)
}

// finished reports whether the connection is to end and carries nothing.
func (c *conn) finished() bool {
	if !c.proxy.isDraining() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0 && c.up.idle() && c.down.idle()
}

// endWhenIdle closes a connection that carries nothing; the others end with what they carry.
func (c *conn) endWhenIdle() {
	c.mu.Lock()
	idle := !c.opaque.Load() && len(c.pending) == 0 && c.up.idle() && c.down.idle()
	c.mu.Unlock()
	if idle {
		c.cut()
	}
}

// cut ends the connection at once.
func (c *conn) cut() {
	c.mu.Lock()
	c.cutOff = true
	upstream := c.upstream
	c.mu.Unlock()
	_ = c.client.Close() // its readers see it
	if upstream != nil {
		_ = upstream.Close() // as above
	}
}

// refuse answers the client's first request when there is no server.
func (c *conn) refuse(why error) {
	defer func() { _ = c.client.Close() }() // nothing was promised
	buf := make([]byte, readSize)
	for {
		n, err := c.client.Read(buf)
		c.ask(buf[:n])
		c.mu.Lock()
		whole := len(c.pending) > 0 && !c.up.inBody
		if whole {
			c.pending[0].status = 502
		}
		c.mu.Unlock()
		if whole {
			text := fmt.Sprintf(`{"error": {"message": %q, "type": "upstream_unreachable", "code": 502}}`, "spate record: "+why.Error())
			_, _ = fmt.Fprintf(c.client, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text) // a client that left needs none
			closeWrite(c.client)
			c.discard(buf)
			return
		}
		if err != nil || c.opaque.Load() {
			return
		}
	}
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // a connection that is gone needs no end
	}
}

// reset ends a connection as a broken one.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // else it ends politely
	}
	_ = c.Close() // its readers see it
}
