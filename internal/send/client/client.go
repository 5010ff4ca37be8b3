// Package client speaks to LLM servers and stamps what comes back. It gets requests from driver,
// built by workload and encoded ahead of time by Prepare, and returns one record per attempt; it
// computes no statistics.
//
// Read client.go first, then exchange.go (bytes to record), reactor_linux.go (who reads), and
// openai.go (what the bytes mean).
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fastjson"

	"spate/internal/call"
	"spate/internal/send/protocol"
)

// Config says where requests go and how.
type Config struct {
	Backend  *protocol.Protocol
	BaseURLs []string // scheme://host[:port][/prefix]; several are used in turn
	Turn     int      // which of them is the first: several clients of one load begin with different ones
	Endpoint string   // path below each base URL
	Unix     string   // a Unix socket to dial instead of the URL's host
	Header   http.Header
	Secrets  []string // values that must never appear in an error text
	TLS      *tls.Config
	InBand   bool // dial inside the request's latency instead of ahead of it
	Std      bool // use net/http instead of spate's own HTTP/1.1
	HTTP2    bool // speak HTTP/2; implies Std
	Timeout  time.Duration
	Idle     time.Duration // how long nothing may come after the first token; 0: as long as Timeout
	MaxConns int
	MaxBytes int64 // of one response; 0 means DefaultMaxBytes
	Sticky   bool  // requests of one session go to one target
	Body     protocol.Body
	Clock    call.Clock
	Pulse    *Pulse // told of answers while they come; nil: nobody looks
}

// Client sends requests to one or more base URLs.
type Client struct {
	cfg      Config
	targets  []*target
	reactors *reactors
	std      *http.Client
	parsers  fastjson.ParserPool
	scrub    *strings.Replacer
	turn     atomic.Uint32
	late     error // why a request was given up that took too long
	still    error // why one was given up whose stream stood still
}

// target is one base URL.
type target struct {
	url  *url.URL // of the endpoint
	head []byte   // request line and fixed headers
	own  []filled // headers that differ from request to request
	pool *pool
}

// Stats counts connections.
type Stats struct {
	Dialed int64 `json:"dialed"`
	InBand int64 `json:"in_band"` // opened inside a request's latency
	Resent int64 `json:"resent"`  // requests sent again: the server had closed their connection after one answer
}

// Lag is how late ready sockets were read.
type Lag struct {
	N   int64         `json:"n"`
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Low time.Duration `json:"p99_at_least_ns"` // what the p99 is above, by so many samples, in 99 of 100 cases
	Max time.Duration `json:"max_ns"`
}

// ArrivalStamps reports whether stamps are the kernel's own arrival times, so that a late reader
// bends them only where the next bytes of the same connection have come in meanwhile.
func (c *Client) ArrivalStamps() bool { return c.reactors != nil && c.cfg.Unix == "" }

// StampLag is the lag measured by the very readers that stamp. ok is false where connections are
// read by goroutines instead: other platforms, TLS and net/http.
func (c *Client) StampLag() (lag Lag, ok bool) {
	if c.reactors == nil {
		return Lag{}, false
	}
	for _, t := range c.targets {
		if t.url.Scheme == "https" {
			return Lag{}, false
		}
	}
	return c.reactors.stampLag()
}

// ResetLag begins a new measurement of the stamp lag.
func (c *Client) ResetLag() {
	if c.reactors != nil {
		c.reactors.resetLag()
	}
}

// New makes a client. Nothing is dialed yet.
func New(cfg Config) (*Client, error) {
	c := &Client{
		cfg: cfg, scrub: scrubber(cfg.Secrets),
		late:  fmt.Errorf("%w after %v (--request-timeout)", call.ErrTimeout, cfg.Timeout),
		still: fmt.Errorf("%w: nothing came for %v in the middle of the answer (--idle-timeout)", call.ErrIdle, cfg.Idle),
	}
	var err error
	if cfg.Std || cfg.HTTP2 {
		c.std, err = newStd(&cfg)
	} else {
		c.reactors, err = newReactors(cfg.Clock)
	}
	if err != nil {
		return nil, err
	}
	for _, base := range cfg.BaseURLs {
		t, err := c.newTarget(base)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.targets = append(c.targets, t)
	}
	if len(c.targets) == 0 {
		return nil, errors.New("no base URL to send to")
	}
	c.turn.Store(uint32(cfg.Turn))
	return c, nil
}

