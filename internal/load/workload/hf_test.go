package workload

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// onDisk opens files of a tree, folders included.
func onDisk(tree map[string]string) func(string) (File, error) {
	m := fstest.MapFS{}
	for name, text := range tree {
		m[name] = &fstest.MapFile{Data: []byte(text), ModTime: time.Unix(0, 0)}
	}
	return func(name string) (File, error) {
		f, err := m.Open(name)
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return folder{f.(fs.ReadDirFile)}, nil
		}
		return memFile{bytes.NewReader(m[name].Data), new(int)}, nil
	}
}

type folder struct{ fs.ReadDirFile }

func (folder) ReadAt([]byte, int64) (int, error) { return 0, fs.ErrInvalid }

// talked is a row of conversations, as Parquet has it.
type talked struct {
	ID            string `parquet:"id"`
	Conversations []struct {
		From  string `parquet:"from"`
		Value string `parquet:"value"`
	} `parquet:"conversations,list"`
}

func parquetFile[T any](t testing.TB, rows []T) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.Compression(&parquet.Snappy))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHubRules(t *testing.T) {
	talk := make([]talked, 2)
	for i, texts := range [][2]string{{"abcdefgh", "acegik"}, {"ac", "acegik"}} { // the second prompt is too short
		for k, s := range texts {
			talk[i].Conversations = append(talk[i].Conversations, struct {
				From  string `parquet:"from"`
				Value string `parquet:"value"`
			}{[]string{"human", "gpt"}[k], s})
		}
	}
	open := onDisk(map[string]string{
		"talk/data/train-00000-of-00001.parquet": parquetFile(t, talk),
		"talk/README.md":                         "# not a table",
		"gsm8k/main/test-00000.parquet":          parquetFile(t, []struct{ Question, Answer string }{}),
		"gsm/main/test.jsonl":                    `{"question": "how many", "answer": "7"}`,
		"gsm/main/train.jsonl":                   `{"question": "not this", "answer": "7"}`,
		"gsm/socratic/test.jsonl":                `{"question": "nor this", "answer": "7"}`,
		"mt.json":                                `[{"turns": ["first", "second"]}]`,
		"eval.csv":                               "task_id,prompt\n1,\"def f():\n  pass\"\n",
		"aime.jsonl":                             `{"problem": "acegik", "solution": "acegi"}`,
		"coder.jsonl":                            `{"input": "x = 1", "instruction": "double it"}`,
		"edit.jsonl":                             `{"code": "c", "change_request": "r", "norm_distance": 0.4}` + "\n" + `{"code": "d", "change_request": "r", "norm_distance": 0.9}`,
		"zeta.jsonl":                             `{"events": "e", "input": "i", "output": "head<|editable_region_start|>ace"}`,
		"mlperf.jsonl":                           `{"system_prompt": "acegi", "question": "moq", "output": "acegik"}`,
		"own.jsonl":                              `{"instruction": "do it", "input": "with this", "output": "acegik"}`,
		"chat.jsonl":                             `{"messages": [{"role": "user", "content": "acegi"}, {"role": "assistant", "content": "acegik"}]}`,
		"questions.jsonl":                        `{"turns": ["acegi", "moqsu"]}`,
	})
	cases := []struct {
		name string
		path string
		cfg  HF
		out  int // asked for
		tmpl Template
		want []sample
	}{
		{"Conversation", "talk", HF{Name: "Aeala/ShareGPT_Vicuna_unfiltered"}, 0, wrap, []sample{{"abcdefgh", 5, 7}}},
		{"Conversation, length asked for", "talk", HF{Name: "Aeala/ShareGPT_Vicuna_unfiltered"}, 9, nil, []sample{{"abcdefgh", 5, 9}, {"ac", 3, 9}}},
		{"GSM8K", "gsm", HF{Name: "openai/gsm8k", Subset: "main"}, 0, wrap, []sample{{"<s>how many<s>", 11, 256}}},
		{"MTBench", "mt.json", HF{Name: "philschmid/mt-bench"}, 0, nil, []sample{{"first", 5, 256}}},
		{"HumanEval", "eval.csv", HF{Name: "openai/openai_humaneval"}, 5, nil, []sample{{"def f():\n  pass", 15, 5}}},
		{"AIMO", "aime.jsonl", HF{Name: "AI-MO/NuminaMath-CoT"}, 0, wrap, []sample{{"acegik", 7, 6}}},
		{"InstructCoder", "coder.jsonl", HF{Name: "likaixin/InstructCoder"}, 0, nil, []sample{{"x = 1\n\ndouble it Answer with the code alone and explain nothing.", 65, 200}}},
		{"NextEdit", "zeta.jsonl", HF{Name: "zed-industries/zeta"}, 0, nil, nil},
		{"MLPerf", "mlperf.jsonl", HF{Name: "mgoin/mlperf-inference-llama2-data"}, 0, nil, []sample{{"acegi\n\nmoq", 11, 7}}},
		{"instruction", "own.jsonl", HF{}, 0, wrap, []sample{{"do it\n\nwith this", 17, 7}}},
		{"messages", "chat.jsonl", HF{}, 0, nil, []sample{{"acegi", 6, 7}}},
		{"turns", "questions.jsonl", HF{}, 0, nil, []sample{{"acegi", 6, 256}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, notes := requests(t, Config{Dataset: "hf", Path: c.path, Open: open, Output: c.out, HF: c.cfg, NoShuffle: true}, &letters{}, c.tmpl)
			if c.want == nil {
				if len(got) != 1 || got[0].MaxOut < 5 || !strings.Contains(got[0].Prompt.Text, "around the cursor:\n\ni\n") {
					t.Errorf("%+v", got)
				}
				return
			}
			if d := cmp.Diff(c.want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
				t.Errorf("%s; notes %q", d, notes)
			}
		})
	}
	cfg := Config{Dataset: "hf", Path: "edit.jsonl", Open: open, HF: HF{Name: "vdaita/edit_5k_char", MinDistance: 0.5, MaxDistance: 1}}
	got, _ := requests(t, cfg, nil, nil)
	if len(got) != 1 || !strings.Contains(got[0].Prompt.Text, "\nd\n") || got[0].MaxOut != 4000 {
		t.Errorf("%+v", got)
	}
}

