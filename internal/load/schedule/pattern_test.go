package schedule

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/pytext"
)

func sleeping(change func(*Settings)) func(*Settings) {
	return func(l *Settings) {
		l.Pacing = PacingSlept
		change(l)
	}
}

func TestArrivals(t *testing.T) {
	three, one, nine := 3, 1, 9
	for _, c := range []struct {
		name   string
		change func(*Settings)
		n      int
		text   string
		slots  int
		closed bool
		until  time.Duration
		count  int // due, 0: do not care
	}{
		{"burst", func(*Settings) {}, 5, "5 requests at once", 0, false, 0, 5},
		{"rate", func(l *Settings) { l.RequestRate = 2 }, 5, "5 requests at 2 per second", 0, false, 0, 5},
		{"rate for a time", func(l *Settings) { l.RequestRate, l.Duration = 50, time.Second }, 0, "50 requests per second, for 1s", 0, false, time.Second, 0},
		{"slept", sleeping(func(l *Settings) { l.RequestRate = 2 }), 5, "5 requests at 2 per second, each gap slept after the request before", 0, false, 0, 5},
		{"slept for a time", sleeping(func(l *Settings) { l.RequestRate, l.Duration = 50, time.Second }), 0, "50 requests per second, each gap slept after the request before, for 1s", 0, false, time.Second, 0},
		{"slept with a cap", sleeping(func(l *Settings) { l.RequestRate, l.MaxConcurrency = 2, &three }), 5, "5 requests at 2 per second, each gap slept after the request before", 3, false, 0, 5},
		{"nothing to sleep", sleeping(func(*Settings) {}), 5, "5 requests at once", 0, false, 0, 5},
		{"closed loop", func(l *Settings) { l.MaxConcurrency = &three }, 5, "closed loop, 3 at a time", 3, true, 0, 0},
		{"closed loop for a time", func(l *Settings) { l.MaxConcurrency, l.Duration = &three, time.Minute }, 0, "closed loop, 3 at a time, for 1m0s", 3, true, time.Minute, 0},
		{"capped rate", func(l *Settings) { l.RequestRate, l.MaxConcurrency = 2, &three }, 5, "5 requests at 2 per second", 3, false, 0, 5},
		{"ramp", func(l *Settings) { l.RampUp, l.RampStart, l.RampEnd = RampLinear, &one, &nine }, 5, "5 requests, linear ramp from 1 to 9 per second", 0, false, 0, 5},
		{"stages", func(l *Settings) {
			l.Stages = Stages{{For: time.Second, From: 5, To: 5}}
		}, 0, "stages 1s@5", 0, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &Settings{RequestRate: pytext.Number(math.Inf(1)), Burstiness: 1}
			c.change(l)
			a, err := (&Run{Settings: l, N: c.n}).Arrivals()
			if err != nil {
				t.Fatal(err)
			}
			if a.Text != c.text || a.Plan.Slots != c.slots || (a.Plan.Due == nil) != c.closed || c.until > 0 && a.Plan.Until != c.until {
				t.Errorf("%q, slots %d, closed %v, until %v", a.Text, a.Plan.Slots, a.Plan.Due == nil, a.Plan.Until)
			}
			if want := strings.Contains(c.text, "slept"); a.Plan.Slept != want || a.Plan.N != c.n {
				t.Errorf("slept %v, want %v; %d requests", a.Plan.Slept, want, a.Plan.N)
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
	a, err := (&Run{Settings: &Settings{RequestRate: 2, Burstiness: 1, Pacing: PacingSlept}, N: 4}).Arrivals()
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(a.Plan.Due); !slices.Equal(got, []time.Duration{0, 397937254, 1025902636, 1487514208}) {
		t.Errorf("due at %d", got)
	}
}

// TestDocumentedPatterns holds docs/arrivals.md against the table: every pattern in its order, with its line.
func TestDocumentedPatterns(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/arrivals.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(raw)) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && !strings.HasPrefix(line, "| pattern") && !strings.HasPrefix(line, "| ---") {
			rows = append(rows, strings.TrimPrefix(cells[0], "| ")+": "+strings.TrimSuffix(strings.TrimSpace(cells[2]), " |"))
		}
	}
	var want []string
	for _, p := range Patterns() {
		want = append(want, p.Name+": "+p.About)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("docs/arrivals.md has\n%q, the table\n%q", rows, want)
	}
}

// TestLasts checks how long sending takes, by hand.
func TestLasts(t *testing.T) {
	two := 2
	for _, c := range []struct {
		name  string
		s     Settings
		want  time.Duration
		known bool
	}{
		{"rate", Settings{RequestRate: 4}, 25 * time.Second, true},
		{"slept", Settings{RequestRate: 4, Pacing: PacingSlept}, 25 * time.Second, true},
		{"rate for a time", Settings{RequestRate: 4, Duration: time.Second}, time.Second, true},
		{"stages", Settings{RequestRate: pytext.Number(math.Inf(1)), Stages: Stages{{For: 3 * time.Second, From: 1, To: 1}, {For: 4 * time.Second, From: 1, To: 2}}}, 7 * time.Second, true},
		{"burst", Settings{RequestRate: pytext.Number(math.Inf(1))}, 0, false},
		{"closed loop", Settings{RequestRate: pytext.Number(math.Inf(1)), MaxConcurrency: &two}, 0, false},
		{"ramp", Settings{RequestRate: pytext.Number(math.Inf(1)), RampUp: RampLinear, RampStart: &two, RampEnd: &two}, 0, false},
	} {
		if got, known := (&Run{Settings: &c.s, N: 100}).Lasts(); got != c.want || known != c.known {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, got, known, c.want, c.known)
		}
	}
}
