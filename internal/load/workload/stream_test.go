package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spate/internal/call"
	"spate/internal/load/lengths"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is a dataset of numbered prompts that says how many were built.
type counted struct {
	rows   int
	drawn  int
	built  atomic.Int64
	size   int
	before func(index int) error // runs in each build
	closed int
	order  []int
}

func (c *counted) next() (job, state, error) {
	if c.drawn == c.rows {
		return job{}, done, nil
	}
	c.drawn++
	return job{index: c.drawn - 1}, issue, nil
}

func (c *counted) build(_ *scratch, j job) (call.Request, bool, error) {
	if c.before != nil {
		if err := c.before(j.index); err != nil {
			return call.Request{}, false, err
		}
	}
	c.built.Add(1)
	text := fmt.Sprintf("%d ", j.index) + strings.Repeat("x", c.size)
	return call.Request{Prompt: call.Prompt{Text: text}}, j.index%5 != 4, nil // every fifth is rejected
}

func (c *counted) settle(j job, _ *call.Request, _ bool) error {
	c.order = append(c.order, j.index)
	return nil
}

func (c *counted) notes() []string { return nil }

func (c *counted) close() error {
	c.closed++
	return nil
}

func TestStreamKeepsOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			var turn atomic.Int64
			ds := &counted{rows: 100, before: func(int) error {
				if turn.Add(1)%3 == 0 { // some builds overtake others
					runtime.Gosched()
				}
				return nil
			}}
			s := newStream(Config{Workers: workers, Window: 8}, ds, 1000, nil)
			all := drain(t, s)
			if len(all) != 80 {
				t.Fatalf("%d requests of 100 rows, want the 80 kept", len(all))
			}
			for i, r := range all {
				if want := fmt.Sprintf("%d ", i+i/4); r.ID != i || r.Prompt.Text != want {
					t.Errorf("request %d is %d: %q, want %q", i, r.ID, r.Prompt.Text, want)
				}
			}
			for i, index := range ds.order {
				if i != index {
					t.Fatalf("settled %d as number %d", index, i)
				}
			}
			if ds.closed != 1 {
				t.Errorf("closed %d times", ds.closed)
			}
		})
	}
}

func TestStreamDrawsNoMoreThanWanted(t *testing.T) {
	ds := &counted{rows: 1000}
	got := drain(t, newStream(Config{Workers: 3}, ds, 10, nil))
	if len(got) != 10 || ds.drawn != 12 { // ten kept and two rejected among twelve
		t.Errorf("%d requests from %d draws, want 10 from 12", len(got), ds.drawn)
	}
}

