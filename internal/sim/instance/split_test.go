package instance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
)

// small is a model whose KV is large beside its step times, so that links matter.
func small(s *engineconf.Settings) { s.Model, s.GPU = "Qwen3-8B", "H100" }

// fire sends prompts of about n tokens at once and returns status and body of each.
func fire(t *testing.T, srv *serve.Server, count, n int) (codes map[int]int, bodies []string) {
	t.Helper()
	codes, bodies = map[int]int{}, make([]string, count)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			prompt := fmt.Sprintf("%d ", i) + strings.Repeat("word ", n)
			status, body := curl(t, srv.URL()+"/v1/completions", `{"prompt":"`+prompt+`","max_tokens":4,"ignore_eos":true}`)
			mu.Lock()
			defer mu.Unlock()
			codes[status]++
			bodies[i] = body
		})
	}
	wg.Wait()
	return codes, bodies
}

// TestSplitOverHTTP: a request passes a prefill and a decode engine, and its first token is due as
// much later as the link is slower. Deadlines are compared, which a busy machine does not move.
func TestSplitOverHTTP(t *testing.T) {
	ttft := map[string]time.Duration{}
	tokens := 0
	for _, link := range []string{"", "rdma2", "rdma1", "tcp"} {
		o := Options{Settings: settings(small)}
		if link != "" {
			o.Split = Split{Prefill: 1, Decode: 1, Link: link}
		}
		in, err := Build(o)
		if err != nil {
			t.Fatal(err)
		}
		in.Serve.Truth = true
		truth, page := firstOf(t, in)
		ttft[link], tokens = time.Duration(truth.Events[0].Due-truth.Arrived), truth.Prompt
		if link == "" {
			continue
		}
		if got := metric(t, page, "spate:sim_kv_transfers_total"); got != 1 {
			t.Errorf("%s: %v transfers", link, got)
		}
		if !strings.Contains(in.Title, "prefill engines: 1, decode engines: 1") || len(in.Engine.States()) != 2 {
			t.Errorf("%s, %d engines", in.Title, len(in.Engine.States()))
		}
	}
	if ttft["rdma2"] < ttft[""]+10*time.Millisecond {
		t.Errorf("TTFT: %v", ttft)
	}
	// 36 layers of 8 heads of 128 numbers, twice, 16 bit: bytes per nanosecond are GB/s.
	kv, blocks := float64(36*8*128*2*2*tokens), float64((tokens+15)/16)
	for _, c := range []struct {
		fast, slow string
		want       float64
	}{
		{"rdma2", "rdma1", kv/10 - kv/20},
		{"rdma1", "tcp", kv/2.5 - kv/10 + (5e6 - 1e6) + blocks*36*(4e3-1e3)},
	} {
		if d := float64(ttft[c.slow]-ttft[c.fast]) - c.want; d < -10 || d > 10 {
			t.Errorf("%s comes %v after %s, want %v", c.slow, ttft[c.slow]-ttft[c.fast], c.fast, time.Duration(c.want))
		}
	}
}

// firstOf starts a server, has it answer one long prompt, and returns what happened, with its metrics.
func firstOf(t *testing.T, in *Instance) (*serve.Truth, string) {
	t.Helper()
	srv, err := serve.Start(t.Context(), in.Serve)
	if err != nil {
		t.Fatal(err)
	}
	status, body := curl(t, srv.URL()+"/v1/completions", `{"prompt":"`+strings.Repeat("word ", 2000)+`","max_tokens":3,"stream":true}`)
	_, page := curl(t, srv.URL()+"/metrics", "")
	if err := srv.Stop(); err != nil {
		t.Fatal(err)
	}
	all := srv.Truth().All()
	if status != 200 || len(all) != 1 || len(all[0].Events) == 0 {
		t.Fatalf("%d %.200s, %d requests", status, body, len(all))
	}
	return all[0], page
}

