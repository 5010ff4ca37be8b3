package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/host/probe"
	"spate/internal/result"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
	"spate/internal/send/client"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
	"spate/internal/view/live"
)

// target is the server to measure and how it is spoken to.
type target struct {
	client  client.Config
	backend string
	model   string // id, as vLLM's model_id
	served  string // what requests call it
	root    string // where its tokenizer may lie
	info    probe.Server
}

func newTarget(c *config.Bench, getenv func(string) string) (*target, error) {
	b, err := protocol.Lookup(string(c.Target.Backend))
	if err != nil {
		return nil, err
	}
	t := &target{backend: string(c.Target.Backend), model: c.Model.ID, served: c.Model.ServedName}
	t.client = client.Config{
		Backend: b, BaseURLs: c.Target.URLs(), Endpoint: c.Target.Endpoint, Unix: c.Target.UnixSocket,
		Header: http.Header{}, InBand: c.Client.Connect == config.ConnectInBand, Timeout: c.Client.RequestTimeout, Idle: c.Client.IdleTimeout, MaxBytes: c.Client.MaxResponse,
		HTTP2: c.Client.HTTPVersion == config.HTTP2, Sticky: c.Target.Route == config.Sticky,
		Std: c.Client.HTTPClient == config.ClientStd,
		Body: protocol.Body{
			IgnoreEOS: c.Body.IgnoreEOS, Logprobs: c.Body.Logprobs, Continuous: c.Body.ContinuousUsage,
			Sampling: c.Body.Sampling(), Extra: c.Body.Extra,
		},
	}
	if c.Load.MaxConcurrency != nil {
		t.client.MaxConns = *c.Load.MaxConcurrency
	}
	t.client.Secrets = c.Secrets()
	t.setHeaders(&c.Target)
	if t.client.TLS, err = tlsConfig(&c.Target); err != nil {
		return nil, err
	}
	if c.Client.HTTPClient == config.ClientAuto && proxied(t.client.BaseURLs, c.Target.UnixSocket, getenv) {
		t.client.Std = true // only net/http speaks to proxies
	}
	return t, nil
}

// setHeaders adds the key and the user's headers; theirs win.
func (t *target) setHeaders(c *config.Target) {
	if own := t.client.Backend.Header; own[0] != "" {
		t.client.Header.Set(own[0], own[1]) // what is asked beside the load needs it too
	}
	if key := c.APIKey.Reveal(); key != "" {
		if name := t.client.Backend.Key; name != "" {
			t.client.Header.Set(name, key)
		} else {
			t.client.Header.Set("Authorization", "Bearer "+key)
		}
	}
	for _, h := range c.Headers {
		t.client.Header.Set(h.Name, h.Value)
	}
}

func tlsConfig(c *config.Target) (*tls.Config, error) {
	if !c.Insecure && c.CACert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure} //nolint:gosec // --insecure asks for it
	if c.CACert == "" {
		return t, nil
	}
	pem, err := infile.ReadFile(c.CACert, infile.MaxSettings)
	if err != nil {
		return nil, fmt.Errorf("read --ca-cert: %w", err)
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--ca-cert %s holds no PEM certificate", c.CACert)
	}
	return t, nil
}

// proxied reports whether the environment sends any of the URLs through a proxy.
func proxied(urls []string, unix string, getenv func(string) string) bool {
	if unix != "" {
		return false
	}
	set := false
	for _, n := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		set = set || getenv(n) != ""
	}
	if !set {
		return false
	}
	for _, u := range urls {
		req, err := http.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			continue
		}
		if p, err := http.ProxyFromEnvironment(req); err == nil && p != nil {
			return true
		}
	}
	return false
}

