package cluster

import (
	"testing"
	"time"

	"spate/internal/sim/kv"
)

// besideCalls are requests of their own prompts, one every few milliseconds.
func besideCalls(n int, gap time.Duration) []Call {
	list := make([]Call, n)
	for i := range list {
		list[i] = Call{At: time.Duration(i) * gap, Prompt: []kv.Segment{{Stream: uint64(i) + 1, Len: 50 + 13*(i%9)}}, Out: 5 + i%17}
	}
	return list
}

// TestClientsBeside: who sends a request changes nothing of when it is answered. A load dealt out to three clients ends
// as the same load of one.
func TestClientsBeside(t *testing.T) {
	server := func() *Cluster { return mustNew(t, one(v1Config(4000), reference())) }
	list := besideCalls(90, 7*time.Millisecond)
	alone := mustRun(t, server(), Load{Calls: Calls(list)})
	dealt := make([][]Call, 3)
	for i, c := range list {
		dealt[i%3] = append(dealt[i%3], c)
	}
	split := mustRun(t, server(), Load{Calls: Calls(dealt[0]), Beside: []Load{{Calls: Calls(dealt[1])}, {Calls: Calls(dealt[2])}}})
	type times struct{ sent, first, last time.Duration }
	want, got := map[int]times{}, map[int]times{}
	for _, r := range alone.Requests {
		want[r.Index] = times{r.Sent, r.First, r.Last}
	}
	for _, r := range split.Requests {
		got[r.Index*3+r.Client] = times{r.Sent, r.First, r.Last}
	}
	if len(got) != len(list) || len(want) != len(list) {
		t.Fatalf("%d and %d requests of %d", len(got), len(want), len(list))
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("request %d: %v by three clients, %v by one", i, got[i], w)
		}
	}
}

// TestCapsBeside: each client keeps its own cap, uses all of it while it has requests, and ends by its own time.
func TestCapsBeside(t *testing.T) {
	const until = 2 * time.Second
	res := mustRun(t, mustNew(t, one(v1Config(4000), reference())), Load{
		Calls: Calls(besideCalls(40, 0)), Slots: 2, Beside: []Load{{Calls: Calls(besideCalls(400, 0)), Slots: 5, Until: until}},
	})
	for client, slots := range []int{2, 5} {
		most, sent := 0, 0
		for _, r := range res.Requests {
			if r.Client != client {
				continue
			}
			if sent++; client == 1 && r.Sent >= until {
				t.Errorf("sent at %v, after %v", r.Sent, until)
			}
			open := 0
			for _, o := range res.Requests {
				if o.Client == client && o.Sent <= r.Sent && r.Sent < o.Last {
					open++
				}
			}
			most = max(most, open)
		}
		if most != slots || sent == 0 || client == 0 && sent != 40 || client == 1 && sent == 400 {
			t.Errorf("client %d: %d requests, at most %d of %d at a time", client, sent, most, slots)
		}
	}
}
