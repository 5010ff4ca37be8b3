package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary run a server instead: its value is a Config as JSON. With stepEnv all its
// streams move together, this far apart.
const (
	childEnv = "SPATE_SERVE_CHILD"
	stepEnv  = "SPATE_SERVE_STEP"
)

// runChild serves until standard input closes.
func runChild(config string) int {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return 2
	}
	if step, err := time.ParseDuration(os.Getenv(stepEnv)); err == nil {
		cfg.Engine = &inStep{Timetable: NewTimetable(TimetableConfig{}), every: int64(step)}
	} else {
		runtime.GOMAXPROCS(2 * runtime.NumCPU())
	}
	s, err := Start(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent is done
	if err := s.Stop(); err != nil {
		return 1
	}
	return 0
}

// child is a server in a process of its own, so that its CPU can be told from the reader's.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startChild(b *testing.B, cfg Config, env ...string) *child {
	b.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+string(config)), env...)
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
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &child{cmd: cmd, stdin: in, addr: strings.TrimSpace(addr)}
}

// stop ends the server and returns the CPU time it used.
func (c *child) stop(b *testing.B) time.Duration {
	b.Helper()
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		b.Error(err)
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}

func (c *child) stats(b *testing.B) Stats {
	b.Helper()
	resp, err := http.Get("http://" + c.addr + "/sim/stats")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var st Stats
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		b.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return st
}

// drink opens one stream on a bare connection and reads it to its end, counting events.
func drink(addr string, tokens int) (int, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = nc.Close() }()
	if err := nc.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return 0, err
	}
	body := fmt.Sprintf(`{"prompt":"a b c","max_tokens":%d,"stream":true}`, tokens)
	if _, err := fmt.Fprintf(nc, "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s", len(body), body); err != nil {
		return 0, err
	}
	const keep = 4 // bytes carried over, so that a mark cut in two is still seen
	buf := make([]byte, keep+16<<10)
	events := 0
	for {
		n, err := nc.Read(buf[keep:])
		events += bytes.Count(buf[keep-1:keep+n], []byte("\n\n"))
		if bytes.HasSuffix(buf[:keep+n], []byte("0\r\n\r\n")) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		copy(buf, buf[n:keep+n])
	}
}

// BenchmarkStreams runs the server in a process of its own and reads from it with bare
// connections: the figures are the server's CPU per event and how late its events were.
func BenchmarkStreams(b *testing.B) {
	for _, streams := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			for b.Loop() {
				tokens := 200
				itl := 10 * time.Millisecond * time.Duration(max(streams/1000, 1))
				c := startChild(b, Config{Timetable: TimetableConfig{TTFT: 500 * time.Millisecond, ITL: itl, TTFTSpread: itl}})
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						if n, err := drink(c.addr, tokens); err != nil || n != tokens+1 {
							b.Errorf("%d events, %v", n, err)
						}
					})
				}
				wg.Wait()
				st := c.stats(b)
				cpu := c.stop(b)
				events := float64(streams * (tokens + 1))
				b.ReportMetric(float64(cpu.Microseconds())/events, "cpu-us/event")
				b.ReportMetric(float64(st.Lateness.P50.Microseconds()), "late-p50-us")
				b.ReportMetric(float64(st.Lateness.P99.Microseconds()), "late-p99-us")
				b.ReportMetric(float64(st.Lateness.Max.Microseconds()), "late-max-us")
				b.ReportMetric(float64(st.Jams), "jams")
			}
		})
	}
}

// inStep is an engine that gives all its streams their tokens at one moment, as a batch does.
type inStep struct {
	*Timetable // for what nobody asks it

	every, due int64
	live       []place
}

// place is a request in the batch.
type place struct {
	req  *Request
	out  Stream
	left int
}

func (e *inStep) Burst() int { return len(e.live) }

func (e *inStep) Submit(now int64, req *Request, out Stream) {
	if len(e.live) == 0 {
		e.due = now + e.every
	}
	e.live = append(e.live, place{req, out, req.MaxTokens})
}