// TestLostTransfersOverHTTP: transfers are lost by order while the server runs, and no longer by
// another; what becomes of the requests is the policy's.
func TestLostTransfersOverHTTP(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  string
		version string
		status  int
	}{
		{"recompute", Recompute, "", 200},
		{"fail", Fail, "", 500},
		{"old engine recomputes", Recompute, "0.6.2", 200},
		{"old engine fails", Fail, "0.6.2", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, srv := run(t, Options{
				Scale: 10, Split: Split{Prefill: 1, Decode: 2, OnLoss: c.policy, Retries: 1},
				Settings: settings(func(s *engineconf.Settings) {
					s.Model, s.GPU, s.Version, s.MaxModelLen = "Qwen2-7B-Instruct", "A100-80GB", c.version, 8192
				}),
			})
			if codes, _ := fire(t, srv, 3, 100); codes[200] != 3 {
				t.Fatalf("before: %v", codes)
			}
			if status, body := curl(t, srv.URL()+"/sim/engine", `{"action":"lose","rate":1}`); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			codes, bodies := fire(t, srv, 5, 100)
			if codes[c.status] != 5 || c.status == 500 && !strings.Contains(bodies[0], "the KV transfer failed") {
				t.Errorf("all transfers lost: %v, %s", codes, bodies[0])
			}
			_, page := curl(t, srv.URL()+"/metrics", "")
			if moved, lost := metric(t, page, "spate:sim_kv_transfers_total"), metric(t, page, "spate:sim_kv_transfers_lost_total"); moved != 3 || lost != 10 {
				t.Errorf("%v transfers, %v lost, want 3 and 10: each is tried twice", moved, lost)
			}
			if status, _ := curl(t, srv.URL()+"/sim/engine", `{"action":"lose","rate":0}`); status != 200 {
				t.Error("the loss cannot be ended")
			}
			if codes, _ := fire(t, srv, 3, 100); codes[200] != 3 {
				t.Errorf("after: %v", codes)
			}
			if status, _ := curl(t, srv.URL()+"/sim/engine", `{"action":"lose","rate":2}`); status != 400 {
				t.Error("a share of 2 is accepted")
			}
		})
	}
	_, plain := run(t, Options{})
	if status, body := curl(t, plain.URL()+"/sim/engine", `{"action":"lose","rate":1}`); status != 400 || !strings.Contains(body, "no transfers to lose") {
		t.Errorf("%d %s", status, body)
	}
}

// TestShippedSplit: the measured prefill/decode servers that ship run on the clock, with flags for
// more engines and for losses.
func TestShippedSplit(t *testing.T) {
	list, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range list {
		if p.Cost.Disagg == nil {
			continue
		}
		n++
		before := *p.Cost.Disagg
		in, srv := run(t, Options{Profile: p.Name, Base: FromProfile(p, 1), Scale: 20, Split: Split{Prefill: 2, Loss: 0.5, OnLoss: Fail}})
		if got := in.Engine.States(); len(got) != 3 {
			t.Errorf("%s: %d engines", p.Name, len(got))
		}
		if codes, _ := fire(t, srv, 12, 50); codes[200]+codes[500] != 12 || codes[200] == 0 || codes[500] == 0 {
			t.Errorf("%s: %v with every second transfer lost", p.Name, codes)
		}
		if fmt.Sprint(before) != fmt.Sprint(*p.Cost.Disagg) {
			t.Errorf("%s: the profile itself was changed", p.Name)
		}
	}
	if n == 0 {
		t.Error("no profile with separate engines ships")
	}
}

// TestAbortSplit: clients that leave during prompt, transfer or answer leave nothing behind.
func TestAbortSplit(t *testing.T) {
	in, srv := run(t, Options{Settings: settings(small), Split: Split{Prefill: 1, Link: "tcp"}})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+15*i)*time.Millisecond)
			defer cancel()
			leave(ctx, t, srv, `{"prompt":"`+strings.Repeat("word ", 1000)+`","max_tokens":1000,"stream":true}`)
		})
	}
	wg.Wait()
	await(t, "nothing is left in the engines", func() bool {
		left := 0
		srv.Do(func(serve.Engine) {
			left = in.Engine.Burst()
			for _, st := range in.Engine.States() {
				left += st.Running + st.Waiting + st.Total - st.Free
			}
		})
		return left == 0 && srv.Stats().Active == 0
	})
}

// leave sends a long request and goes away with its context.
func leave(ctx context.Context, t *testing.T, srv *serve.Server, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return // gone before the headers
	}
	_, _ = io.Copy(io.Discard, resp.Body) // ends with the context
	_ = resp.Body.Close()                 // of a connection that is already cut
}