func TestHubFunctionCalls(t *testing.T) {
	row := func(s string) string {
		return fmt.Sprintf(`{"id": %q, "question": [[{"role": "user", "content": %q}]], "function": [{"name": "f", "parameters": {"type": "dict", "properties": {"x": {"type": "float"}, "type": {"type": "any"}}}}]}`, s, s) + "\n"
	}
	open := onDisk(map[string]string{
		"bfcl/BFCL_v3_simple.json": row("s1") + row("s2"), "bfcl/BFCL_v3_multiple.json": row("m1"), "bfcl/BFCL_v3_live_simple.json": row("l1"), "bfcl/BFCL_v3_live_multiple.json": row("no"),
	})
	cfg := Config{Dataset: "hf", Path: "bfcl", Open: open, Chat: true, NoShuffle: true, HF: HF{Name: "gorilla-llm/Berkeley-Function-Calling-Leaderboard"}}
	got, _ := requests(t, cfg, nil, nil)
	var order []string
	for _, r := range got {
		order = append(order, string(r.Prompt.Messages))
	}
	msg := func(s string) string { return `[{"content":"` + s + `","role":"user"}]` }
	if d := cmp.Diff([]string{msg("s1"), msg("l1"), msg("m1"), msg("s2")}, order); d != "" {
		t.Error(d)
	}
	want := `{"tool_choice":"auto","tools":[{"function":{"name":"f","parameters":{"properties":{"type":{"type":"string"},"x":{"type":"number"}},"type":"object"}},"type":"function"}]}`
	if string(got[0].Extra) != want || got[0].MaxOut != 512 {
		t.Errorf("%s, %d", got[0].Extra, got[0].MaxOut)
	}
	cfg.Chat = false
	if _, err := New(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), "openai-chat") {
		t.Errorf("%v", err)
	}
}

