package observe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A log that is appended to, cut within a line, emptied, replaced and not there.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	write := func(mode int, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|mode, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(os.O_APPEND, "old\n")
	tl := newTail(path)
	defer tl.close()
	expect := func(step string, want ...string) {
		t.Helper()
		var got []string
		if err := tl.lines(func(s string) { got = append(got, s) }); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step, d)
		}
	}
	expect("nothing new")
	write(os.O_APPEND, "one\ntw")
	expect("half a line", "one")
	write(os.O_APPEND, "o\r\n")
	expect("its other half", "two")
	write(os.O_TRUNC, "new\n")
	expect("emptied", "new")
	write(os.O_APPEND, "last\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	expect("moved away", "last")
	expect("no successor")
	write(os.O_APPEND, "first\n")
	expect("replaced", "first")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("removed")
}

func TestTailWaitsForTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	tl := newTail(path)
	defer tl.close()
	if s, err := tl.look(t.Context()); len(s) > 0 || err != nil {
		t.Fatalf("%v, %v", s, err)
	}
	text := "INFO Engine 001: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 20.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, GPU KV cache usage: 97.0%, Prefix cache hit rate: 5.0%\nother\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := tl.look(t.Context())
	want := []Sample{{Source: "log:001", Values: map[string]float64{
		"prompt_rate": 10, "generation_rate": 20, "running": 3, "waiting": 4, "kv_usage": 0.97, "prefix_hit_rate": 0.05,
	}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}
