package config

import "spate/internal/load/deal"

// Fleet has the load of a run sent by several processes, on this host or on others. What is sent and when is the same
// for any number of them.
type Fleet struct {
	Workers int    `json:"workers,omitempty"` // 0: this process sends everything
	Join    string `json:"-"`                 // the broker's address, which may hold a password, or a join file; empty: workers here
}

// On reports whether others send.
func (f *Fleet) On() bool { return f.Workers > 0 }

func (b *Bench) checkFleet(c *checker) {
	f := &b.Fleet
	c.Want(f.Workers >= 0 && f.Workers <= deal.MaxParts, "workers", "%d: from 1 to %d workers can share a load", f.Workers, deal.MaxParts)
	c.Want(f.Join == "" || f.Workers > 0, "fleet", "say how many of its workers are to send, as in --workers 4")
	c.Want(f.Workers >= 0 && (!b.Has("workers") || f.Workers > 0), "workers", "0: at least one worker is needed; without the flag this process sends")
}
