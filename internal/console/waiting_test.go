package console

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: nothing of what is quick; then one line of a terminal that goes away, or few lines elsewhere.
func TestWaiting(t *testing.T) {
	const wipe = "\r\x1b[K"
	for name, c := range map[string]struct {
		width int
		takes time.Duration
		want  string
	}{
		"piped and quick":   {0, 1999 * time.Millisecond, ""},
		"piped and long":    {0, 13 * time.Second, "planning: 1 of 2, 2 s so far\nplanning: 1 of 2, 12 s so far\n"},
		"terminal, quick":   {80, 499 * time.Millisecond, ""},
		"terminal":          {80, 1100 * time.Millisecond, wipe + "planning: 1 of 2, 0 s so far" + wipe + "planning: 1 of 2, 1 s so far" + wipe},
		"a narrow terminal": {10, 600 * time.Millisecond, wipe + "planning:" + wipe},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b bytes.Buffer
				w := newWaiting(&b, c.width, "planning")
				w.Now("planning: %d of %d", 1, 2)
				time.Sleep(c.takes)
				w.End()
				if b.String() != c.want {
					t.Errorf("told %q, want %q", b.String(), c.want)
				}
			})
		})
	}
}
