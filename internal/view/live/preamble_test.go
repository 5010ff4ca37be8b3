package live

import (
	"math"
	"strings"
	"testing"
)

func TestPreamble(t *testing.T) {
	cases := []struct {
		name string
		p    Preamble
	}{
		{"head", Preamble{RequestRate: math.Inf(1), Burstiness: 1}},
		{"head-ready-warm-capped", Preamble{ReadyTimeout: 600, Warmups: 4, RequestRate: 10, Burstiness: 0.5, MaxConcurrency: new(8)}},
		{"head-ramp", Preamble{RampUp: "linear", RampStart: 1, RampEnd: 10, RequestRate: math.Inf(1), Burstiness: math.Inf(1)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			for _, print := range []func() error{
				func() error { return c.p.Ready(&b) },
				func() error { return c.p.Warmup(&b) },
				func() error { return c.p.WarmedUp(&b) },
				func() error { return c.p.Main(&b) },
			} {
				if err := print(); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, "preamble-"+c.name+".txt", b.String())
		})
	}
}