func TestChatRequests(t *testing.T) {
	open := onDisk(map[string]string{"r.jsonl": `{"model": "m", "stream": true, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "ace"}], "max_tokens": 9, "temperature": 0.5, "tools": []}` +
		"\n" + `{"messages": [{"role": "user", "content": "x"}]}`})
	cfg := Config{Dataset: "hf", Path: "r.jsonl", Open: open, Chat: true, NoShuffle: true, HF: HF{Name: "openai/requests"}}
	got, _ := requests(t, cfg, &letters{}, nil)
	if len(got) != 2 || got[0].MaxOut != 9 || got[1].MaxOut != 256 || string(got[0].Extra) != `{"temperature":0.5,"tools":[]}` || got[1].Extra != nil ||
		string(got[0].Prompt.Messages) != `[{"content":"s","role":"system"},{"content":"ace","role":"user"}]` {
		t.Errorf("%+v", got)
	}
	cfg.Chat = false
	if _, err := New(cfg, nil, nil); err == nil || !strings.Contains(err.Error(), "messages need a chat endpoint") {
		t.Errorf("%v", err)
	}
}

// saved opens the folders under testdata as they are on disk.
func saved(t *testing.T) func(string) (File, error) {
	t.Helper()
	return func(name string) (File, error) {
		f, err := os.Open(filepath.Join("testdata", filepath.FromSlash(name)))
		return f, err
	}
}

// TestHubArrow reads what the Hugging Face library's save_to_disk wrote: a folder for each split, with Arrow streams
// beside descriptions of them.
func TestHubArrow(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  HF
		want []sample
	}{
		{"a split", HF{Split: "test"}, []sample{{"how many are 4", 15, 20}, {"how many are 0", 15, 20}}},
		{"a rule", HF{Name: "openai/gsm8k"}, []sample{{"how many are 4", 15, 256}, {"how many are 0", 15, 256}}},
	} {
		got, notes := requests(t, Config{Dataset: "hf", Path: "hub", Open: saved(t), HF: c.cfg, NoShuffle: true}, &letters{}, nil)
		if d := cmp.Diff(c.want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
			t.Errorf("%s: %s; notes %q", c.name, d, notes)
		}
	}
	all, _ := requests(t, Config{Dataset: "hf", Path: "hub", Open: saved(t), NoShuffle: true}, nil, nil)
	if len(all) != 7 {
		t.Errorf("%d requests of both splits, want 7", len(all))
	}
	one, _ := requests(t, Config{Dataset: "hf", Path: "hub/train/data-00000-of-00001.arrow", Open: saved(t), NoShuffle: true}, nil, nil)
	if len(one) != 5 || one[1].Prompt.Text != "how many are 1" {
		t.Errorf("%d requests of a file: %+v", len(one), one)
	}
}

