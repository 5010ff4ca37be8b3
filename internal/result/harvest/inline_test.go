package harvest

import (
	"strings"
	"testing"
)

// closed is a result of the closed-loop client without rates of its own: 400 tokens in 8 s.
const closed = `
  "successful_requests": 10,
  "total_time": 8.0,
  "total_output_tokens": 400,
  "latency": {
    "average": 0.75
  },
  "time-per-output-token(tpot)": {
    "average": 0.0125, "p99": 0.0125
  }
}`

// TestObjectBehindWords: an object may begin behind other words of its line. What is no result stays text.
func TestObjectBehindWords(t *testing.T) {
	command := "vllm serve org/m --compilation-config '{\n  \"level\": 3\n}'\n"
	for name, tt := range map[string]struct {
		text   string
		launch bool
	}{
		"behind a rule":             {"------{" + closed, false},
		"behind words":              {"result of run 3: {  " + closed, false},
		"after one that breaks off": {"config = {\nnothing of the kind\n------{" + closed, false},
		"behind the end of another": {"a {\n\"b\": 1} then {" + closed, false},
		"after a command":           {command + "------{" + closed, true},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Read("x.txt", strings.NewReader(tt.text))
			if err != nil || len(h.Entries) != 1 {
				t.Fatalf("%d results, %v, %v", len(h.Entries), h.Problems, err)
			}
			r := h.Entries[0]
			wantFigures(t, "metrics", r.Metrics, map[string]string{
				"completed": "10", "request_throughput": "1.25", "output_throughput": "50", "mean_tpot_ms": "12.5",
			})
			if f, _ := r.Metrics.Get("output_throughput"); f.From != "total_output_tokens / duration" {
				t.Errorf("output_throughput is from %q", f.From)
			}
			if (r.Launch != nil) != tt.launch {
				t.Errorf("launch %v", r.Launch)
			}
		})
	}
}
