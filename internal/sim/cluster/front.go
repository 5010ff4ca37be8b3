package cluster

import "time"

// front is the server's front end: workers that take requests in, one after the other each.
type front struct {
	cfg  Front
	free []time.Duration // when each worker is done
}

func newFront(cfg Front) front {
	return front{cfg: cfg, free: make([]time.Duration, max(1, cfg.Workers))}
}

// pass is the time at which a request that comes in at t reaches the engine.
func (f *front) pass(t time.Duration, tokens int) time.Duration {
	w := 0
	for i := range f.free {
		if f.free[i] < f.free[w] {
			w = i
		}
	}
	f.free[w] = max(f.free[w], t) + ns(f.cfg.RequestNS+f.cfg.TokenNS*float64(tokens))
	return f.free[w] + ns(f.cfg.BaseNS)
}

// ingest takes in requests that a client sent as one group, the last of them at end.
func (c *Cluster) ingest(cl *client, group []int32, end time.Duration) {
	reach := make([]time.Duration, len(group))
	last := time.Duration(0)
	for i, id := range group {
		t := c.slots[id].req.Sent
		if cl.load.Hold {
			t = end
		}
		reach[i] = c.front.pass(t, c.slots[id].req.In)
		last = max(last, reach[i])
	}
	for i, id := range group {
		if c.cfg.Front.Together {
			reach[i] = last
		}
		c.slots[id].next = reach[i]
		c.at(reach[i], arrives, id)
	}
}

func ns(x float64) time.Duration { return time.Duration(x + 0.5) }
