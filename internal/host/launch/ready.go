package launch

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// askEvery is the time between two questions whether a server is ready.
const askEvery = 100 * time.Millisecond

var errNotReady = errors.New("the server is not ready")

// ready waits until every path answers, the server ends, or time is up.
func (s *Server) ready(ctx context.Context) error {
	limit := time.NewTimer(s.spec.Ready)
	defer limit.Stop()
	for {
		if s.answers(ctx) {
			return nil
		}
		select {
		case <-s.first:
			return fmt.Errorf("the server ended before it was ready (%s)", s.how())
		case <-limit.C:
			return fmt.Errorf("%w: not within %v", errNotReady, s.spec.Ready)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(askEvery):
		}
	}
}

// answers asks each path once. Where a list of models is asked for, one must be in it; a server that wants a
// key for it is taken at its word.
func (s *Server) answers(ctx context.Context) bool {
	for _, path := range s.spec.Paths {
		status, body, err := get(ctx, s.URL+path)
		switch {
		case err != nil || status >= 500:
			return false
		case status == http.StatusUnauthorized || !strings.HasSuffix(path, "/models"):
			if status != http.StatusUnauthorized && status >= 400 {
				return false
			}
			continue
		}
		var list struct {
			Data []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 {
			return false
		}
	}
	return true
}

// asking follows no redirect: a server that sends elsewhere is not the one that was started. It carries no header, and
// whether a certificate is good is the run's question, not whether the server is up.
var asking = &http.Client{
	Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // nothing is sent, and only the status is read
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func get(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", url, err)
	}
	req.Close = true // a kept connection would hold the port
	resp, err := asking.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, nil, nil // the rest is a bare connection, whose reads no timeout ends
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", url, err)
	}
	return resp.StatusCode, body, nil
}

// Ports for servers lie below those that systems give to outgoing connections: a run opens thousands of these,
// and one of them could sit on the port of the next server.
const (
	firstPort = 20000
	ports     = 12000
)

// nextPort is where to look for a port, so that servers started at the same time do not meet.
var nextPort atomic.Uint32

// FreePort is a port nothing listens on now. It is another one each time.
func FreePort() (int, error) {
	from := uint32(os.Getpid()) * 61
	var err error
	for range ports {
		port := firstPort + int((from+nextPort.Add(1))%ports)
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// portFree is an error when something listens where a server is about to.
func portFree(ctx context.Context, base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%q is not the URL of a server", base)
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)))
	if err != nil {
		return nil // refused: free
	}
	self := conn.LocalAddr().String() == conn.RemoteAddr().String()
	_ = conn.Close() // nothing was written
	if self {
		return nil // the connection met itself: nobody else is there
	}
	return fmt.Errorf("something answers at %s already: end it, or give the server another port", base)
}

// released waits until the port of a server that has ended is free.
func released(ctx context.Context, base string) error {
	ctx = context.WithoutCancel(ctx)
	if err := patiently(ctx, 10*time.Second, func() error { return portFree(ctx, base) }); err != nil {
		return fmt.Errorf("the server has ended, but its port is still taken by something else: %w", err)
	}
	return nil
}
