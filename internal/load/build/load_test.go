package build

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/load/schedule"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
)

func sleeping(change func(*config.Load)) func(*config.Load) {
	return func(l *config.Load) {
		l.Pacing = config.PacingSlept
		change(l)
	}
}

func TestArrivals(t *testing.T) {
	three, one, nine := 3, 1, 9
	for _, c := range []struct {
		name   string
		change func(*config.Load)
		n      int
		text   string
		slots  int
		closed bool
		until  time.Duration
		count  int // due, 0: do not care
	}{
		{"burst", func(*config.Load) {}, 5, "5 requests at once", 0, false, 0, 5},
		{"rate", func(l *config.Load) { l.RequestRate = 2 }, 5, "5 requests at 2 per second", 0, false, 0, 5},
		{"rate for a time", func(l *config.Load) { l.RequestRate, l.Duration = 50, time.Second }, 0, "50 requests per second, for 1s", 0, false, time.Second, 0},
		{"slept", sleeping(func(l *config.Load) { l.RequestRate = 2 }), 5, "5 requests at 2 per second, each gap slept after the request before", 0, false, 0, 5},
		{"slept for a time", sleeping(func(l *config.Load) { l.RequestRate, l.Duration = 50, time.Second }), 0, "50 requests per second, each gap slept after the request before, for 1s", 0, false, time.Second, 0},
		{"slept with a cap", sleeping(func(l *config.Load) { l.RequestRate, l.MaxConcurrency = 2, &three }), 5, "5 requests at 2 per second, each gap slept after the request before", 3, false, 0, 5},
		{"nothing to sleep", sleeping(func(*config.Load) {}), 5, "5 requests at once", 0, false, 0, 5},
		{"closed loop", func(l *config.Load) { l.MaxConcurrency = &three }, 5, "closed loop, 3 at a time", 3, true, 0, 0},
		{"closed loop for a time", func(l *config.Load) { l.MaxConcurrency, l.Duration = &three, time.Minute }, 0, "closed loop, 3 at a time, for 1m0s", 3, true, time.Minute, 0},
		{"capped rate", func(l *config.Load) { l.RequestRate, l.MaxConcurrency = 2, &three }, 5, "5 requests at 2 per second", 3, false, 0, 5},
		{"ramp", func(l *config.Load) { l.RampUp, l.RampStart, l.RampEnd = config.RampLinear, &one, &nine }, 5, "5 requests, linear ramp from 1 to 9 per second", 0, false, 0, 5},
		{"stages", func(l *config.Load) {
			l.Stages = config.Stages(schedule.Stages{{For: time.Second, From: 5, To: 5}})
		}, 0, "stages 1s@5", 0, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &config.Load{RequestRate: config.Float(math.Inf(1)), Burstiness: 1}
			c.change(l)
			a, err := NewArrivals(l, c.n)
			if err != nil {
				t.Fatal(err)
			}
			if a.Text != c.text || a.Plan.Slots != c.slots || (a.Plan.Due == nil) != c.closed || c.until > 0 && a.Plan.Until != c.until {
				t.Errorf("%q, slots %d, closed %v, until %v", a.Text, a.Plan.Slots, a.Plan.Due == nil, a.Plan.Until)
			}
			if want := strings.Contains(c.text, "slept"); a.Plan.Slept != want || a.Plan.N != c.n {
				t.Errorf("slept %v, want %v; %d requests", a.Plan.Slept, want, a.Plan.N)
			}
			if (a.Ramp != nil) != (l.RampUp != "") {
				t.Errorf("ramp %+v", a.Ramp)
			}
			if !c.closed {
				if got := slices.Collect(a.Plan.Due); c.count > 0 && len(got) != c.count || len(got) == 0 || !slices.IsSorted(got) {
					t.Errorf("due at %v", got)
				}
			}
		})
	}
}

// The gaps of a slept plan are NumPy's for the seed, the first request goes at once, and nothing is stretched.
func TestSleptArrivals(t *testing.T) {
	a, err := NewArrivals(&config.Load{RequestRate: 2, Burstiness: 1, Pacing: config.PacingSlept}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(a.Plan.Due); !slices.Equal(got, []time.Duration{0, 397937254, 1025902636, 1487514208}) {
		t.Errorf("due at %d", got)
	}
}

func TestWorkload(t *testing.T) {
	seven := 7
	for _, c := range []struct {
		name   string
		change func(*config.Bench)
		want   func(workload.Config) bool
	}{
		{"random", func(b *config.Bench) {
			b.Dataset.Random.InputLen, b.Dataset.Random.OutputLen, b.Dataset.Random.PrefixLen = 10, 20, 3
			b.Dataset.Random.Meaning = workload.RatioV6
		}, func(w workload.Config) bool {
			return w.Input == 10 && w.Output == 20 && w.Prefix == 3 && w.Era == workload.V6 && w.N == 5 && !w.Endless
		}},
		{"sonnet", func(b *config.Bench) { b.Dataset.Name, b.Dataset.Sonnet.InputLen = config.DatasetSonnet, 99 }, func(w workload.Config) bool { return w.Input == 99 }},
		{"sharegpt", func(b *config.Bench) { b.Dataset.Name, b.Dataset.ShareGPT.OutputLen = config.DatasetShareGPT, &seven }, func(w workload.Config) bool { return w.Output == 7 }},
		{"sharegpt as it is", func(b *config.Bench) { b.Dataset.Name = config.DatasetShareGPT }, func(w workload.Config) bool { return w.Output == workload.FromData }},
		{"bounded by time", func(b *config.Bench) { b.Load.NumPrompts, b.Load.Duration = 0, time.Second }, func(w workload.Config) bool { return w.Endless && w.N > 0 }},
		{"every row", func(b *config.Bench) {
			b.Dataset.Name, b.Load.NumPrompts, b.Dataset.Custom.OutputLen = config.DatasetCustom, 0, -1
		}, func(w workload.Config) bool { return w.N == 0 && !w.Endless && w.Output == -1 }},
	} {
		b := &config.Bench{}
		b.Dataset.Name, b.Load.NumPrompts = config.DatasetRandom, 5
		c.change(b)
		if w := Workload(b, nil, false); !c.want(w) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}