// TestLookAhead shows that workers sleep once the look-ahead is full, and go on when it is not.
func TestLookAhead(t *testing.T) {
	cases := []struct {
		name  string
		cfg   Config
		size  int
		ahead int64
	}{
		{"requests", Config{Workers: 3, Window: 12}, 0, 15}, // 12 kept, 3 rejected
		{"bytes", Config{Workers: 1, Window: 100, Held: 1000}, 300, 4},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ds := &counted{rows: 1000, size: c.size}
				s := newStream(c.cfg, ds, 1000, nil)
				if err := s.Fill(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // every worker is asleep
				if n := ds.built.Load(); n < c.ahead-1 || n > c.ahead {
					t.Errorf("%d built ahead, want %d", n, c.ahead)
				}
				before := ds.built.Load()
				if _, err := s.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := ds.built.Load() - before; n < 1 || n > 2 {
					t.Errorf("%d built after one was taken", n)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestFirstRequestDoesNotWaitForTheRest(t *testing.T) {
	release := make(chan struct{})
	ds := &counted{rows: 1000, before: func(i int) error {
		if i > 0 {
			<-release
		}
		return nil
	}}
	s := newStream(Config{Workers: 2}, ds, 1000, nil)
	r, err := s.Next(t.Context())
	if err != nil || r.ID != 0 {
		t.Fatalf("first request: %v, %v", r, err)
	}
	close(release)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStreamStopsOnError(t *testing.T) {
	wrong := errors.New("row 7 is wrong")
	ds := &counted{rows: 1000, before: func(i int) error {
		if i == 7 {
			return wrong
		}
		return nil
	}}
	s := newStream(Config{Workers: 3}, ds, 1000, nil)
	for i := range 6 { // 0..6 without the rejected 4
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for range 2 {
		if _, err := s.Next(t.Context()); !errors.Is(err, wrong) {
			t.Errorf("got %v, want the row's error", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStreamEnds(t *testing.T) {
	stuck := func() (*counted, func()) {
		release := make(chan struct{})
		return &counted{rows: 9, before: func(int) error { <-release; return nil }}, sync.OnceFunc(func() { close(release) })
	}
	t.Run("context of Next", func(t *testing.T) {
		ds, release := stuck()
		s := newStream(Config{}, ds, 9, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		release()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("context of Start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(Config{Window: 2, Workers: 2}, &counted{rows: 1000}, 1000, nil)
			ctx, cancel := context.WithCancel(t.Context())
			s.Start(ctx)
			cancel()
			synctest.Wait() // no worker is left behind, though nobody closed the stream
			if _, err := s.Next(t.Context()); !errors.Is(err, errClosed) {
				t.Errorf("got %v", err)
			}
			if err := s.Fill(ctx); err == nil {
				t.Error("a canceled stream claims to be full")
			}
		})
	})
	t.Run("close before start", func(t *testing.T) {
		ds := &counted{rows: 9}
		s := newStream(Config{}, ds, 9, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, errClosed) || ds.built.Load() != 0 {
			t.Errorf("got %v after %d builds", err, ds.built.Load())
		}
	})
	t.Run("empty", func(t *testing.T) {
		s := newStream(Config{}, &counted{}, 9, nil)
		if err := s.Fill(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want io.EOF", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSameForAnyWorkers makes each dataset with several worker counts and windows.
func TestSameForAnyWorkers(t *testing.T) {
	var rows, talk strings.Builder
	talk.WriteString("[")
	for i := range 40 {
		fmt.Fprintf(&rows, "{\"prompt\": \"row %d %s\", \"output_tokens\": %d}\n", i, strings.Repeat("ace", i), i)
		fmt.Fprintf(&talk, `{"conversations":[{"value":%q},{"value":%q}]},`, strings.Repeat("aceg ", i%9), strings.Repeat("x", i*9%70))
	}
	talk.WriteString(`{}]`)
	open, _ := files(map[string]string{"rows": rows.String(), "talk": talk.String()})
	tmpl := func(user string) (string, error) { return "<s>" + user + "<s>", nil }
	cases := []Config{
		{Dataset: "random", Input: 40, Output: 20, Prefix: 7, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}},
		{Dataset: "random", Input: 40, Output: 20, Prefix: 7, Ratio: lengths.Ratio{Input: 0.5, Output: 0.5}, Era: V10},
		{Dataset: "sonnet", Input: 550, Output: 20, Prefix: 200},
		{Dataset: "custom", Path: "rows", Open: open, Output: FromData},
		{Dataset: "sharegpt", Path: "talk", Open: open, Output: FromData},
		{Dataset: "sharegpt", Path: "talk", Open: open, Output: 9, IDs: true, Salt: "s"},
	}
	for _, cfg := range cases {
		t.Run(cfg.Dataset, func(t *testing.T) {
			cfg.N = 60
			var want []call.Request
			for _, shape := range [][2]int{{1, 1}, {1, 1024}, {2, 5}, {7, 64}} {
				cfg.Workers, cfg.Window = shape[0], shape[1]
				got, _ := requests(t, cfg, &letters{}, tmpl)
				if want == nil {
					want = got
				}
				if d := cmp.Diff(want, got); d != "" || len(got) != cfg.N {
					t.Errorf("%d requests by %v differ: %.600s", len(got), shape, d)
				}
			}
		})
	}
}

// TestHeapStaysBounded generates 20,000 prompts, 100 MB in all, and looks at what is alive.
func TestHeapStaysBounded(t *testing.T) {
	const bound = 24 << 20
	s := mustNew(t, Config{Dataset: "random", N: 20000, Input: 1000, Output: 1, Held: 4 << 20}, flat{1 << 16})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most, total := uint64(0), 0
	for i := range 20000 {
		r, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		total += len(r.Prompt.Text)
		if i%2000 == 1999 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if most > before.HeapAlloc+bound || total != 20000*1000*5 {
		t.Errorf("%d MB alive while making %d MB, bound %d MB", (most-before.HeapAlloc)>>20, total>>20, bound>>20)
	}
}