func (c *Client) newTarget(base string) (*target, error) {
	u, err := url.Parse(strings.TrimRight(base, "/") + c.cfg.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("base URL %q: want http://host:port or https://host:port", base)
	}
	t := &target{url: u, own: filledHeaders(c.cfg.Header)}
	if c.std != nil {
		return t, nil
	}
	d := &dialer{network: "tcp", addr: u.Host, clock: c.cfg.Clock, reactors: c.reactors, most: withinTimeout(openFor, c.cfg.Timeout)}
	if u.Port() == "" {
		d.addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if c.cfg.Unix != "" {
		d.network, d.addr = "unix", c.cfg.Unix
	}
	if u.Scheme == "https" {
		d.tls = c.cfg.TLS.Clone()
		if d.tls == nil {
			d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if d.tls.ServerName == "" {
			d.tls.ServerName = u.Hostname()
		}
	}
	t.pool = newPool(d, !c.cfg.InBand, c.cfg.MaxConns)
	t.head = requestHead(u, withUser(u, c.cfg.Header), &c.cfg.Backend.Manner)
	return t, nil
}

// withUser adds the user and password of a URL, as net/http does, unless a header says otherwise.
func withUser(u *url.URL, h http.Header) http.Header {
	if u.User == nil || h.Get("Authorization") != "" {
		return h
	}
	password, _ := u.User.Password()
	r := http.Request{Header: h.Clone()}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.SetBasicAuth(u.User.Username(), password)
	return r.Header
}

// requestHead is the request line and the headers that every request of a target shares; the user's
// take the place of spate's own.
func requestHead(u *url.URL, h http.Header, m *protocol.Manner) []byte {
	b := []byte("POST " + u.RequestURI() + " HTTP/1.1\r\n")
	for _, own := range append([][2]string{{"Host", u.Host}, {"User-Agent", "spate"}}, m.Headers()...) {
		if own[0] != "" && h.Get(own[0]) == "" {
			b = append(b, own[0]+": "+own[1]+"\r\n"...)
		}
	}
	names := make([]string, 0, len(h))
	for n := range h {
		if n != "X-Request-Id" && n != "Content-Length" { // each request has its own, see requestLine
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		for _, v := range h[n] {
			if !fills(v) {
				b = append(b, n+": "+v+"\r\n"...)
			}
		}
	}
	return b
}

// Prepare encodes a request's body ahead of its due time.
func (c *Client) Prepare(r *call.Request) error {
	var err error
	r.Body, err = c.cfg.Backend.Encode(nil, &c.cfg.Body, r)
	return err
}

// SetBody changes the body fields of requests that are prepared from now on. No request may be in flight.
func (c *Client) SetBody(b protocol.Body) { c.cfg.Body = b }

// Warm opens connections ahead of the run, n over all targets, and finds out from connections that were used already
// whether the server keeps them.
func (c *Client) Warm(ctx context.Context, n int) error {
	if c.std != nil {
		return nil
	}
	each := (n + len(c.targets) - 1) / len(c.targets)
	for _, t := range c.targets {
		t.pool.learn(ctx)
		if c.cfg.InBand {
			continue
		}
		if err := t.pool.warm(ctx, each); err != nil {
			return err
		}
	}
	return nil
}

// Do makes one attempt at a request. Whatever goes wrong is in the record.
func (c *Client) Do(ctx context.Context, r *call.Request) call.Record {
	x := newExchange(c.cfg.Backend, &c.parsers, r)
	if c.cfg.MaxBytes > 0 {
		x.most = c.cfg.MaxBytes
	}
	x.pulse = c.cfg.Pulse
	if r.Body == nil {
		if err := c.Prepare(r); err != nil {
			x.fail(call.FaultLocal, err.Error())
			return c.close(x)
		}
	}
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.Timeout, c.late)
		defer cancel()
	}
	if c.cfg.Idle > 0 {
		var stop func()
		ctx, stop = c.watchIdle(ctx, x)
		defer stop()
	}
	i := c.pick(r)
	x.rec.Target = i
	if c.std != nil {
		c.doStd(ctx, c.targets[i], x, r)
	} else {
		c.targets[i].do(ctx, x, r)
	}
	return c.close(x)
}

func (c *Client) pick(r *call.Request) int {
	if len(c.targets) == 1 {
		return 0
	}
	if c.cfg.Sticky && r.Session != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(r.Session))
		return int(h.Sum32() % uint32(len(c.targets)))
	}
	return int((c.turn.Add(1) - 1) % uint32(len(c.targets)))
}

