package recorder

import (
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spate/internal/call"
)

// TestSpillRoundTrip holds that every record comes back as it was, in the order they came and in any other, from
// memory and from the file.
func TestSpillRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := NewSpill(dir)
		s.limit = rapid.SampledFrom([]int{1, spillFrom}).Draw(t, "limit")
		defer func() { _ = s.Close() }()
		n := rapid.IntRange(0, 12).Draw(t, "n")
		want := make([]call.Record, n)
		for i := range want {
			want[i] = drawRecord(t)
			if rapid.IntRange(0, 5).Draw(t, "long") == 0 { // more than a block, so that the file is used
				want[i].Text = string(make([]byte, blockSize+i))
			}
			if err := s.Record(&want[i]); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, s.List()); d != "" {
			t.Fatalf("records changed (-want +got):\n%s", d)
		}
		order := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
		numbers := make([]int32, n)
		for i, k := range order {
			numbers[i] = int32(k)
		}
		i := 0
		for r := range s.Pick(numbers) {
			if d := cmp.Diff(want[numbers[i]], *r); d != "" {
				t.Fatalf("record %d (-want +got):\n%s", numbers[i], d)
			}
			i++
		}
		if i != n || s.Err() != nil {
			t.Fatalf("%d of %d records came back: %v", i, n, s.Err())
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files were left behind: %v, %v", left, err)
	}
}

// TestSpillMemory holds that what stays in memory of a record is its place alone: 20,000 records of 100 chunks take
// 10 MB on disk and 80 MB as they are.
func TestSpillMemory(t *testing.T) {
	s := NewSpill(t.TempDir())
	if s.limit > 64<<20 {
		t.Errorf("a run holds %d bytes of records before it writes them out", s.limit)
	}
	s.limit = 1 << 20
	defer func() { _ = s.Close() }()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	const n = 20_000
	for i := range n {
		r := sample(i, 100)
		if err := s.Record(&r); err != nil {
			t.Fatal(err)
		}
	}
	if grown := heap() - before; grown > 3<<20 {
		t.Errorf("the heap has grown by %d bytes for %d records, %d bytes of which are on disk", grown, n, s.Size())
	}
	if s.first == 0 || s.Len() != n {
		t.Errorf("%d records, %d blocks on disk", s.Len(), s.first)
	}
}

func TestSpillClosed(t *testing.T) {
	s := NewSpill(t.TempDir())
	r := sample(1, 2)
	if err := s.Record(&r); err != nil || s.Len() != 1 {
		t.Fatalf("%d records, %v", s.Len(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Record(&r); err == nil {
		t.Error("a closed store took a record")
	}
}

// TestSpillUnwritable holds that a disk that takes no file loses no record.
func TestSpillUnwritable(t *testing.T) {
	s := NewSpill("/nowhere/at/all")
	s.limit = 1
	r := sample(1, 2)
	r.Text = string(make([]byte, 2*blockSize))
	for range 3 {
		if err := s.Record(&r); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.List(); len(got) != 3 || cmp.Diff(r, got[2]) != "" || s.Err() != nil {
		t.Errorf("%d of 3 records came back: %v", len(got), s.Err())
	}
}
