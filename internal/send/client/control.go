package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Control asks a server about itself, outside the measured traffic. Everything that is not the load goes through it:
// it has the run's TLS settings and follows no redirect, so that headers stay with the server they are for.
type Control struct {
	http    *http.Client
	away    *http.Client // for other servers than the load's
	base    string
	head    http.Header
	content bool // /tokenize calls a text content
	scrub   *strings.Replacer
}

// controlFor bounds a question with its answer. Who asks may bound it further.
const controlFor = 60 * time.Second

// withinTimeout is a limit of what is done beside the load. It is never above that of a request, where there is one: who
// waits so long for an answer waits no longer for anything else.
func withinTimeout(limit, request time.Duration) time.Duration {
	if request > 0 {
		return min(limit, request)
	}
	return limit
}

// NewControl makes a control client for the first base URL.
func NewControl(cfg Config) (*Control, error) {
	plain := cfg
	plain.HTTP2 = false
	h, err := newStd(&plain)
	if err != nil {
		return nil, err
	}
	if len(cfg.BaseURLs) == 0 {
		return nil, errors.New("no base URL to ask")
	}
	plain.Unix = ""
	away, err := newStd(&plain)
	if err != nil {
		return nil, err
	}
	h.Timeout = withinTimeout(controlFor, cfg.Timeout)
	away.Timeout = h.Timeout
	c := &Control{http: h, away: away, base: strings.TrimRight(cfg.BaseURLs[0], "/"), head: cfg.Header, scrub: scrubber(cfg.Secrets)}
	if cfg.Backend != nil {
		c.content = cfg.Backend.Content
	}
	return c, nil
}

// Close ends the connections of the control client.
func (c *Control) Close() {
	c.http.CloseIdleConnections()
	c.away.CloseIdleConnections()
}

// Elsewhere sends a request to another server than the load's, such as an exporter of GPU figures: with the run's TLS
// settings, but without the user's headers, which are none of its business.
func (c *Control) Elsewhere(req *http.Request) (*http.Response, error) { return c.away.Do(req) }

// Do sends any request with the control client's transport and the user's headers; it serves as the
// hand of package probe.
func (c *Control) Do(req *http.Request) (*http.Response, error) {
	setHeaders(req, c.head)
	return c.http.Do(req)
}

// maxControl bounds what is read of an answer beside the load: the ids of a million tokens are half of it.
const maxControl = 16 << 20

// StatusError is an answer other than 200.
type StatusError struct {
	Path   string
	Status int
	Body   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered HTTP %d %s: %s", e.Path, e.Status, http.StatusText(e.Status), e.Body)
}

// Post sends a JSON body to a path below the base URL.
func (c *Control) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, errors.New(c.scrub.Replace(err.Error()))
	}
	defer func() { _ = resp.Body.Close() }()
	limit := int64(maxErrBody)
	if resp.StatusCode == http.StatusOK {
		limit = maxControl + 1
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case resp.StatusCode != http.StatusOK:
		return nil, &StatusError{Path: path, Status: resp.StatusCode, Body: c.scrub.Replace(oneLine(b))}
	case len(b) > maxControl:
		return nil, fmt.Errorf("%s answered more than %d bytes", path, maxControl)
	}
	return b, nil
}

// Tokenize asks the server for a text's token ids.
func (c *Control) Tokenize(ctx context.Context, model, text string, special bool) ([]int32, error) {
	fields := map[string]any{"model": model, "prompt": text, "add_special_tokens": special}
	if c.content {
		fields = map[string]any{"content": text, "add_special": special}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode /tokenize: %w", err)
	}
	b, err := c.Post(ctx, "/tokenize", body)
	if err != nil {
		return nil, err
	}
	var out struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("read /tokenize: %w", err)
	}
	if len(out.Tokens) == 0 && text != "" {
		return nil, errors.New("/tokenize answered in another form: it names no token")
	}
	return out.Tokens, nil
}

// Detokenize asks the server for the text of token ids.
func (c *Control) Detokenize(ctx context.Context, model string, ids []int32) (string, error) {
	body, err := json.Marshal(map[string]any{"model": model, "tokens": ids})
	if err != nil {
		return "", fmt.Errorf("encode /detokenize: %w", err)
	}
	b, err := c.Post(ctx, "/detokenize", body)
	if err != nil {
		return "", err
	}
	var out struct {
		Prompt  string `json:"prompt"`
		Content string `json:"content"` // llama.cpp
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return "", fmt.Errorf("read /detokenize: %w", err)
	}
	return out.Prompt + out.Content, nil
}

// ResetPrefixCache empties the server's prefix cache. A server that still holds blocks answers
// success=false with HTTP 200, so it is asked again for a while.
func (c *Control) ResetPrefixCache(ctx context.Context) error {
	for try := 0; ; try++ {
		b, err := c.Post(ctx, "/reset_prefix_cache", []byte{})
		if err != nil {
			return err
		}
		var out struct {
			Success *bool `json:"success"`
		}
		if json.Unmarshal(b, &out) != nil || out.Success == nil || *out.Success {
			return nil
		}
		if try == 20 {
			return errors.New("the server did not reset its prefix cache: blocks are still held")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}
