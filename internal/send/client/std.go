package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"spate/internal/call"
	"spate/internal/send/http1"
)

// newStd builds the net/http client: for HTTP/2, for proxies, and as a second opinion on spate's own.
func newStd(cfg *Config) (*http.Client, error) {
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     cfg.TLS.Clone(),
		MaxIdleConnsPerHost: max(cfg.MaxConns, 1024),
		IdleConnTimeout:     idleLimit,
		DisableCompression:  true,
		ReadBufferSize:      readSize,

		MaxResponseHeaderBytes: maxHead,
	}
	if socket := cfg.Unix; socket != "" {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	}
	p := new(http.Protocols)
	p.SetHTTP1(!cfg.HTTP2)
	p.SetHTTP2(cfg.HTTP2)
	p.SetUnencryptedHTTP2(cfg.HTTP2)
	tr.Protocols = p
	return &http.Client{Transport: unswitched{tr}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect would be measured as part of the answer
	}}, nil
}

// unswitched takes no other protocol. net/http would hand the bare connection over, whose reads no timeout ends.
type unswitched struct{ *http.Transport }

// RoundTrip makes one exchange.
func (u unswitched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.Transport.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() // ends the connection
		return nil, fmt.Errorf("%w: it switches to another protocol, which nobody asked for", http1.Err)
	}
	return resp, err
}

// stdTimes is what net/http tells of a request. It tells it from goroutines of its own, some of them
// after the request has ended: a dial goes on when another connection came free first.
type stdTimes struct {
	dialStart, dialEnd, tlsStart, tlsEnd, firstByte atomic.Int64 // 0: not yet
	reused                                          atomic.Bool
}

func (s *stdTimes) trace(clock call.Clock) *httptrace.ClientTrace {
	now := func() int64 { return int64(clock.Now()) }
	return &httptrace.ClientTrace{
		ConnectStart:         func(string, string) { s.dialStart.Store(now()) },
		ConnectDone:          func(string, string, error) { s.dialEnd.Store(now()) },
		TLSHandshakeStart:    func() { s.tlsStart.Store(now()) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { s.tlsEnd.Store(now()) },
		GotConn:              func(g httptrace.GotConnInfo) { s.reused.Store(g.Reused) },
		GotFirstResponseByte: func() { s.firstByte.Store(now()) },
	}
}

// fill puts the times into a record.
func (s *stdTimes) fill(r *call.Record) {
	between := func(from, to *atomic.Int64) time.Duration {
		if a, b := from.Load(), to.Load(); a > 0 && b > a {
			return time.Duration(b - a)
		}
		return 0
	}
	if r.Reused = s.reused.Load(); !r.Reused && s.dialStart.Load() > 0 {
		r.InBand, r.Dial, r.Handshake = true, between(&s.dialStart, &s.dialEnd), between(&s.tlsStart, &s.tlsEnd)
	}
	if at := s.firstByte.Load(); at > 0 {
		r.FirstByte = time.Duration(at)
	}
}

// doStd makes one attempt through net/http.
func (c *Client) doStd(ctx context.Context, t *target, x *exchange, r *call.Request) {
	clock := c.cfg.Clock
	times := &stdTimes{}
	trace := times.trace(clock)
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, t.url.String(), bytes.NewReader(r.Body))
	if err != nil {
		x.fail(call.FaultLocal, err.Error())
		return
	}
	setHeaders(req, c.cfg.Header)
	for _, own := range x.backend.Headers() {
		if own[0] != "" && req.Header.Get(own[0]) == "" {
			req.Header.Set(own[0], own[1])
		}
	}
	for _, h := range t.own {
		if req.Header.Del(h.name); h.of(r) != "" {
			req.Header.Set(h.name, h.of(r))
		}
	}
	req.Header.Set("x-request-id", r.Name)
	x.rec.Sent = clock.Now()
	resp, err := c.std.Do(req)
	times.fill(&x.rec)
	if err != nil {
		c.lostStd(ctx, x, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	c.readStd(ctx, x, resp)
}

// setHeaders puts the user's headers on a request. net/http keeps the host apart from them.
func setHeaders(req *http.Request, h http.Header) {
	for n, vs := range h {
		req.Header[http.CanonicalHeaderKey(n)] = vs
	}
	if host := h.Get("Host"); host != "" {
		req.Host = host
	}
}

func (c *Client) readStd(ctx context.Context, x *exchange, resp *http.Response) {
	x.rec.Headers = c.cfg.Clock.Now()
	h := head{status: resp.StatusCode, retryAfter: retryAfter(resp.Header.Get("Retry-After")), metadata: resp.Header.Get("Metadata")}
	h.sse, h.binary = bodyForm(resp.Header.Get("Content-Type"))
	x.begin(h)
	buf := make([]byte, readSize)
	for {
		n, err := resp.Body.Read(buf)
		x.at = c.cfg.Clock.Now()
		x.rec.BytesIn += int64(n)
		if n > 0 {
			x.onBody(buf[:n])
		}
		if x.listen() {
			return
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.lostStd(ctx, x, err)
			return
		}
	}
}

func (c *Client) lostStd(ctx context.Context, x *exchange, err error) {
	if ctx.Err() != nil {
		x.fail(canceledFault(ctx), context.Cause(ctx).Error())
		return
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		e := dialFault(err)
		x.fail(e.fault, e.Error())
		return
	}
	if strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "x509:") {
		x.fail(call.FaultTLS, err.Error())
		return
	}
	// net/http has no type for what is not HTTP, only words.
	if errors.Is(err, http1.Err) || strings.Contains(err.Error(), "response headers exceeded") || strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), "chunk length") {
		x.fail(call.FaultHTTP, err.Error())
		return
	}
	x.lost(err)
}
