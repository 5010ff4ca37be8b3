package harvest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"spate/internal/result"
)

// gist is what must not depend on how a text was copied around.
func gist(t interface{ Fatal(args ...any) }, text string) []string {
	h, err := Read("x", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range h.Entries {
		line := r.Format
		for _, f := range r.Metrics {
			line += " " + f.Name + "=" + f.String()
		}
		line += fmt.Sprintf(" log=%d error=%q", len(r.EngineLog), r.Error)
		if r.Launch != nil {
			line += " launch=" + *r.Launch
		}
		line += " n=" + r.Context.Text("num_prompts") + " in=" + r.Context.Text("input_len") + " rate=" + r.Context.Text("request_rate")
		out = append(out, line)
	}
	for p := range h.All() {
		if p.Bad() {
			out = append(out, "bad: "+p.Text)
		}
	}
	return out
}

// wearAndTear are things that happen to a text on its way into a file, line by line.
var wearAndTear = map[string]func(line string) string{
	"nothing": func(l string) string { return l },
	"CRLF":    func(l string) string { return l + "\r" },
	"colours": func(l string) string { return "\x1b[1;32m" + l + "\x1b[0m" },
	"cursor":  func(l string) string { return "\x1b[2K\x1b[1G" + l },
	"title":   func(l string) string { return "\x1b]0;bench\a" + l },
	"progress bar": func(l string) string {
		return "\r 50%|█████     | 1/2 [00:01<00:01]\r100%|██████████| 2/2 [00:02<00:00]\r" + l
	},
	"indentation":   func(l string) string { return "    " + l },
	"tabs":          func(l string) string { return "\t" + l },
	"quote":         func(l string) string { return "> " + l },
	"deep quote":    func(l string) string { return "> > " + l },
	"hard spaces":   func(l string) string { return strings.ReplaceAll(l, " ", "\u00a0") },
	"no trailing":   func(l string) string { return strings.TrimRight(l, " ") },
	"more trailing": func(l string) string { return l + "   " },
	"byte mark":     func(l string) string { return "\ufeff" + l },
}

func TestWearAndTear(t *testing.T) {
	for _, file := range reportFiles(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := gist(t, string(data))
		for name, wear := range wearAndTear {
			t.Run(file[len(file)-7:len(file)-4]+" "+name, func(t *testing.T) {
				lines := strings.Split(string(data), "\n")
				for i := range lines {
					lines[i] = wear(lines[i])
				}
				if diff := cmp.Diff(want, gist(t, strings.Join(lines, "\n"))); diff != "" {
					t.Errorf("(-whole +worn)\n%s", diff)
				}
			})
		}
	}
}

// chatter is what stands between results and means nothing.
var chatter = []string{
	"", "---", "see also the table below.", "| a | b |", "| --- | --- |", "```", "\r 10%|█ | 1/10 [00:01<00:09]", "WARNING 11-26 pynvml.py:1] deprecated",
	"done in 3.2s", "+ sleep 2", "Requirement already satisfied: numpy", "结果如下", "{", "}", "[", "\x1b[31mred\x1b[0m", "================",
	"* Mean: fine", "vllm is fast", "{\"level\": \"info\", \"msg\": \"hello\"}", "key: value", "f() {", "  return 1", "{{ .Template }}", "Elapsed: 12",
	strings.Repeat("x", 300),
}

// TestNoiseBetweenResults: lines that mean nothing change nothing.
func TestNoiseBetweenResults(t *testing.T) {
	var text string // two or three results of each kind
	for _, part := range []struct {
		file  string
		lines int
	}{{"000", 68}, {"003", 77}, {"004", 124}} {
		data, err := os.ReadFile("testdata/reports/" + part.file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		text += strings.Join(strings.SplitAfter(string(data), "\n")[:part.lines], "")
	}
	h, err := Read("x", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := gist(t, text)
	rapid.Check(t, func(t *rapid.T) {
		lines := strings.Split(text, "\n")
		for _, r := range slices.Backward(h.Entries) {
			noise := rapid.SliceOfN(rapid.SampledFrom(chatter), 0, 6).Draw(t, "noise")
			lines = slices.Insert(lines, r.Source.EndLine, pairFences(noise)...)
		}
		if diff := cmp.Diff(want, gist(t, strings.Join(lines, "\n"))); diff != "" {
			t.Fatalf("(-quiet +noisy)\n%s", diff)
		}
	})
}

// pairFences closes a fence that noise opens, since headings inside one are none.
func pairFences(noise []string) []string {
	open := 0
	for _, n := range noise {
		if n == "```" {
			open++
		}
	}
	if open%2 == 1 {
		noise = append(noise, "```")
	}
	return noise
}

// TestCutAnywhere: of a text cut at any line, every result before the cut is read as in the whole one,
// and a result that is cut is reported.
func TestCutAnywhere(t *testing.T) {
	for _, name := range []string{"001", "003", "004"} {
		data, err := os.ReadFile("testdata/reports/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(data), "\n")
		whole := mustRead(t, "testdata/reports/"+name+".txt")
		for cut := 1; cut < min(len(lines), 260); cut += 5 {
			h, err := Read("x", strings.NewReader(strings.Join(lines[:cut], "")))
			if err != nil {
				t.Fatal(err)
			}
			complete := 0
			inside, begun := false, false
			for _, r := range whole.Entries {
				if r.Format == result.FormatFailedLaunch {
					continue
				}
				if r.Source.EndLine <= cut {
					complete++
					continue
				}
				begun = begun || r.Source.Line <= cut
				inside = inside || r.Source.Line <= cut-8 // enough of it to be known for one
			}
			kept := slices.DeleteFunc(h.Entries, func(r result.Entry) bool { return r.Format == result.FormatFailedLaunch })
			if len(kept) < complete {
				t.Fatalf("%s cut after line %d: %d results, want %d", name, cut, len(kept), complete)
			}
			if inside && h.Bad() == 0 && len(kept) == complete {
				t.Errorf("%s cut after line %d: nobody noticed", name, cut)
			}
			if !begun && h.Bad() > 0 && len(kept) == complete {
				t.Errorf("%s cut after line %d: %v", name, cut, h.Problems)
			}
		}
	}
}

func TestEncodings(t *testing.T) {
	data, err := os.ReadFile("testdata/reports/000.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := gist(t, string(data))
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes(data)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"UTF-16": string(wide), "gzip": packed.String(), "one long line first": strings.Repeat("y", 3<<20) + "\n" + string(data)} {
		if diff := cmp.Diff(want, gist(t, text)); diff != "" {
			t.Errorf("%s (-plain +%s)\n%s", name, name, diff)
		}
	}
	cut := packed.Bytes()[:packed.Len()/2]
	h, err := Read("x", bytes.NewReader(cut))
	if err == nil || h == nil || len(h.Entries) == 0 {
		t.Errorf("half a gzip file: %v, error %v, want the results before the cut and an error", h, err)
	}
}

// TestBigObject: a result file far larger than what is held of it, on one line and indented.
func TestBigObject(t *testing.T) {
	const n = 5_000
	floats := strings.Repeat("0.0123456789, ", n-1) + "0.5"
	list := strings.Repeat("["+strings.Repeat("0.01, ", 20)+"0.02], ", n-1) + "[]"
	text := `{"date": "20260102-030405", "model_id": "m", "duration": 10.0, "completed": 20, "request_throughput": 2.0, "ttfts": [` + floats +
		`], "itls": [` + list + `], "generated_texts": ["` + strings.Repeat("word } ", 100_000) + `"], "mean_ttft_ms": 12.5}`
	for name, text := range map[string]string{"one line": text, "lines": strings.ReplaceAll(text, ", ", ",\n  ")} {
		h, err := Read("x", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Entries) != 1 {
			t.Fatalf("%s: %d results, problems %v", name, len(h.Entries), h.Problems)
		}
		r := h.Entries[0]
		if f, _ := r.Metrics.Get("mean_ttft_ms"); f.String() != "12.5" || r.Context.Text("per_request_entries") != "5000" {
			t.Errorf("%s: mean_ttft_ms %q, %s entries", name, f.Text, r.Context.Text("per_request_entries"))
		}
	}
}

func BenchmarkServerLog(b *testing.B) {
	line := "(APIServer pid=158) INFO 09-02 13:08:10 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 238.7 tokens/s, Running: 10 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.1%, Prefix cache hit rate: 53.7%\n"
	access := "(APIServer pid=158) INFO:     127.0.0.1:38542 - \"POST /v1/completions HTTP/1.1\" 200 OK\n"
	text := strings.Repeat(strings.Repeat(access, 99)+line, 200)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read("x", strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