// discover asks the server who it is and which model it serves. Only what the settings leave open is
// needed; the rest is kept for the record.
func (t *tenant) discover(ctx context.Context) error {
	deadline := time.Now().Add(t.Config.Target.ReadyTimeout)
	for {
		var err error
		var status int
		t.target.info, status, err = t.identify(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil { // the user's word, which says nothing of the server
			return context.Cause(ctx)
		}
		answered := status != 0
		// A tenant with a wrong key fails by itself, and the others are measured.
		if answered && (status == http.StatusUnauthorized && len(t.tenants) == 1 || errors.Is(err, probe.ErrPage)) {
			return t.unreachable(err, status)
		}
		if answered && t.target.model != "" {
			break // a server without a list of models can still be measured
		}
		left := time.Until(deadline)
		if starting := !answered || status >= http.StatusInternalServerError; left <= 0 || !starting {
			return t.unreachable(err, status)
		}
		if err := t.pause(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	t.target.choose()
	t.spareHosted()
	if t.target.model == "" {
		return fmt.Errorf("%s lists no model: name it with --model", t.target.client.BaseURLs[0])
	}
	return nil
}

// pause waits, unless the run is stopped first.
func (t *tenant) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.Stop:
		return call.ErrInterrupted
	case <-time.After(d):
		return nil
	}
}

// identifyFor bounds how long a server may take to say who it is.
const identifyFor = 5 * time.Second

// identify asks the server who it is; status is that of its first answer, 0 when there was none.
func (t *tenant) identify(ctx context.Context) (info probe.Server, status int, err error) {
	asking, cancel := context.WithTimeoutCause(ctx, identifyFor, fmt.Errorf("no answer in %v", identifyFor))
	defer cancel()
	do := func(r *http.Request) (*http.Response, error) {
		resp, err := t.control.Do(r)
		if err == nil && status == 0 {
			status = resp.StatusCode
		}
		return resp, err
	}
	info, err = probe.Identify(asking, do, t.target.client.BaseURLs[0], t.target.client.Header)
	if err != nil && ctx.Err() == nil && asking.Err() != nil {
		err = context.Cause(asking) // the words of net/http name nobody
	}
	return info, status, err
}

// choose settles the model's names, as vLLM does: the first listed id is what requests call the
// model, its root is what it was loaded from.
func (t *target) choose() {
	if t.model == "" && len(t.info.Models) > 0 {
		m := t.info.Models[0]
		t.model, t.root = m.ID, m.Root
		if m.Root != "" {
			t.model = m.Root
		}
		if t.served == "" {
			t.served = m.ID
		}
	}
	if t.served == "" {
		t.served = t.model
	}
	t.client.Body.Model = t.served
}

// unreachable explains a server that does not answer, with the ways on.
func (t *tenant) unreachable(err error, status int) error {
	base := t.target.client.BaseURLs[0]
	switch {
	case errors.Is(err, probe.ErrPage):
		return fmt.Errorf("ask %s for its models: %w: see --base-url, which is the address without /v1", base, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("ask %s for its models: %w: %s", base, err, t.hint(status))
	case status != 0:
		return fmt.Errorf("ask %s for its models: %w (name the model with --model to go on without the list)", base, err)
	}
	if strings.HasPrefix(base, "https://") && strings.Contains(fmt.Sprint(err), "HTTP response to HTTPS client") { // net/http has no name for it
		return fmt.Errorf("the server at %s speaks HTTP without TLS: use --base-url http://%s", base, strings.TrimPrefix(base, "https://"))
	}
	return fmt.Errorf("nothing answers at %s: %w\n"+
		"  another server: --base-url http://host:port (and --ready-check-timeout-sec N to wait for it)\n"+
		"  no server at hand: spate demo, or spate bench --sim with these flags, measures an embedded one", base, err)
}

// ready waits until the endpoint answers a request, if the user asked for that.
func (s *session) ready(ctx context.Context) error {
	if s.Part.Split() {
		return s.taught()
	}
	timeout := s.Config.Target.ReadyTimeout
	if err := s.preamble().Ready(s.Stdout); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, t := range s.tenants {
		if timeout > 0 {
			if err := t.answers(ctx, time.Now().Add(timeout)); err != nil {
				return t.err(err)
			}
		} else if err := t.learn(ctx); err != nil {
			return t.err(err)
		}
	}
	if timeout <= 0 {
		return nil
	}
	_, err := fmt.Fprintln(s.Stdout, "Initial test run completed.")
	return err
}

// answers waits until the endpoint answers the first request.
func (t *tenant) answers(ctx context.Context, deadline time.Time) error {
	const again = 5 * time.Second // as vLLM asks
	for {
		rec, err := t.try(ctx, deadline)
		if err != nil || rec.Outcome == call.OK {
			return err
		}
		if t.leaveOut(&rec) {
			continue
		}
		if err := t.refused(&rec); err != nil {
			return err
		}
		if time.Now().Add(again).After(deadline) {
			return fmt.Errorf("the endpoint is not ready within %v: %s", t.Config.Target.ReadyTimeout, rec.Err)
		}
		if err := t.pause(ctx, again); err != nil {
			return err
		}
	}
}

// errNotReady ends a readiness request that is still unanswered when the time for it is over.
var errNotReady = errors.New("a first request was not answered in that time")

// try sends the first request once. The end of the time allowed and the user's word end it.
func (t *tenant) try(ctx context.Context, deadline time.Time) (call.Record, error) {
	req, err := t.load.first(ctx)
	if err != nil {
		return call.Record{}, err
	}
	ctx, cancel := t.untilStopped(ctx)
	defer cancel()
	ctx, done := context.WithDeadlineCause(ctx, deadline, errNotReady)
	defer done()
	send := sender{t}
	if err := send.Prepare(&req); err != nil {
		return call.Record{}, fmt.Errorf("make requests: %w", err)
	}
	rec := send.Do(ctx, &req)
	if t.stopping() {
		return rec, call.ErrInterrupted
	}
	return rec, nil
}

func (s *session) preamble() *live.Preamble {
	l := &s.Config.Load
	p := &live.Preamble{
		ReadyTimeout: int(s.Config.Target.ReadyTimeout / time.Second), Warmups: l.NumWarmups,
		RequestRate: float64(l.RequestRate), Burstiness: float64(l.Burstiness), MaxConcurrency: l.MaxConcurrency,
	}
	if l.RampUp != "" {
		p.RampUp, p.RampStart, p.RampEnd = string(l.RampUp), *l.RampStart, *l.RampEnd
	}
	return p
}

// profile starts or stops the server's profiler, if the user asked for it.
func (s *session) profile(ctx context.Context, path string) {
	if !s.Config.Target.Profile {
		return
	}
	s.everyServer("--profile", func(c *client.Control) error {
		_, err := c.Post(ctx, path, []byte{})
		return err
	})
}

// everyServer does something to each of the servers requests go to, and notes which refuse.
func (s *session) everyServer(what string, do func(*client.Control) error) {
	one := s.whole.target.client
	for _, base := range one.BaseURLs {
		one.BaseURLs = []string{base}
		c, err := client.NewControl(one)
		if err == nil {
			err = do(c)
			c.Close()
		}
		if err != nil {
			s.note("%s: %s: %v", what, hostOf(base), err)
		}
	}
}

func (t *target) describe() result.Server {
	urls := make([]string, len(t.client.BaseURLs))
	for i, u := range t.client.BaseURLs {
		urls[i] = secret.Text(u)
	}
	return result.Server{URLs: urls, Backend: t.backend, Model: t.model, Kind: t.info.Engine, Version: t.info.Version}
}
