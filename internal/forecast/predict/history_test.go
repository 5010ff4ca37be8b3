package predict

import (
	"fmt"
	"testing"

	"spate/internal/forecast/profile"
)

// TestRecall tells histories apart by the hit rate of a run of 20 prompts of 160 tokens, 144 of which are
// found when they were sent before. Each run sends one request ahead.
func TestRecall(t *testing.T) {
	const text = `{"engines": {"g": {"engine": "vllm", "version": "0.10.1", "gpu": "A100-80GB", "model": "Qwen3-8B"}}, "rows": [
	  {"id": "small", "group": "g", "process": "other", "workload": {"num_prompts": 5, "request_rate": "inf", "dataset": "random",
	   "client": "vllm", "input_len": 160, "output_len": 200}},
	  {"id": "first", "group": "g", "process": "one", "order": 0, "engine_log": [%s], "workload": {"num_prompts": 20, "request_rate": "inf",
	   "dataset": "random", "client": "vllm", "input_len": 160, "output_len": 200}},
	  {"id": "second", "group": "g", "process": "one", "order": 1, "workload": {"num_prompts": 5, "request_rate": "inf",
	   "dataset": "random", "client": "vllm", "input_len": 160, "output_len": 200}}]}`
	cases := []struct {
		name   string
		hit    float64 // percent; below zero: no log line
		again  bool
		before string
	}{
		{"nothing else: 1 of 21 found", 90 * 1.0 / 21, false, ""},
		{"made twice: 22 of 42", 90 * 22.0 / 42, true, ""},
		{"five prompts before: 7 of 27", 90 * 7.0 / 27, false, "small"},
		{"no log", -1, true, ""},
	}
	list, err := profile.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	prof, err := profile.Find(list, "003-Qwen3-8B")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			log := ""
			if c.hit >= 0 {
				log = fmt.Sprintf(`{"running": 20, "waiting": 0, "prefix_hit_pct": %g}`, c.hit)
			}
			f, err := ParseRows(fmt.Appendf(nil, text, log))
			if err != nil {
				t.Fatal(err)
			}
			p := Processes(f)[1]
			if err := p.Recall(prof); err != nil {
				t.Fatal(err)
			}
			before := ""
			if p.past.before != nil {
				before = p.past.before.row.ID
			}
			if p.past.again != c.again || before != c.before {
				t.Errorf("first run again: %v, before it: %q; want %v and %q", p.past.again, before, c.again, c.before)
			}
			if got := len(p.played()); got != 2+btoi(c.again)+btoi(c.before != "") {
				t.Errorf("%d runs are played", got)
			}
		})
	}
}