func (t *target) do(ctx context.Context, x *exchange, r *call.Request) {
	for t.attempt(ctx, x, r) {
		t.pool.resent.Add(1)
		x.fault, x.err, x.broken = call.NoFault, "", false // no byte came, so nothing else has changed
	}
}

// attempt sends a request over one connection. It reports whether the request is to be sent again, over another: the
// record's stamps are those of the last time, so that the time lost is send lag and not latency.
func (t *target) attempt(ctx context.Context, x *exchange, r *call.Request) (again bool) {
	begun := t.pool.dialer.clock.Now()
	o, fresh, err := t.pool.get(ctx)
	if err != nil {
		x.rec.Sent = begun
		x.failDial(ctx, err)
		return false
	}
	x.rec.Dial, x.rec.Handshake, x.rec.Reused, x.rec.InBand = o.dial, o.handshake, o.used, fresh
	keep := o.link.exchange(ctx, x, net.Buffers{t.requestLine(r), r.Body})
	if fresh && !t.pool.ahead {
		x.rec.Sent = begun // the user asked for dialing to count
	}
	if keep {
		t.pool.put(o)
		return false
	}
	t.pool.discard(o)
	return x.fault == call.FaultReset && t.pool.mute(o) && ctx.Err() == nil
}

// requestLine finishes the head for one request.
func (t *target) requestLine(r *call.Request) []byte {
	b := make([]byte, 0, len(t.head)+len(r.Name)+64)
	b = append(b, t.head...)
	if r.Name != "" {
		b = append(b, "x-request-id: "...)
		b = append(b, r.Name...)
		b = append(b, "\r\n"...)
	}
	for _, h := range t.own {
		if v := h.of(r); v != "" {
			b = append(b, h.name+": "+v+"\r\n"...)
		}
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	return append(b, "\r\n\r\n"...)
}

func (x *exchange) failDial(ctx context.Context, err error) {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		<-ctx.Done() // the dialer keeps the same deadline, and may be the first to say so
	}
	if ctx.Err() != nil {
		x.fail(canceledFault(ctx), context.Cause(ctx).Error())
		return
	}
	fault := call.FaultConnect
	if de, ok := errors.AsType[*dialError](err); ok {
		fault = de.fault
	}
	x.fail(fault, err.Error())
}

// close ends an exchange's record: canceled requests are told apart from failed ones, and secrets
// are taken out of error texts.
func (c *Client) close(x *exchange) call.Record {
	rec := x.finish(c.cfg.Clock.Now())
	x.untell()
	if rec.Fault == call.FaultStopped || rec.Fault == call.FaultCutoff {
		rec.Outcome = call.Canceled
	}
	if rec.Fault == call.FaultLocal {
		rec.Outcome = call.Dropped
	}
	rec.Err = c.scrub.Replace(rec.Err)
	return rec
}

// Stats counts the connections opened so far.
func (c *Client) Stats() Stats {
	var s Stats
	for _, t := range c.targets {
		if t.pool != nil {
			s.Dialed += t.pool.dialed.Load()
			s.InBand += t.pool.inBand.Load()
			s.Resent += t.pool.resent.Load()
		}
	}
	return s
}

// Close ends all connections.
func (c *Client) Close() {
	for _, t := range c.targets {
		if t.pool != nil {
			t.pool.close()
		}
	}
	if c.reactors != nil {
		c.reactors.close()
	}
	if c.std != nil {
		c.std.CloseIdleConnections()
	}
}

// scrubber replaces secrets in error texts, which may quote a request's headers back.
func scrubber(secrets []string) *strings.Replacer {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 4 {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...)
}
