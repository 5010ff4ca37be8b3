package suggest

import (
	"fmt"
	"slices"
	"strconv"
)

// Learn makes a space refuse what trials have shown to fail: a setting that failed for want of memory rules
// out all that need at least as much in every respect, and a value of a choice with which every one of
// several starts failed rules itself out. Accidents teach nothing.
func Learn(space *Space, history []Trial) *Space {
	out := *space
	out.Allow = func(s Settings) error {
		if err := space.Allowed(s); err != nil {
			return err
		}
		if i := hungrier(space, s, history); i >= 0 {
			return fmt.Errorf("needs at least the memory of trial %d, which had too little", i)
		}
		if name := alwaysFails(space, s, history); name != "" {
			return fmt.Errorf("every start with %s=%s failed", name, s[name])
		}
		return nil
	}
	return &out
}

// hungrier finds a trial without enough memory that asked for no more than the settings do; -1 for none.
func hungrier(space *Space, s Settings, history []Trial) int {
	for i := range history {
		t := &history[i]
		if t.Failed && t.Memory && !t.Transient && needsAtLeast(space, s, t.Settings) {
			return i
		}
	}
	return -1
}

// needsAtLeast reports whether settings a need the memory of b or more: they agree where it is not known
// what more of a parameter means, and may differ where it does not matter.
func needsAtLeast(space *Space, a, b Settings) bool {
	for i := range space.Params {
		p := &space.Params[i]
		x, y := a[p.Name], b[p.Name]
		if x == y || p.Neutral {
			continue
		}
		u, errU := strconv.ParseFloat(x, 64)
		v, errV := strconv.ParseFloat(y, 64)
		if p.Kind == Switch {
			u, v, errU, errV = p.unit(x), p.unit(y), nil, nil
		}
		if p.Memory == 0 || errU != nil || errV != nil || (u-v)*float64(p.Memory) < 0 {
			return false
		}
	}
	return true
}

// starts is how many failures in a row make a value a bad one.
const starts = 3

// alwaysFails finds a choice of the settings with which several starts failed, not for memory, and none
// went well, while others did.
func alwaysFails(space *Space, s Settings, history []Trial) string {
	if !slices.ContainsFunc(history, func(t Trial) bool { return !t.Failed }) {
		return ""
	}
	for i := range space.Params {
		p := &space.Params[i]
		if p.values() == 0 || s[p.Name] == "" {
			continue
		}
		bad := 0
		for k := range history {
			t := &history[k]
			if t.Transient || t.Settings[p.Name] != s[p.Name] {
				continue
			}
			if !t.Failed {
				bad = -1
				break
			}
			if !t.Memory {
				bad++
			}
		}
		if bad >= starts {
			return p.Name
		}
	}
	return ""
}
