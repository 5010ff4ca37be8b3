package enginelog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := []struct {
		name, text string
		want       Sample
	}{
		{
			"V1", "INFO 08-22 10:11:12 [loggers.py:116] Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 200.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, GPU KV cache usage: 97.3%, Prefix cache hit rate: 12.0%",
			Sample{Line: 7, Time: "08-22 10:11:12", Engine: "000", PromptTPS: "10.5", GenerationTPS: "200.0", Running: "3", Waiting: "4", KVUsage: "97.3", PrefixHit: "12.0"},
		},
		{
			"V0", "INFO 01-02 03:04:05 metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 30.1 tokens/s, Running: 1 reqs, Swapped: 2 reqs, Pending: 0 reqs, GPU KV cache usage: 0.4%, CPU KV cache usage: 0.0%.",
			Sample{Line: 7, Time: "01-02 03:04:05", PromptTPS: "0.0", GenerationTPS: "30.1", Running: "1", Swapped: "2", Waiting: "0", KVUsage: "0.4", CPUKVUsage: "0.0"},
		},
		{
			"cut", "throughput: 1.0 tokens/s, Running: 9 reqs, Waiting: 8 reqs, GPU KV cache",
			Sample{Line: 7, Running: "9", Waiting: "8", Cut: true},
		},
	}
	for _, c := range cases {
		got, ok := Parse(c.text, 7)
		if d := cmp.Diff(c.want, got); !ok || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, ok, d)
		}
	}
	for _, other := range []string{"", "Running: 5 tests", "Avg generation throughput: fast", "reqs Running: "} {
		if got, ok := Parse(other, 1); ok {
			t.Errorf("%q was read as %+v", other, got)
		}
	}
	s := cases[1].want
	if !Complete("INFO metrics.py:471] Prefix cache hit rate: GPU: 50.25%, CPU: 0.00%", &s) || s.PrefixHit != "50.25" || s.CPUPrefixHit != "0.00" {
		t.Errorf("V0's second line: %+v", s)
	}
	if Complete("nothing", &s) || Complete("Prefix cache hit rate: GPU: 50.25%, CPU: 0.00%", nil) {
		t.Error("completed by a line that says nothing, or completed nothing")
	}
}

func TestParseSGLang(t *testing.T) {
	cases := []struct {
		name, text string
		want       Sample
	}{
		{
			"decode", "[2025-03-01 10:00:00 TP0] Decode batch. #running-req: 24, #token: 12000, token usage: 0.12, cuda graph: True, gen throughput (token/s): 1234.56, #queue-req: 3,",
			Sample{Line: 1, Time: "2025-03-01 10:00:00", Engine: "TP0", Running: "24", Waiting: "3", KVUsage: "12.0", GenerationTPS: "1234.56"},
		},
		{
			"prefill", "[2025-03-01 10:00:00] Prefill batch. #new-seq: 8, #new-token: 4096, #cached-token: 0, token usage: 0.97, #running-req: 4, #queue-req: 10,",
			Sample{Line: 1, Time: "2025-03-01 10:00:00", Running: "4", Waiting: "10", KVUsage: "97.0"},
		},
	}
	for _, c := range cases {
		got, ok := ParseSGLang(c.text, 1)
		if d := cmp.Diff(c.want, got); !ok || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, ok, d)
		}
	}
	for _, other := range []string{"", "Decode batch.", " batch #running-req: x", " batch #running-req: 3"} {
		if got, ok := ParseSGLang(other, 1); ok {
			t.Errorf("%q was read as %+v", other, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 200.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, GPU KV cache usage: 97.3%")
	f.Add("Decode batch. #running-req: 24, token usage: 0.12, gen throughput (token/s): 1234.56, #queue-req: 3,")
	f.Add("Prefix cache hit rate: GPU: 50.25%, CPU: 0.00%")
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string, int) (Sample, bool){Parse, ParseSGLang} {
			s, ok := parse(text, 3)
			if !ok {
				continue
			}
			if s.Line != 3 {
				t.Fatalf("line %d", s.Line)
			}
			for _, n := range []string{string(s.Running), string(s.Waiting), string(s.GenerationTPS)} {
				if n != "" && !strings.Contains(text, n) {
					t.Fatalf("%q does not stand in the text", n)
				}
			}
		}
		var s Sample
		Complete(text, &s)
	})
}
