package recorder

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spate/internal/call"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("RECORDER_VICTIM"); path != "" {
		victim(path)
	}
	goleak.VerifyTestMain(m)
}

// TestSinks holds the contract of Sink for every one of them.
func TestSinks(t *testing.T) {
	dir := t.TempDir()
	log, err := Create(filepath.Join(dir, "a.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	log2, err := Create(filepath.Join(dir, "b.jsonl"), Options{Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	mem := NewMemory(0)
	cases := []struct {
		name string
		sink Sink
		read func() []call.Record
	}{
		{"log", log, func() []call.Record { recs, _, _ := Read(filepath.Join(dir, "a.jsonl")); return recs }},
		{"memory", NewMemory(10), nil},
		{"tee", Tee(log2, mem), func() []call.Record { recs, _, _ := Read(filepath.Join(dir, "b.jsonl")); return recs }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const writers, each = 8, 25
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						r := sample(w*each+i, 5)
						if err := c.sink.Record(&r); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if err := c.sink.Close(); err != nil {
				t.Fatal(err)
			}
			r := sample(0, 0)
			if err := c.sink.Record(&r); !errors.Is(err, ErrClosed) {
				t.Errorf("record after close: %v, want ErrClosed", err)
			}
			if err := c.sink.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
			var recs []call.Record
			if m, ok := c.sink.(*Memory); ok {
				recs = m.Records()
			} else {
				recs = c.read()
			}
			seen := map[int]int{}
			for _, r := range recs {
				seen[r.ID]++
			}
			if len(recs) != writers*each || len(seen) != writers*each {
				t.Errorf("%d records of %d requests, want %d of each", len(recs), len(seen), writers*each)
			}
		})
	}
	if n := len(mem.Records()); n != 200 {
		t.Errorf("the other arm of the tee has %d records, want 200", n)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, Options{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("err = %v, want exists", err)
	}
}

// disk is a file that refuses what does not fit.
type disk struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	room   int
	writes int
	stall  chan struct{} // when set, each write waits for a tick
	synced bool
}

func (d *disk) Write(p []byte) (int, error) {
	if d.stall != nil {
		<-d.stall
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	n := min(len(p), d.room)
	d.buf.Write(p[:n])
	d.room -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *disk) Sync() error  { d.synced = true; return nil }
func (d *disk) Close() error { return nil }

func (d *disk) grow(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += n
}

func (d *disk) ids(t *testing.T) (ids []int, damage Damage) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	damage, err := Scan(bytes.NewReader(d.buf.Bytes()), func(r *call.Record) error { ids = append(ids, r.ID); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return ids, damage
}

func put(t *testing.T, l *Log, ids ...int) {
	t.Helper()
	for _, id := range ids {
		r := sample(id, 3)
		if err := l.Record(&r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneWritePerRecord(t *testing.T) {
	d := &disk{room: 1 << 20}
	l := newLog(d, "x", Options{})
	put(t, l, 1, 2, 3)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if d.writes != 3 {
		t.Errorf("%d writes for 3 records", d.writes)
	}
	if err := l.Close(); err != nil || !d.synced {
		t.Errorf("close: %v, synced %v", err, d.synced)
	}
	if err := l.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("flush after close: %v", err)
	}
}

func TestDiskFullThenFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sample(1, 3)
		line := len(appendRecord(nil, &r, false))
		d := &disk{room: line + line/2} // the second record goes in half
		l := newLog(d, "x", Options{Retry: time.Second})
		put(t, l, 1, 2, 3)
		if err := l.Flush(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("flush on a full disk: %v, want ENOSPC", err)
		}
		ids, damage := d.ids(t)
		if !cmp.Equal(ids, []int{1}) || !damage.Torn {
			t.Errorf("full disk holds %v torn %v, want [1] and a torn line", ids, damage.Torn)
		}
		d.grow(1 << 20)
		time.Sleep(1500 * time.Millisecond) // fake time: one retry
		synctest.Wait()
		if s := l.Stats(); s.Written != 3 || s.Missing != 0 || s.Refused == 0 || s.FirstErr == "" {
			t.Errorf("after the retry: %+v", s)
		}
		put(t, l, 4)
		if err := l.Close(); err != nil {
			t.Errorf("close: %v; everything was written in the end", err)
		}
		ids, damage = d.ids(t)
		if !cmp.Equal(ids, []int{1, 2, 3, 4}) || damage.Any() {
			t.Errorf("got %v, %v; want all four in order, whole", ids, damage)
		}
	})
}

func TestDiskStaysFull(t *testing.T) {
	r := sample(1, 3)
	line := len(appendRecord(nil, &r, false))
	d := &disk{room: 2 * line}
	l := newLog(d, "x", Options{Backlog: 3 * line, Retry: time.Hour})
	put(t, l, 1, 2, 3, 4, 5, 6, 7, 8)
	err := l.Close()
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "lacks 6 of 8 records") {
		t.Errorf("close: %v, want 6 of 8 missing for lack of space", err)
	}
	s := l.Stats()
	if s.Accepted != 8 || s.Written != 2 || s.Missing != 6 {
		t.Errorf("stats %+v, want accepted 8 = written 2 + missing 6", s)
	}
}

func TestBacklogBoundLosesNewestOnly(t *testing.T) {
	r := sample(1, 3)
	line := len(appendRecord(nil, &r, false))
	d := &disk{room: line}
	l := newLog(d, "x", Options{Backlog: 3 * line, Retry: time.Hour})
	put(t, l, 1, 2, 3, 4, 5, 6)
	_ = l.Flush()
	d.grow(1 << 20)
	if err := l.Close(); err == nil {
		t.Error("close says nothing of the missing records")
	}
	ids, damage := d.ids(t)
	if !cmp.Equal(ids, []int{1, 2, 3, 4}) || damage.Any() {
		t.Errorf("got %v %v, want the first four whole", ids, damage)
	}
	if s := l.Stats(); s.Written+s.Missing != s.Accepted || s.Missing != 2 {
		t.Errorf("stats %+v, want 2 missing and a balanced count", s)
	}
}

func TestFullQueueBlocksAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: 1 << 20, stall: make(chan struct{})}
		l := newLog(d, "x", Options{Queue: 2})
		handed := make(chan struct{})
		go func() {
			put(t, l, 1, 2, 3, 4, 5)
			close(handed)
		}()
		synctest.Wait()
		select {
		case <-handed:
			t.Error("five records went into a queue of two with a stalled disk")
		default:
		}
		time.Sleep(time.Second)
		close(d.stall)
		<-handed
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s := l.Stats()
		if s.Blocked == 0 || s.Waited < time.Second || s.Written != 5 {
			t.Errorf("stats %+v, want a counted wait of a second and all 5 written", s)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	l, err := Create(filepath.Join(b.TempDir(), "r.jsonl"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := sample(1, 100)
	for b.Loop() {
		_ = l.Record(&r)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}
