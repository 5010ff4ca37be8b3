package trial

import (
	"testing"

	"spate/internal/settings/config"
)

func TestDigest(t *testing.T) {
	a, b := &config.Bench{}, &config.Bench{}
	b.Load.NumPrompts = 3
	for _, c := range []struct {
		x, y string
		same bool
	}{
		{Digest(a), Digest(a), true},
		{Digest(a), Digest(b), false},
		{"0d4d958aba88", Digest(a), true}, // of 0.1.0: which settings it knew is not told
		{"000000000000-0d4d958aba88", Digest(a), true},
	} {
		if got := SameDigest(c.x, c.y); got != c.same {
			t.Errorf("%s and %s: %v", c.x, c.y, got)
		}
	}
}
