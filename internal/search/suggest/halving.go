package suggest

// Halving measures many settings shortly and only the best of them longer (asynchronous successive
// halving): a setting goes on to the next length when it is among the best of its own. Where none may, the
// other strategy proposes a new one for the shortest length.
func Halving(space *Space, then Strategy, shares []float64, keep int) Strategy {
	return &halving{space, then, shares, max(keep, 2)}
}

type halving struct {
	space  *Space
	then   Strategy
	shares []float64 // of the full length, rising to 1
	keep   int       // one in so many goes on
}

// Next implements Strategy.
func (h *halving) Next(history []Trial) (Proposal, bool) {
	for rung := len(h.shares) - 2; rung >= 0; rung-- {
		if s, ok := h.promote(history, rung); ok {
			return Proposal{Settings: s, Share: h.shares[rung+1]}, true
		}
	}
	p, ok := h.then.Next(history)
	p.Share = h.shares[0]
	return p, ok
}

// promote finds the best setting of a rung that deserves the next one and has not been there.
func (h *halving) promote(history []Trial, rung int) (Settings, bool) {
	var here []Trial
	gone := map[string]bool{}
	for _, t := range history {
		if t.Transient {
			continue
		}
		at := share(&t)
		switch {
		case at > h.shares[rung]+1e-9:
			gone[h.space.Key(t.Settings)] = true
			here = append(here, t)
		case at > h.shares[rung]-1e-9:
			here = append(here, t)
		}
	}
	list := ranked(h.space, here)
	for _, t := range list[:len(list)/h.keep] {
		if !t.Failed && !gone[h.space.Key(t.Settings)] {
			return t.Settings, true
		}
	}
	return nil, false
}
