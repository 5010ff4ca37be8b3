package recorder

import (
	"math/rand/v2"
	"os"
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
