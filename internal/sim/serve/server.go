package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config says what to serve and how. The zero value listens on a free loopback port and answers
// at once.
type Config struct {
	Addr   string // host:port, or unix:PATH; 127.0.0.1:0 when empty
	Models []string
	Root   string // what /v1/models calls the model's root; the first model when empty

	MaxModelLen int // 131,072 when 0
	Version     string
	APIKey      string // asked for under /v1 and /sim when set
	Control     bool   // serve /sim on addresses that others can reach, too

	Timetable TimetableConfig
	Engine    Engine // takes the timetable's place when set
	Script    *Script

	Stamp               bool   // put spate_ns, the true write time, into every event
	Truth               bool   // keep each event's true time in memory
	TruthFile           string // write them there on Stop; implies Truth
	PromptTokensDetails bool   // usage.prompt_tokens_details
	RequestMetrics      bool   // metrics on the usage event
	ReasoningField      string // "reasoning" when empty; older servers say "reasoning_content"
	Adapters            []string
	Names               MetricNames
	Info                map[string]any // what /server_info and SGLang's /get_server_info add

	TLS   bool // serve TLS with a certificate made on the spot; see Server.CA
	Grace time.Duration
}

func (c *Config) defaults() {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if len(c.Models) == 0 {
		c.Models = []string{"spate-sim"}
	}
	if c.Root == "" {
		c.Root = c.Models[0]
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = 131072
	}
	if c.Version == "" {
		c.Version = "0.0.0+spate"
	}
	if c.ReasoningField == "" {
		c.ReasoningField = "reasoning"
	}
	if c.Script == nil {
		c.Script = &Script{}
	}
}

// Server is a running server.
type Server struct {
	cfg        Config
	endpoints  map[string]endpoint
	pacer      *pacer
	truth      TruthLog
	keepEvents bool
	needIDs    bool
	choices    int // most answers to one prompt
	script     atomic.Pointer[Script]
	metrics    counters
	late       lateHist
	jams       atomic.Int64
	refused    atomic.Int64
	ca         []byte
	tls        *tls.Config

	network, addr string
	started       time.Time
	next          atomic.Int64 // index of the next request
	active        atomic.Int64 // streams opened and not settled
	accepted      atomic.Int64

	mu    sync.Mutex
	ln    net.Listener
	conns map[*conn]struct{}

	wg       sync.WaitGroup
	closing  atomic.Bool
	dying    chan struct{} // closed when the server stops for good
	stopOnce sync.Once
	stopErr  error
	unwatch  func() bool
}

// Start listens and serves until Stop or until ctx is done.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	s.network, s.addr = splitAddr(s.cfg.Addr)
	ln, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	if s.network == "tcp" {
		s.addr = ln.Addr().String()
	}
	s.launch()
	s.wg.Go(func() { s.accept(ln) })
	for _, o := range s.cfg.Script.Outages {
		s.wg.Go(func() { s.outage(ctx, o) })
	}
	unwatch := context.AfterFunc(ctx, func() { _ = s.Stop() }) // Stop's error is kept for the caller's own Stop
	s.mu.Lock()
	s.unwatch = unwatch
	s.mu.Unlock()
	return s, nil
}

// newServer builds a server that does not listen yet.
func newServer(cfg Config) (*Server, error) {
	cfg.defaults()
	s := &Server{cfg: cfg, conns: make(map[*conn]struct{}), dying: make(chan struct{}), started: time.Now()}
	s.keepEvents = cfg.Truth || cfg.TruthFile != ""
	s.needIDs = cfg.Engine != nil || cfg.Timetable.PrefixCache
	s.choices = choicesOf(cfg.Engine)
	s.script.Store(cfg.Script)
	s.metrics.init()
	s.endpoints = s.routes()
	engine := cfg.Engine
	if engine == nil {
		engine = NewTimetable(cfg.Timetable)
	}
	s.pacer = newPacer(engine)
	if cfg.TLS {
		if err := s.makeCert(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) launch() { s.wg.Go(s.pacer.run) }

func splitAddr(addr string) (network, address string) {
	const unix = "unix:"
	if len(addr) > len(unix) && addr[:len(unix)] == unix {
		return "unix", addr[len(unix):]
	}
	return "tcp", addr
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, s.network, s.addr)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil, errors.Join(net.ErrClosed, ln.Close())
	}
	s.ln = ln
	return ln, nil
}

// Addr returns the address listened on: host:port, or the socket's path.
func (s *Server) Addr() string { return s.addr }

// URL returns the base URL of the API. On a Unix socket its host means nothing.
func (s *Server) URL() string {
	scheme := "http"
	if s.cfg.TLS {
		scheme = "https"
	}
	if s.network == "unix" {
		return scheme + "://localhost"
	}
	return scheme + "://" + s.addr
}

// Truth returns the log of what was really written.
func (s *Server) Truth() *TruthLog { return &s.truth }

func (s *Server) created() int64 { return s.started.Unix() }

func (s *Server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ECONNABORTED) {
				return
			}
			time.Sleep(time.Millisecond) // out of descriptors: they come back as streams end
			continue
		}
		n := int(s.accepted.Add(1) - 1)
		if s.script.Load().refuse(s.cfg.Timetable.Seed, n) {
			s.refused.Add(1)
			(&conn{Conn: nc}).kill(true)
			continue
		}
		if s.tls != nil {
			nc = tls.Server(nc, s.tls)
		}
		c := newConn(s, nc)
		if s.remember(c) {
			s.wg.Go(c.serve)
		}
	}
}

