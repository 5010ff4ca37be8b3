package compare

import (
	"testing"

	"spate/internal/result"
)

// mix is a run of two servers' requests, each a tenant's.
func mix(t *testing.T, name string, chat, batch server, seed uint64) Sample {
	t.Helper()
	both := chat.run(t, name, seed)
	both.Entry.Run.Tenants = []result.Tenant{{Name: "chat"}, {Name: "batch"}}
	for k, s := range []server{chat, batch} {
		one := s.run(t, name, seed+uint64(k))
		for i := range one.Records {
			r := &one.Records[i]
			r.ID, r.Labels = r.ID*2+k, map[string]string{result.TenantLabel: both.Entry.Run.Tenants[k].Name}
			if k > 0 {
				both.Records = append(both.Records, *r)
			} else {
				both.Records[i] = *r
			}
		}
		row := &both.Entry.Run.Tenants[k]
		row.Plan = one.Entry.Run.Plan
		row.Summary = one.Entry.Run.Summary
	}
	summarize(both.Entry.Run, both.Records)
	return both
}

// TestTenantsAreCompared: the second server is slower for one tenant alone, and that is what is said of each.
func TestTenantsAreCompared(t *testing.T) {
	slow := usual()
	slow.slow = 1.3
	base, others := sides(mix(t, "a", usual(), usual(), 1), mix(t, "b", usual(), slow, 3))
	rep, err := Compare(base, others, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range rep.Comparisons {
		c := &rep.Comparisons[i]
		got = append(got, c.B.Name+" "+string(row(t, c, "mean_ttft_ms").Verdict))
	}
	if len(got) != 3 || got[0] != "B worse" || got[1] == "B/chat worse" || got[2] != "B/batch worse" {
		t.Errorf("%q", got)
	}
	if m := row(t, &rep.Comparisons[2], "mean_ttft_ms"); m.Change == nil || *m.Change < 20 || *m.Change > 40 {
		t.Errorf("batch changed by %v %%, want about 30", m.Change)
	}
	// One that only one side has is compared with nobody; the whole runs still are.
	alone := mix(t, "b", usual(), slow, 3)
	alone.Entry.Run.Tenants[1].Name = "other"
	base, others = sides(mix(t, "a", usual(), usual(), 1), alone)
	if rep, err = Compare(base, others, Options{Force: true}); err != nil || len(rep.Comparisons) != 2 {
		t.Errorf("%d comparisons, %v; want the whole and chat", len(rep.Comparisons), err)
	}
}
