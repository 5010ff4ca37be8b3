package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/deal"
	"spate/internal/load/lengths"
)

// kept is counted, of which every row is kept.
type kept struct{ counted }

func (*kept) sure(job) bool { return true }

func (k *kept) build(s *scratch, j job) (call.Request, bool, error) {
	req, _, err := k.counted.build(s, j)
	return req, true, err
}

// TestStreamSkips hands out each request once among several workers, the same as without them. Where every row is
// kept, a worker makes only its own and the first, which all look at; where making decides, it makes all.
func TestStreamSkips(t *testing.T) {
	const rows = 100
	for _, sure := range []bool{true, false} {
		open := func() (dataset, *counted) {
			if sure {
				k := &kept{counted{rows: rows}}
				return k, &k.counted
			}
			c := &counted{rows: rows}
			return c, c
		}
		whole, _ := open()
		want := drain(t, newStream(Config{Workers: 3, Window: 8, NamePrefix: "r-"}, whole, 1000, nil))
		for _, of := range []int{1, 2, 7, 64} {
			got := make([]call.Request, len(want))
			for k := range of {
				share := deal.Part{Index: k, Of: of}.Share(0)
				ds, counts := open()
				own := 1 // the first
				for _, r := range drain(t, newStream(Config{Workers: 3, Window: 8, NamePrefix: "r-", Has: share.Has}, ds, 1000, nil)) {
					if !share.Has(r.Number) && r.Number > 0 {
						t.Fatalf("worker %d of %d hands out request %d", k, of, r.Number)
					}
					if r.Number > 0 {
						own++
					}
					got[r.Number] = r
				}
				built := int(counts.built.Load())
				if sure && built != own || !sure && built != rows {
					t.Errorf("worker %d of %d made %d requests for the %d it hands out", k, of, built, own)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%d workers, every row kept %v:\n%s", of, sure, d)
			}
		}
	}
}

// TestConversationsSkipped numbers requests of conversations as if it held those of others.
func TestConversationsSkipped(t *testing.T) {
	cfg := Config{Dataset: "multi-turn", N: 20, Input: 8, Output: 2, Chat: true, Talk: Talk{Turns: lengths.Dist{Law: "uniform", A: 1, B: 5}}}
	whole, _ := requests(t, cfg, flat{500}, nil)
	share := deal.Part{Index: 1, Of: 3}.Share(0)
	cfg.Has = share.Has
	part, _ := requests(t, cfg, flat{500}, nil)
	want := []call.Request{whole[0]}
	for i := range whole {
		if share.Has(i) {
			want = append(want, whole[i])
		}
	}
	if d := cmp.Diff(want, part); d != "" {
		t.Error(d)
	}
	if last := whole[len(whole)-1].ID; last <= len(whole) {
		t.Errorf("conversations have one turn each: the last begins with request %d", last)
	}
}
