package report

import (
	"strings"
	"testing"

	"spate/internal/host/observe"
	"spate/internal/result"
)

func TestObservedGolden(t *testing.T) {
	level := func(mean, low, high float64) *observe.Level {
		return &observe.Level{Mean: mean, Min: low, Max: high, N: 9}
	}
	run := &result.Run{Observed: &observe.Summary{
		Server: &observe.ServerSide{
			Running: level(33.09, 25, 49), Waiting: level(0.32, 0, 4), KVUsage: level(0.91, 0.5, 0.99), FullShare: ptr(0.25),
		},
		Log:      &observe.ServerSide{Running: level(30, 30, 30), GenerationRate: level(1200, 1100, 1300)},
		FrontEnd: &observe.FrontEnd{ClientMS: 61.4, QueueMS: 16.5, PrefillMS: 44.4, RestMS: ptr(0.5)},
		GPUs: []observe.Device{
			{Name: "gpu0", Busy: true, Power: level(562, 116, 695), Utilization: level(0.76, 0, 1), MemoryUsed: level(7.1e10, 7e10, 7.2e10), Temperature: level(42, 27, 47)},
			{Name: "gpu1", Power: level(70, 70, 70)},
		},
		Energy:  &observe.Energy{Joules: 5886, GPUs: 1, PerOutputToken: 0.46, PerMillion: 91975},
		Cost:    &observe.Cost{PerHour: 3, PerMillion: 0.136, PerMillionOutput: 0.682},
		Sources: []observe.Fate{{Source: "server", Samples: 9, Failed: 2, Error: "connection refused"}, {Source: "host", Samples: 11}},
	}}
	s := new(sheet)
	observed(s, run)
	golden(t, "observed.txt", s.String())
	for _, line := range strings.Split(s.String(), "\n") {
		if len(line) > maxColumns {
			t.Errorf("a line is %d wide: %s", len(line), line)
		}
	}
	empty := new(sheet)
	observed(empty, &result.Run{})
	if empty.Len() > 0 {
		t.Errorf("a run nobody observed shows %q", empty.String())
	}
}

// A run that was killed has fewer requests than its server counted: no part of a TTFT is below 0.
func TestFirstTokenOfOtherRequests(t *testing.T) {
	for _, rest := range []*float64{nil, ptr(-0.74)} {
		got := firstToken(&observe.FrontEnd{ClientMS: 18.6, QueueMS: 7.27, PrefillMS: 12.1, RestMS: rest})
		if want := "18.6 ms; the server's means are over other requests: queue 7.27, prefill 12.1"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