// TestHubOrder holds the order against the Hugging Face library's rules run with NumPy 2.4: a buffer of 1000 for
// streams, a permutation for a dataset that is loaded whole.
func TestHubOrder(t *testing.T) {
	var rows strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&rows, "{\"prompt\": \"p %d\"}\n", i)
	}
	open := onDisk(map[string]string{"long.jsonl": rows.String(), "short.jsonl": strings.Join(strings.SplitAfter(rows.String(), "\n")[:10], "")})
	for _, c := range []struct {
		path  string
		whole bool
		n     int
		want  string
	}{
		{"short.jsonl", false, 10, shortOrder},
		{"short.jsonl", true, 10, wholeOrder},
		{"long.jsonl", false, 6, longOrder},
	} {
		got, _ := requests(t, Config{Dataset: "hf", Path: c.path, Open: open, Output: 1, N: c.n, Seed: 3, HF: HF{Whole: c.whole}}, nil, nil)
		var order []string
		for _, r := range got {
			order = append(order, strings.TrimPrefix(r.Prompt.Text, "p "))
		}
		if s := strings.Join(order, " "); s != c.want {
			t.Errorf("%s, whole %v: %s, want %s", c.path, c.whole, s, c.want)
		}
	}
	got, notes := requests(t, Config{Dataset: "hf", Path: "short.jsonl", Open: open, Output: 1, N: 13}, nil, nil)
	if len(got) != 13 || got[12].Labels["repeat"] != "yes" || !strings.Contains(fmt.Sprint(notes), "10 usable rows") {
		t.Errorf("%d requests, %q", len(got), notes)
	}
	all, _ := requests(t, Config{Dataset: "hf", Path: "long.jsonl", Open: open, Output: 1}, nil, nil)
	seen := map[string]bool{}
	for _, r := range all {
		seen[r.Prompt.Text] = true
	}
	if len(all) != 1200 || len(seen) != 1200 {
		t.Errorf("%d requests of %d rows, want all 1200", len(all), len(seen))
	}
}

const (
	shortOrder = "9 6 0 2 1 4 7 5 3 8"
	wholeOrder = "9 6 0 2 1 4 7 5 3 8"
	longOrder  = "811 85 179 236 181 801"
)

func TestHubRefused(t *testing.T) {
	open := onDisk(map[string]string{
		"none.jsonl": `{"a": 1, "b": "x"}`, "empty.jsonl": "", "cut.jsonl": `{"prompt": "x"`, "bad.parquet": "PAR1xxxxPAR1", "bad.arrow": "ARROW1\x00\x00xxxxyyyyzzzz", "dir/readme.md": "x",
		"mt.jsonl": `{"prompt": "x"}`, "sub/a/train.jsonl": `{"prompt": "x"}`, "short.jsonl": `{"problem": "a", "solution": "b"}`,
	})
	for _, c := range []struct {
		path string
		cfg  HF
		want string
	}{
		{"gone", HF{}, "hf download"},
		{"none.jsonl", HF{}, "no column looks like a prompt"},
		{"empty.jsonl", HF{}, "holds no rows"},
		{"cut.jsonl", HF{}, "row 1"},
		{"bad.parquet", HF{}, "Parquet"},
		{"dir", HF{}, "holds no .parquet"},
		{"bad.arrow", HF{}, "Arrow"},
		{"sub", HF{Subset: "b"}, `no file of subset "b"`},
		{"mt.jsonl", HF{Name: "philschmid/mt-bench"}, `no "turns"`},
		{"short.jsonl", HF{Name: "AI-MO/NuminaMath-CoT"}, "no usable row"},
	} {
		s, err := New(Config{Dataset: "hf", Path: c.path, Open: open, N: 1, HF: c.cfg}, nil, nil)
		if err == nil {
			_, err = s.Next(t.Context())
			if e := s.Close(); e != nil {
				t.Fatal(e)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"prompt": "x"}`), ".jsonl")
	f.Add([]byte(`[{"prompt": ["a", {"content": "b"}]}]`), ".json")
	f.Add([]byte("prompt,answer\nx,\"y\"\n"), ".csv")
	f.Add([]byte(parquetFile(f, []struct{ Prompt string }{{"x"}})), ".parquet")
	if stream, err := os.ReadFile("testdata/hub/test/data-00000-of-00001.arrow"); err == nil {
		f.Add(stream, ".arrow")
	}
	f.Fuzz(func(t *testing.T, text []byte, ending string) {
		if len(text) > 1<<16 {
			return
		}
		open, _ := files(map[string]string{"f" + ending: string(text)})
		s, err := New(Config{Dataset: "hf", Path: "f" + ending, Open: open, N: 3, Workers: 1}, nil, nil)
		if err != nil {
			return
		}
		for range 3 {
			if _, err := s.Next(t.Context()); err != nil {
				break
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
