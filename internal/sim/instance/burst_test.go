package instance

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
)

// TestBursts: steps that give tokens to hundreds of streams are shared among threads; every stream
// gets all its events, in order, also when some clients leave in the middle.
func TestBursts(t *testing.T) {
	const streams, tokens = 300, 40
	in, err := Build(Options{Scale: 20, Settings: settings(func(s *engineconf.Settings) { s.Model, s.GPU = "Qwen3-0.6B", "H100" })})
	if err != nil {
		t.Fatal(err)
	}
	in.Serve.Truth = true
	srv, err := serve.Start(t.Context(), in.Serve)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: streams}
	client := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			if err := readStream(t, client, srv.URL(), i, tokens); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tr.CloseIdleConnections()
	if err := srv.Stop(); err != nil {
		t.Error(err)
	}
	ok := 0
	for _, tr := range srv.Truth().All() {
		if tr.Status != "ok" {
			continue
		}
		ok++
		n := int32(0)
		for k, e := range tr.Events {
			n += e.Tokens
			if k > 0 && (e.At < tr.Events[k-1].At || e.Due < tr.Events[k-1].Due) {
				t.Errorf("request %d: event %d before its predecessor", tr.Index, k)
			}
		}
		if n != tokens {
			t.Errorf("request %d: %d tokens", tr.Index, n)
		}
	}
	if want := streams - streams/10; ok < want { // some who leave had all of it written already
		t.Errorf("%d streams to the end, want at least %d", ok, want)
	}
	if st := in.Engine.State(); st.Running+st.Waiting != 0 || st.CacheBlocks != 0 {
		t.Errorf("left over: %+v", st)
	}
}

// readStream reads one answer; every tenth client leaves after the fifth event.
func readStream(t *testing.T, client *http.Client, url string, i, tokens int) error {
	body := fmt.Sprintf(`{"prompt":"number %d","max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, i, tokens)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // some leave early on purpose
	n := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "data: {") {
			continue
		}
		n++
		if n <= tokens && !strings.Contains(lines.Text(), fmt.Sprintf(`"completion_tokens":%d`, n)) {
			return fmt.Errorf("stream %d: event %d is %s", i, n, lines.Text())
		}
		if i%10 == 9 && n == 5 {
			return nil
		}
	}
	if n != tokens+1 {
		return fmt.Errorf("stream %d: %d events, want %d and usage", i, n, tokens)
	}
	return lines.Err()
}