func (e *inStep) Abort(_ int64, req *Request) {
	e.live = slices.DeleteFunc(e.live, func(p place) bool { return p.req == req })
}

func (e *inStep) Next() int64 {
	if len(e.live) == 0 {
		return Never
	}
	return e.due
}

func (e *inStep) Advance(now int64) {
	for e.Next() <= now {
		for i := range e.live {
			p := &e.live[i]
			p.left--
			o := Output{Due: e.due, Tokens: 1}
			if p.left == 0 {
				o.Finish = FinishLength
			}
			p.out.Emit(o)
		}
		e.live = slices.DeleteFunc(e.live, func(p place) bool { return p.left == 0 })
		e.due += e.every
	}
}

// BenchmarkInStep reads a thousand streams of 100 tokens/s that move in step, with new requests in the
// place of those that end. The figures are how late the server met its deadlines, how late tokens were
// written, all of a step being due at one moment, and how long requests waited for the engine.
func BenchmarkInStep(b *testing.B) {
	const streams, rounds = 1000, 4
	for b.Loop() {
		c := startChild(b, Config{MaxModelLen: 1 << 20}, stepEnv+"=10ms")
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				for k := range rounds {
					tokens := 120 + (i*7+k*131)%360
					if n, err := drink(c.addr, tokens); err != nil || n != tokens+1 {
						b.Errorf("%d events, %v", n, err)
						return
					}
				}
			})
		}
		wg.Wait()
		st := c.stats(b)
		c.stop(b)
		for _, f := range []struct {
			name string
			l    Lateness
		}{{"lag", st.Lag}, {"written", st.Lateness}, {"entry", st.Entry}} {
			b.ReportMetric(float64(f.l.P50.Microseconds()), f.name+"-p50-us")
			b.ReportMetric(float64(f.l.P99.Microseconds()), f.name+"-p99-us")
		}
	}
}

// BenchmarkFlood reads streams written as fast as the sockets take them.
func BenchmarkFlood(b *testing.B) {
	const streams, tokens = 16, 20000
	for b.Loop() {
		c := startChild(b, Config{Script: &Script{Rules: []Rule{{Probability: 1, Faults: []Fault{{Kind: FaultFlood}}}}}})
		began := time.Now()
		var wg sync.WaitGroup
		for range streams {
			wg.Go(func() {
				if n, err := drink(c.addr, tokens); err != nil || n != tokens+1 {
					b.Errorf("%d events, %v", n, err)
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		cpu := c.stop(b)
		b.ReportMetric(float64(streams*tokens)/took.Seconds(), "events/s")
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(streams*tokens), "cpu-ns/event")
	}
}

// nowhere is a wire that takes everything at once.
type nowhere struct{ conn }

func (*nowhere) sendNow(b []byte) (int, error) { return len(b), nil }
func (*nowhere) kill(bool)                     {}

// BenchmarkEmit is the pacer's own work per event, without the system call: engine, rendering,
// stamps and counters, for a thousand streams.
func BenchmarkEmit(b *testing.B) {
	s, err := newServer(Config{Stamp: true})
	if err != nil {
		b.Fatal(err)
	}
	e := NewTimetable(TimetableConfig{ITL: time.Millisecond})
	for range 1000 {
		st := s.open(&genCall{stream: true, model: "m", promptTokens: 1, maxTokens: 1 << 40}, "", 0)
		st.wire, st.direct, st.chunked = &nowhere{}, true, true
		e.Submit(0, st.req, st)
	}
	b.ReportAllocs()
	start := s.metrics.generated.Load()
	for b.Loop() {
		e.Advance(e.Next())
	}
	events := s.metrics.generated.Load() - start
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// raiseFiles lets a test hold thousands of connections.
func raiseFiles() {
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) == nil {
		lim.Cur = lim.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim) // tests that need more say so when they run out
	}
}
