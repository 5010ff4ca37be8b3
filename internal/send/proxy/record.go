// Package proxy stands between clients and a server, hands every byte on as it comes, and writes down what a
// replay needs: when requests came, how long they and their answers were, and which blocks of text their
// prompts share, under ids nobody can turn back into text. cli starts it; trace and workload read what it writes.
//
// Read this file first, then conn.go (one connection), exchange.go (what is kept of one request), ask.go and
// answer.go (what bodies mean), and blocks.go (ids of blocks).
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"time"

	"spate/internal/token/tokenizer"
)

// Config says what stands between whom.
type Config struct {
	Listen    string // host:port; port 0 picks one
	Upstream  string // URL of the server, with a path if requests are to get one in front of theirs
	Path      string // file of the trace
	Overwrite bool
	Block     int                  // tokens a block id stands for
	Salt      []byte               // of the ids; nil makes one that nobody keeps
	Tokenizer *tokenizer.Tokenizer // counts what the server does not; nil estimates by characters
	KeepText  bool
	All       bool        // also requests without a prompt, such as a list of models
	TLS       *tls.Config // towards an https upstream
}

// Stats is what was recorded so far.
type Stats struct {
	Requests int // lines
	Failed   int // of them, not answered with a 2xx status to the end
	Others   int // requests without a prompt that were handed on and not recorded
	In, Out  int64
}

// Proxy is a recording that goes on.
type Proxy struct {
	cfg      Config
	upstream *url.URL
	listener net.Listener
	file     *file
	salt     salt
	words    *words
	began    time.Time

	accepting sync.WaitGroup
	serving   sync.WaitGroup
	writing   sync.WaitGroup
	seats     chan struct{} // describing requests takes no more cores than there are seats

	mu       sync.Mutex
	conns    map[*conn]struct{}
	draining bool
	stats    Stats
	writeErr error
}

// Start listens and records until Close.
func Start(cfg Config) (*Proxy, error) {
	u, err := url.Parse(cfg.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("upstream %q: want http://host:port or https://host", cfg.Upstream)
	}
	if cfg.Block < 1 {
		return nil, fmt.Errorf("a block of %d tokens: at least 1 is needed", cfg.Block)
	}
	p := &Proxy{cfg: cfg, upstream: u, conns: map[*conn]struct{}{}, seats: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	if p.salt, err = newSalt(cfg.Salt); err != nil {
		return nil, err
	}
	if p.words, err = newWords(cfg.Tokenizer); err != nil {
		return nil, err
	}
	if p.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	if p.file, err = create(cfg.Path, cfg.Overwrite); err != nil {
		return nil, errors.Join(err, p.listener.Close())
	}
	p.began = time.Now()
	p.accepting.Go(p.accept)
	return p, nil
}

// URL is where clients reach it.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Stats counts.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// now is the time since the recording began.
func (p *Proxy) now() time.Duration { return time.Since(p.began) }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, for instance: those in use will be given back
			time.Sleep(5 * time.Millisecond)
			continue
		}
		c := &conn{proxy: p, client: client}
		p.mu.Lock()
		if p.draining {
			p.mu.Unlock()
			_ = client.Close() // came with the last look at the listener
			return
		}
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		p.serving.Go(func() {
			c.serve()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

// Drain takes no new connections, closes those that carry nothing, and waits for the others to finish the
// requests they carry. When ctx ends first, they are cut off; their requests are recorded as such.
func (p *Proxy) Drain(ctx context.Context) {
	err := p.listener.Close()
	p.accepting.Wait()
	p.mu.Lock()
	p.draining = true
	conns := p.open()
	p.mu.Unlock()
	for _, c := range conns {
		c.endWhenIdle()
	}
	cut := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		conns := p.open()
		p.mu.Unlock()
		for _, c := range conns {
			c.cut()
		}
	})
	defer cut()
	p.serving.Wait()
	p.writing.Wait()
	p.note(err)
}

// open lists the connections; mu is held.
func (p *Proxy) open() []*conn {
	out := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		out = append(out, c)
	}
	return out
}

func (p *Proxy) isDraining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// Close ends the recording: what is in flight is cut off unless Drain waited for it, and the lines of the
// trace, which were written as requests ended, are put in the order in which they came.
func (p *Proxy) Close() error {
	ended, end := context.WithCancel(context.Background())
	end()
	p.Drain(ended)
	p.mu.Lock()
	err := p.writeErr
	p.mu.Unlock()
	if err = errors.Join(err, p.file.close()); err != nil {
		return err
	}
	_, err = Sort(p.cfg.Path)
	return err
}

// finish describes a request that ended, away from the connections, and writes it down.
func (p *Proxy) finish(x *exchange) {
	p.writing.Go(func() {
		p.seats <- struct{}{}
		defer func() { <-p.seats }()
		line, asked := p.describe(x)
		if !asked && !p.cfg.All {
			p.mu.Lock()
			p.stats.Others++
			p.mu.Unlock()
			return
		}
		err := p.file.append(&line)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stats.Requests++
		if line.Fate != fateOK || line.Status/100 != 2 {
			p.stats.Failed++
		}
		p.stats.In += int64(line.Input)
		p.stats.Out += int64(line.Output)
		if err != nil && p.writeErr == nil {
			p.writeErr = err
		}
	})
}

func (p *Proxy) note(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeErr = errors.Join(p.writeErr, err)
}

// Err is the first error of writing the trace; requests are still passed on.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writeErr
}

// dial opens a connection to the server.
func (p *Proxy) dial() (net.Conn, error) {
	addr := p.upstream.Host
	if p.upstream.Port() == "" {
		addr = net.JoinHostPort(p.upstream.Hostname(), map[string]string{"http": "80", "https": "443"}[p.upstream.Scheme])
	}
	d := &net.Dialer{Timeout: 30 * time.Second}
	if p.upstream.Scheme == "http" {
		return d.Dial("tcp", addr)
	}
	cfg := p.cfg.TLS.Clone()
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = p.upstream.Hostname()
	}
	cfg.NextProtos = []string{"http/1.1"}
	return tls.DialWithDialer(d, "tcp", addr, cfg)
}
