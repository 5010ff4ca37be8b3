package wall

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/latency"
	"spate/internal/sim/serve"
)

// childEnv makes the test binary run a server instead of tests.
const childEnv = "SPATE_WALL_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

// runChild serves an engine with steps of ten milliseconds until standard input closes.
func runChild() int {
	cfg := single(v1(func(c *sim.Config) { c.MaxSeqs, c.MaxTokens, c.Blocks = 4096, 8192, 1<<18 }))
	cfg.Cluster.Engines[0].Model = &latency.Reference{StepNS: 1e7}
	e, err := New(cfg)
	if err != nil {
		return 2
	}
	s, err := serve.Start(context.Background(), serve.Config{Engine: e, MaxModelLen: 1 << 20})
	if err != nil {
		return 1
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent is done
	if s.Stop() != nil {
		return 1
	}
	return 0
}

// BenchmarkInStep reads a thousand streams of 100 tokens/s that one engine moves in step, with new
// requests in the place of those that end. The server has a process of its own. The figures are how
// late it met its deadlines, and how late tokens were written, all of a step being due at one moment.
func BenchmarkInStep(b *testing.B) {
	const streams, rounds = 1000, 4
	for b.Loop() {
		addr, stop := startChild(b)
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				for k := range rounds {
					if err := drink(addr, 120+(i*7+k*131)%360); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		st := stats(b, addr)
		stop()
		for _, f := range []struct {
			name string
			l    serve.Lateness
		}{{"lag", st.Lag}, {"written", st.Lateness}, {"entry", st.Entry}} {
			b.ReportMetric(float64(f.l.P50.Microseconds()), f.name+"-p50-us")
			b.ReportMetric(float64(f.l.P99.Microseconds()), f.name+"-p99-us")
		}
	}
}

// startChild starts the server and returns its address and how to stop it.
func startChild(b *testing.B) (addr string, stop func()) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(addr), func() {
		_ = in.Close() // the child ends with it
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}

// drink reads one answer to its end.
func drink(addr string, tokens int) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	if err := nc.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	body := fmt.Sprintf(`{"prompt":"a b c","max_tokens":%d,"stream":true}`, tokens)
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s", len(body), body); err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, nc)
	if err == nil && n < int64(100*tokens) {
		return fmt.Errorf("%d bytes for %d tokens", n, tokens)
	}
	return err
}

func stats(b *testing.B, addr string) serve.Stats {
	b.Helper()
	resp, err := http.Get("http://" + addr + "/sim/stats")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var st serve.Stats
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		b.Fatal(err)
	}
	return st
}