// remember notes an open connection; false, and it is closed, when the server is stopping.
func (s *Server) remember(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		c.kill(false)
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// open makes the stream that answers a call.
func (s *Server) open(call *genCall, id string, arrived int64) *stream {
	index := int(s.next.Add(1) - 1)
	if id == "" {
		id = "sim-" + strconv.Itoa(index)
	}
	req := &Request{
		Index: index, ID: id, Arrived: arrived, Prompt: call.ids, PromptTokens: call.promptTokens, Chat: call.chat,
		MaxTokens: call.maxTokens, MinTokens: call.minTokens, IgnoreEOS: call.ignoreEOS, Adapter: call.adapter, N: call.n,
	}
	st := &stream{
		srv: s, call: call, req: req,
		cancel: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
		truth: &Truth{Index: index, ID: id, Arrived: arrived, Prompt: call.promptTokens},
	}
	if script := s.script.Load(); len(script.Rules) > 0 {
		st.fate = script.judge(s.cfg.Timetable.Seed, subject{index: index, id: id, prompt: call.promptText, chat: call.chat})
		req.Timing = st.fate.timing
	}
	st.scheduled.Store(arrived)
	st.enc = newEncoder(st, &s.cfg, s.created())
	if p, ok := s.pacer.engine.(Preparer); ok {
		p.Prepare(req)
	}
	if s.keepEvents && call.stream {
		st.truth.Events = make([]Event, 0, min(call.maxTokens+3, 4096))
	}
	s.active.Add(1)
	return st
}

// choicesOf is the most answers an engine gives to one prompt.
func choicesOf(e Engine) int {
	if c, ok := e.(Chooser); ok {
		return c.Choices()
	}
	return 1
}

// submit hands a stream to the engine, and starts its pump if it needs one all along.
func (s *Server) submit(st *stream) {
	if !st.direct {
		s.wg.Go(st.pump)
	}
	s.pacer.send(order{submit: st})
}

// settle counts a stream that has ended.
func (s *Server) settle(st *stream) {
	s.metrics.finished(st)
	if s.keepEvents {
		s.truth.add(st.truth)
	}
	s.active.Add(-1)
}

// Stats is a snapshot of the server's own counters.
type Stats struct {
	Requests    int64    `json:"requests"`    // completions asked for
	Active      int64    `json:"active"`      // not finished yet
	Connections int64    `json:"connections"` // accepted since the start
	Refused     int64    `json:"refused"`     // of these, reset at once by script
	Tokens      int64    `json:"tokens"`      // written
	Jams        int64    `json:"jams"`        // times a full socket made a stream leave the fast path
	Lateness    Lateness `json:"lateness"`    // of token events of healthy streams
	Lag         Lateness `json:"lag"`         // of the engine's own deadlines: when it was woken against when it should have been
	Entry       Lateness `json:"entry"`       // of requests: when the engine got them against when their last byte was read
}

// Stats returns the server's counters.
func (s *Server) Stats() Stats {
	return Stats{
		Requests: s.next.Load(), Active: s.active.Load(), Connections: s.accepted.Load(), Refused: s.refused.Load(),
		Tokens: s.metrics.generated.Load(), Jams: s.jams.Load(), Lateness: s.late.summary(), Lag: s.pacer.lag.summary(), Entry: s.pacer.entry.summary(),
	}
}

// outage takes the listener away for a while.
func (s *Server) outage(ctx context.Context, o Outage) {
	if !s.wait(o.At) {
		return
	}
	s.mu.Lock()
	if s.ln != nil {
		_ = s.ln.Close() // closing twice is harmless
	}
	s.mu.Unlock()
	if o.Kill {
		s.hangUpAll(true)
	}
	if o.For < 0 || !s.wait(o.For) {
		return
	}
	if ln, err := s.listen(ctx); err == nil {
		s.accept(ln)
	}
}

func (s *Server) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.dying:
		return false
	}
}

func (s *Server) hangUpAll(reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.kill(reset)
	}
}

// Stop closes the listener, gives running streams Config.Grace to end, closes what is left and
// writes the truth file. Calling it again returns the same error.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.stop() })
	return s.stopErr
}

func (s *Server) stop() error {
	s.mu.Lock()
	s.closing.Store(true)
	if s.ln != nil {
		_ = s.ln.Close() // an outage may have closed it
	}
	s.mu.Unlock()
	for deadline := time.Now().Add(s.cfg.Grace); s.active.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	close(s.dying)
	s.hangUpAll(false)
	for s.active.Load() > 0 { // every stream settles once its connection is closed
		time.Sleep(time.Millisecond)
	}
	s.pacer.send(order{stop: true})
	s.wg.Wait()
	s.mu.Lock()
	if s.unwatch != nil {
		s.unwatch()
	}
	s.mu.Unlock()
	if s.network == "unix" {
		_ = os.Remove(s.addr) // the listener usually removed it
	}
	if s.cfg.TruthFile == "" {
		return nil
	}
	return s.truth.writeFile(s.cfg.TruthFile)
}
