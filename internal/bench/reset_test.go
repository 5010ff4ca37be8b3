package bench

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"spate/internal/settings/config"
)

// resetting are settings of a run against a server, with a key and a header.
func resetting(base string) *config.Bench {
	b := &config.Bench{}
	b.Target.Backend, b.Target.BaseURLs, b.Target.APIKey = "openai", []string{base}, "k"
	b.Target.Headers = []config.Header{{Name: "X-A", Value: "b"}}
	return b
}

func noEnv(string) string { return "" }

func TestResetCache(t *testing.T) {
	for _, c := range []struct{ name, knows, err string }{
		{"vllm", "/reset_prefix_cache", ""},
		{"sglang", "/flush_cache", ""},
		{"neither", "/none", "does not reset its prefix cache (HTTP 404)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := ""
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked += r.Method + r.URL.Path + r.Header.Get("Authorization") + r.Header.Get("X-A") + " "
				if r.URL.Path != c.knows {
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer srv.Close()
			err := ResetCache(context.Background(), resetting(srv.URL), noEnv)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if !strings.HasPrefix(asked, "POST/reset_prefix_cacheBearer kb ") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

// TestResetTakesNoHeaderElsewhere holds that a server cannot send the user's headers to another one.
func TestResetTakesNoHeaderElsewhere(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		if err := ResetCache(context.Background(), resetting(srv.URL), noEnv); err == nil {
			t.Errorf("HTTP %d: a redirect was taken for success", status)
		}
		srv.Close()
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// TestResetTrustsWhomTheRunTrusts holds that --ca-cert and --insecure are for every question, not only for the load.
func TestResetTrustsWhomTheRunTrusts(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	srv.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	b := resetting(srv.URL)
	if err := ResetCache(context.Background(), b, noEnv); err == nil {
		t.Error("an unknown certificate was trusted")
	}
	b.Target.CACert = file
	if err := ResetCache(context.Background(), b, noEnv); err != nil {
		t.Errorf("with the certificate: %v", err)
	}
	b.Target.CACert, b.Target.Insecure = "", true
	if err := ResetCache(context.Background(), b, noEnv); err != nil {
		t.Errorf("without checking: %v", err)
	}
}
