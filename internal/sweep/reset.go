package sweep

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"spate/internal/config"
)

// ResetCache asks every server of a target to forget the prompts it has seen.
func ResetCache(ctx context.Context, t *config.Target) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tr := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if t.Insecure {
		tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // --insecure asks for it
	}
	if path := t.UnixSocket; path != "" {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	client := &http.Client{Transport: tr}
	defer client.CloseIdleConnections()
	for _, base := range t.URLs() {
		if err := resetOne(ctx, client, t, base); err != nil {
			return err
		}
	}
	return nil
}

// resetOne asks one server: vLLM at one path, SGLang at another.
func resetOne(ctx context.Context, client *http.Client, t *config.Target, base string) error {
	status := 0
	for _, path := range []string{"/reset_prefix_cache", "/flush_cache"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, nil)
		if err != nil {
			return fmt.Errorf("reset the prefix cache: %w", err)
		}
		if key := t.APIKey.Reveal(); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		for _, h := range t.Headers {
			req.Header.Set(h.Name, h.Value)
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("reset the prefix cache: %w", err)
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // the status says it all
		_ = resp.Body.Close()
		if status = resp.StatusCode; status == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the server does not reset its prefix cache (HTTP %d): vLLM does with VLLM_SERVER_DEV_MODE=1, "+
		"and --cache salt needs no help from the server", status)
}
