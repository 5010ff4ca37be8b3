package bench

import (
	"testing"

	"spate/internal/call"
	"spate/internal/settings/config"
)

// TestModelMix checks that names are asked for as often as their weights say, and the same way each time.
func TestModelMix(t *testing.T) {
	const n = 20000
	counts := func(m config.Model) map[string]int {
		mix := lora(&m, 7)
		got := map[string]int{}
		for i := range n {
			r := call.Request{ID: i, Number: i}
			mix(&r)
			got[r.Model]++
		}
		return got
	}
	near := func(got, want int) bool { return got > want-n/50 && got < want+n/50 }
	m := config.Model{LoRAModules: []string{"a", "b", "c"}, LoRAWeights: []float64{6, 3, 1}, LoRAAssignment: config.AssignRandom}
	got := counts(m)
	if !near(got["a"], 6*n/10) || !near(got["b"], 3*n/10) || !near(got["c"], n/10) {
		t.Errorf("%v of %d requests for weights 6, 3, 1", got, n)
	}
	if again := counts(m); again["a"] != got["a"] || again["b"] != got["b"] {
		t.Errorf("the same seed gave %v, then %v", got, again)
	}
	m.LoRAWeights, m.LoRAAssignment = nil, config.AssignRoundRobin
	if got := counts(m); got["a"]-got["c"] > 1 || got["a"] < got["c"] {
		t.Errorf("taking turns gave %v", got)
	}
	if lora(&config.Model{}, 7) != nil {
		t.Error("a mix of nothing")
	}
	if i := weighted([]float64{1, 1}, 1); i != 1 {
		t.Errorf("the end of the range falls on %d", i)
	}
}
