package schedule

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Schedules computed by testdata/golden.py with NumPy itself must come out here to the nanosecond, one for the
// last bit of a logarithm.
func TestVLLMGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		N        int
		Rate     float64
		Shape    string
		Seed     uint32
		Ramp     string
		From, To float64
		Head     []time.Duration
		Slept    []time.Duration
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 14 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d at %v shape %s seed %d %s", c.N, c.Rate, c.Shape, c.Seed, c.Ramp), func(t *testing.T) {
			shape, err := strconv.ParseFloat(c.Shape, 64)
			if err != nil {
				t.Fatal(err)
			}
			if c.Ramp != "" {
				ramp := Ramp{Exponential: c.Ramp == "exponential", From: c.From, To: c.To}
				equalTimes(t, c.Head, times(t)(Ramped(c.N, ramp, shape, c.Seed)))
				return
			}
			equalTimes(t, c.Head, times(t)(VLLM(c.N, c.Rate, shape, c.Seed)))
			equalTimes(t, c.Slept, times(t)(Slept(c.N, c.Rate, shape, c.Seed)))
		})
	}
}

// times collects what a constructor planned: times(t)(Poisson(2, 0)).
func times(t *testing.T) func(Plan, error) []time.Duration {
	return func(p Plan, err error) []time.Duration {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(p.Due)
	}
}

func equalTimes(t *testing.T, want, got []time.Duration) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d times, want %d", len(got), len(want))
	}
	for i := range want {
		if d := got[i] - want[i]; d < -1 || d > 1 {
			t.Fatalf("time %d is %v, want %v", i, got[i], want[i])
		}
	}
}
