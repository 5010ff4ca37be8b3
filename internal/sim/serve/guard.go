package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// This file bounds what a client may send, and says who may steer the server through the paths under /sim/.

// Bounds of one request. A head or a body that takes longer is from nobody who wants an answer.
const (
	maxHead  = 64 << 10
	maxBody  = 64 << 20
	idleWait = 10 * time.Minute // for the next request on an open connection
	headWait = 30 * time.Second
	bodyWait = 5 * time.Minute
)

var errHead = fmt.Errorf("the headers are larger than %d bytes", maxHead)

// metered counts down what may still be read from a connection.
type metered struct {
	net.Conn
	left int
}

func (m *metered) Read(b []byte) (int, error) {
	if m.left <= 0 {
		return 0, errHead
	}
	n, err := m.Conn.Read(b[:min(len(b), m.left)])
	m.left -= n
	return n, err
}

// allow sets how much may be read next, and by when.
func (m *metered) allow(bytes int, wait time.Duration) {
	m.left = bytes
	_ = m.SetReadDeadline(time.Now().Add(wait)) // a connection that has ended says so on reading
}

// open lets the connection be waited on without an end: a stream is being written.
func (m *metered) open() {
	m.left = maxHead
	_ = m.SetReadDeadline(time.Time{})
}

// readBody reads a body; room is made as bytes come, not by the length that was announced.
func readBody(r io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(length, 0), 64<<10)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(r, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case b.Len() > maxBody:
		return nil, fmt.Errorf("the body is larger than %d bytes", maxBody)
	case length > 0 && int64(b.Len()) < length:
		return nil, io.ErrUnexpectedEOF
	}
	return b.Bytes(), nil
}

// steers says why a request may not use the paths under /sim/; nil when it may. They can break what the server
// is for, so they are there on loopback only, unless asked for, and for nobody a browser brings along: a page's
// request names where it comes from, and one that reached this address under a foreign name names that.
func (s *Server) steers(req *http.Request) error {
	if !s.cfg.Control && s.network == "tcp" && !loopback(s.addr) {
		return errors.New("the paths under /sim/ are off on an address that others can reach; start the server with --sim-control to have them")
	}
	if from := req.Header.Get("Origin"); from != "" {
		if u, err := url.Parse(from); err != nil || !strings.EqualFold(u.Host, req.Host) {
			return errors.New("requests to /sim/ from another origin are refused")
		}
	}
	if s.network == "tcp" && s.cfg.APIKey == "" && !s.calledRightly(req.Host) {
		return fmt.Errorf("this server is not called %.80q: use its address or localhost for /sim/", req.Host)
	}
	return nil
}

// calledRightly reports whether a Host header can be meant for this server: an address, localhost, or the name it
// was told to listen on. Any other name may be one that an attacker lets lead here.
func (s *Server) calledRightly(host string) bool {
	name := bare(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || strings.EqualFold(name, "localhost") || strings.EqualFold(name, bare(s.cfg.Addr))
}

// bare is a host without its port and brackets.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// loopback reports whether an address is reached from this host only.
func loopback(addr string) bool {
	ip, err := netip.ParseAddr(bare(addr))
	return err == nil && ip.IsLoopback() || strings.EqualFold(bare(addr), "localhost")
}
