package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spate/internal/cli"
	"spate/internal/send/proxy"
	"spate/internal/sim/serve"
)

// recorded starts `spate record` in front of a server and returns it with its URL and the file of its trace.
func recorded(t *testing.T, upstream string, args ...string) (c *command, url, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "trace.jsonl")
	c = prepare(t, nil, append([]string{"record", "--upstream", upstream, "--listen", "127.0.0.1:0", "-o", path}, args...)...)
	c.start()
	await(t, "the proxy listens", func() bool { return strings.HasSuffix(c.out.String(), "\n") })
	return c, strings.TrimSpace(c.out.String()), path
}

func traceLines(t *testing.T, path string) []proxy.Line {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []proxy.Line
	for text := range bytes.Lines(raw) {
		var l proxy.Line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, l)
	}
	return out
}

// TestRecordAndReplay measures a server through the proxy, then sends the recording again: the same requests at
// the same times, sharing what they shared.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{APIKey: "sk-secret", Timetable: serve.TimetableConfig{TTFT: 2 * time.Millisecond, ITL: time.Millisecond}})
	env := []string{"OPENAI_API_KEY=sk-secret"}
	c, url, path := recorded(t, srv.URL(), "--block-size", "16")
	first := prepare(t, env, "bench", "--base-url", url, "--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", "64", "--prefix-repetition-suffix-len", "16",
		"--prefix-repetition-num-prefixes", "2", "--prefix-repetition-output-len", "5", "--num-prompts", "12", "--request-rate", "50", "--output-dir", filepath.Join(t.TempDir(), "run"), "--no-observe")
	first.want(cli.ExitDone)
	await(t, "all are recorded", func() bool { return len(traceLines(t, path)) >= 12 })
	c.signal(syscall.SIGINT)
	e := c.wait()
	if e.code != cli.ExitDone {
		t.Fatalf("exit code %d\n%s", e.code, e.stderr)
	}
	has(t, "stderr", e.stderr, "--dataset-name mooncake", "--timed-trace-chunk-hash-size 16", "an unlimited cache would have held")
	rows := traceLines(t, path)
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Contains(raw, []byte("sk-secret")) {
		t.Error("the key stands in the file", err)
	}
	for i, l := range rows {
		if l.Status != 200 || l.Fate != "ok" || l.InFrom != proxy.ByServer || l.OutFrom != proxy.ByServer || l.TTFT == nil || i > 0 && l.Timestamp < rows[i-1].Timestamp {
			t.Fatalf("line %d: %+v", i, l)
		}
	}
	again := benchCmd(t, "--base-url", srv.URL(), "--dataset-name", "mooncake", "--dataset-path", path, "--num-prompts", "0", "--timed-trace-chunk-hash-size", "16", "--no-observe")
	again.cmd.Env = append(again.cmd.Env, env...)
	done := again.want(cli.ExitDone)
	recs := done.measured()
	if len(recs) != len(rows) {
		t.Fatalf("%d of %d requests were sent again", len(recs), len(rows))
	}
	for i, r := range recs {
		due := float64(r.Due-recs[0].Due) / 1e6
		if want := rows[i].Timestamp - rows[0].Timestamp; math.Abs(due-want) > 0.01 || r.AskedOut != rows[i].Output {
			t.Errorf("request %d is due after %.3f ms for %d tokens; it came after %.3f ms for %d", i, due, r.AskedOut, want, rows[i].Output)
		}
	}
	has(t, "stderr and stdout", done.stderr+done.out, "ideal prefix-hit rate")
}

// TestRecordKilled: what had ended before a kill is in the file, and --sort puts it in order.
func TestRecordKilled(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: 2 * time.Millisecond}})
	c, url, path := recorded(t, srv.URL())
	b := benchCmd(t, "--base-url", url, "--num-prompts", "40", "--max-concurrency", "8", "--random-input-len", "12", "--random-output-len", "10", "--random-range-ratio", "0.9", "--no-observe")
	b.want(cli.ExitDone)
	await(t, "all are recorded", func() bool { return len(traceLines(t, path)) >= 40 })
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait() // killed
	n := len(traceLines(t, path))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprint(f, `{"timestamp": 1`) // a write that was cut
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	prepare(t, nil, "record", "--sort", path).want(cli.ExitDone)
	got := traceLines(t, path)
	if len(got) != n || n < 40 {
		t.Errorf("%d lines, %d before", len(got), n)
	}
	for i := 1; i < len(got); i++ {
		if got[i].Timestamp < got[i-1].Timestamp {
			t.Fatalf("line %d came before line %d", i, i-1)
		}
	}
}
