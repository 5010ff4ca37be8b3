package harvest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"spate/internal/host/enginelog"
)

// seed adds every example and the heads of the reports.
func seed(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"testdata/formats/*", "testdata/formats/*/*", "testdata/reports/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				continue // a folder
			}
			f.Add(string(data[:min(len(data), 6000)]))
		}
	}
	f.Add(smallBlock + smallJSON)
}

// FuzzRead holds what is true of any text: it is read without trouble, results come in order and stand
// where they say, everything can be written as JSON, and reading twice gives the same.
func FuzzRead(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Read("f", strings.NewReader(text))
		if err != nil {
			return // only gzip streams fail
		}
		lines := strings.Count(text, "\n") + 1
		if strings.HasPrefix(text, "\x1f\x8b") || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
			lines = 1 << 30
		}
		for _, r := range h.Entries {
			if r.Source.Line < 1 || r.Source.Line > lines || r.Source.EndLine > lines || r.Source.EndLine != 0 && r.Source.EndLine < r.Source.Line {
				t.Fatalf("%s stands on lines %d to %d of %d", r.Format, r.Source.Line, r.Source.EndLine, lines)
			}
			if !slices.IsSortedFunc(r.EngineLog, func(a, b enginelog.Sample) int { return a.Line - b.Line }) {
				t.Fatal("engine log is not in order")
			}
			for i, fig := range r.Metrics {
				if _, again := r.Metrics[:i].Get(fig.Name); again {
					t.Fatalf("%s comes twice", fig.Name)
				}
			}
		}
		first, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("read twice, two outcomes (%v)\n%s\n%s", err, first, second)
		}
	})
}

// FuzzJSONPush: whatever encoding/json takes for an object, in any two pieces, is read, with the same
// scalars under the same keys.
func FuzzJSONPush(f *testing.F) {
	seed(f)
	f.Add(`{"a": [1, {"b": "\ud83d\ude00\u00e9\n"}], "c": -1.5e-7, "a": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		whole, wholeErr := pushAll(text)
		half, halfErr := pushAll(text[:len(text)/2], text[len(text)/2:])
		if (wholeErr == nil) != (halfErr == nil) {
			t.Fatalf("whole: %v, in halves: %v", wholeErr, halfErr)
		}
		var want map[string]any
		if !utf8.ValidString(text) || len(text) > 2000 || json.Unmarshal([]byte(text), &want) != nil || want == nil || len(want) > 100 || strings.Count(text, "[")+strings.Count(text, "{") > maxDepth {
			return
		}
		if wholeErr != nil || whole == nil {
			t.Fatalf("encoding/json reads %q, this does not: %v", text, wholeErr)
		}
		for key, v := range want {
			got := whole.get(key)
			if s, ok := v.(string); ok && got.str() != s {
				t.Fatalf("%q is %q, want %q", key, got.str(), s)
			}
		}
		if half == nil {
			t.Fatal("lost in halves")
		}
	})
}

// pushAll feeds pieces and returns the object once it is complete.
func pushAll(pieces ...string) (*node, error) {
	var p jsonPush
	for _, piece := range pieces {
		_, done, err := p.feed(piece, 1)
		if done || err != nil {
			return p.root, err
		}
	}
	return nil, nil
}

// FuzzNamespace: names are identifiers, and a whole Namespace printed again reads the same.
func FuzzNamespace(f *testing.F) {
	f.Add(`Namespace(a=1, b='x, y', c=None, d=[1, 2], e={'k': (1,)}, f=<function g at 0x7f>, h="it's", i=inf, j=True)`)
	f.Add(`Namespace(a='unfinished`)
	f.Fuzz(func(t *testing.T, text string) {
		args, whole, ok := readNamespace(text)
		if whole && !ok && len(args) > 0 {
			t.Fatal("whole and not there")
		}
		for _, a := range args {
			if !isIdentifier(a.name) {
				t.Fatalf("%q is no name", a.name)
			}
			if _, err := json.Marshal(a.value); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzCommand: taking a command line apart never fails, and flags are named by what is there.
func FuzzCommand(f *testing.F) {
	f.Add(`+ python3 ../benchmark_serving.py --backend vllm --endpoint='/v1/completions' --num-prompts 10 --save-result`)
	f.Add(`root@h:~# docker run --gpus all vllm/vllm-openai:v1 --model "a b" \`)
	f.Add(`vllm serve m --x=-1 --y -2 --z`)
	f.Fuzz(func(t *testing.T, text string) {
		kind, cmd := readCommand(text)
		if kind != noCommand && !strings.Contains(text, cmd) {
			t.Fatalf("%q is not in %q", cmd, text)
		}
		for _, a := range flagsOf(text) {
			if a.name == "" || strings.Contains(a.name, "-") {
				t.Fatalf("flag named %q", a.name)
			}
			if _, err := json.Marshal(a.value); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzEngineLine: a sample's numbers stand in its line.
func FuzzEngineLine(f *testing.F) {
	f.Add("Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 238.7 tokens/s, Running: 10 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.1%, Prefix cache hit rate: 53.7%")
	f.Add("Avg prompt throughput: 5.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%.")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := enginelog.Parse(text, 7)
		if !ok {
			return
		}
		for _, n := range []json.Number{s.PromptTPS, s.GenerationTPS, s.Running, s.Waiting, s.Swapped, s.KVUsage, s.PrefixHit, s.Preemptions} {
			if !strings.Contains(text, string(n)) {
				t.Fatalf("%s is not in %q", n, text)
			}
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzBlock: rows of a block keep their text.
func FuzzBlock(f *testing.F) {
	f.Add("Successful requests:    10\nMean TTFT (ms): 5.5")
	f.Fuzz(func(t *testing.T, rows string) {
		h, err := Read("f", strings.NewReader("============ Serving Benchmark Result ============\n"+rows))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range h.Entries {
			for _, fig := range r.Metrics {
				if fig.From == "" && strings.HasSuffix(r.Format, "-block") && !strings.Contains(clean(strings.ReplaceAll(rows, "\n", " ")), fig.String()) && isPlain(strings.ReplaceAll(rows, "\n", " ")) {
					t.Fatalf("%s = %q is not in %q", fig.Name, fig.String(), rows)
				}
			}
		}
	})
}

// FuzzCSV: rows under a header give results on their own lines.
func FuzzCSV(f *testing.F) {
	f.Add("vllm,random,,8\nvllm,random,,9", true)
	f.Add("Time To First Token (ms),\"1,5\",2\n\nMetric,Value\nRequest Count (count),3", false)
	f.Fuzz(func(t *testing.T, rows string, lmdeploy bool) {
		header := "Metric,avg,min,max,p50\n"
		if lmdeploy {
			header = lmdeployHeader + "completed\n"
		}
		h, err := Read("f", strings.NewReader(header+rows))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(h); err != nil {
			t.Fatal(err)
		}
	})
}
