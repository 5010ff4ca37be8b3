package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
)

func wrap(user string) (string, error) { return "<s>" + user + "<s>", nil }

func TestCustom(t *testing.T) {
	rows := `{"prompt": "ace", "output_tokens": 7, "other": [1]}` + "\r\n\n  \n" +
		`{"output_tokens": "8", "prompt": "aceg"}` + "\n" +
		`{"prompt": "bdfhj", "output_tokens": 9.7}`
	from := func(outs ...int) []sample {
		all := []sample{{"ace", 4, 0}, {"aceg", 5, 0}, {"bdfhj", 6, 0}}
		for i := range all {
			all[i].out = outs[i%len(outs)]
		}
		return all
	}
	cases := []struct {
		name string
		cfg  Config
		tok  Tokenizer
		tmpl Template
		want []sample
		note []string
	}{
		{name: "all rows", cfg: Config{N: 0, Output: FromData, SkipTemplate: true}, tok: &letters{}, want: from(7, 8, 9)},
		{name: "fixed output", cfg: Config{N: -1, Output: 256, SkipTemplate: true}, tok: &letters{}, want: from(256)},
		{name: "the first two", cfg: Config{N: 2, Output: 1, SkipTemplate: true}, tok: &letters{}, want: from(1)[:2]},
		{name: "no repeats", cfg: Config{N: 5, Output: 1, SkipTemplate: true, NoOversample: true}, tok: &letters{}, want: from(1)},
		{
			name: "templated", cfg: Config{N: 1, Output: 1}, tok: &letters{}, tmpl: wrap,
			want: []sample{{"<s>ace<s>", 6, 1}},
		},
		{
			name: "templated twice for chat", cfg: Config{N: 1, Output: 1, Chat: true}, tok: &letters{}, tmpl: wrap,
			want: []sample{{"<s>ace<s>", 6, 1}}, note: []string{"applies it again"},
		},
		{name: "template not wanted", cfg: Config{N: 1, Output: 1, SkipTemplate: true, Chat: true}, tok: &letters{}, tmpl: wrap, want: from(1)[:1]},
		{name: "template missing", cfg: Config{N: 1, Output: 1}, tok: &letters{}, want: from(1)[:1], note: []string{"no chat template"}},
		{
			name: "salted inside the template", cfg: Config{N: 1, Output: 1, Salt: "q"}, tok: &letters{}, tmpl: wrap,
			want: []sample{{"<s>q\nace<s>", 8, 1}},
		},
		{name: "no tokenizer", cfg: Config{N: 1, Output: 5, SkipTemplate: true}, want: []sample{{"ace", 2, 5}}, note: []string{"no tokenizer"}},
		{name: "tokenizer skipped as vLLM does", cfg: Config{N: 1, Output: 5, SkipTemplate: true, SkipTokenizer: true}, want: []sample{{"ace", 1, 1}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			open, closed := files(map[string]string{"rows.jsonl": rows})
			c.cfg.Dataset, c.cfg.Path, c.cfg.Open, c.cfg.NoShuffle = "custom", "rows.jsonl", open, true
			got, notes := requests(t, c.cfg, c.tok, c.tmpl)
			if d := cmp.Diff(c.want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
				t.Error(d)
			}
			if len(notes) != len(c.note) || len(notes) == 1 && !strings.Contains(notes[0], c.note[0]) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if *closed != 1 {
				t.Errorf("file closed %d times", *closed)
			}
		})
	}
}

// TestCustomOrder holds the order against CPython: random.seed(0), shuffle of twelve rows; then,
// past the last, random.seed(0) again and a choice for each request.
func TestCustomOrder(t *testing.T) {
	var rows strings.Builder
	for i := range 12 {
		fmt.Fprintf(&rows, "{\"prompt\":\"%d\"}\n", i)
	}
	open, _ := files(map[string]string{"rows": rows.String()})
	cfg := Config{Dataset: "custom", Path: "rows", Open: open, N: 12, Output: 1, SkipTemplate: true}
	got, _ := requests(t, cfg, &letters{}, nil)
	shuffled := strings.Fields("1 9 8 5 10 2 3 7 4 0 11 6")
	if d := cmp.Diff(shuffled, texts(got)); d != "" {
		t.Error(d)
	}
	cfg.Open, _ = files(map[string]string{"rows": strings.Join(strings.SplitAfter(rows.String(), "\n")[:5], "")})
	cfg.N, cfg.NoShuffle = 13, true
	got, notes := requests(t, cfg, &letters{}, nil)
	if d := cmp.Diff(strings.Fields("0 1 2 3 4 3 3 0 2 4 3 3 2"), texts(got)); d != "" {
		t.Error(d)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "5 usable rows") {
		t.Errorf("notes %q", notes)
	}
}

func TestCustomBadRows(t *testing.T) {
	good := `{"prompt":"x","output_tokens":1}` + "\n"
	cases := []struct{ name, text, want string }{
		{"cut line", good + good + `{"prompt":"y`, "line 3: not a JSON object"},
		{"blank lines count", "\n\n" + good + "\n" + `{"text":"y"}`, `line 5: no "prompt"`},
		{"prompt is a number", `{"prompt":5}`, "line 1"},
		{"an array", `[{"prompt":"x"}]`, "line 1"},
		{"null", good + "null", `line 2: no "prompt"`},
		{"no output", good + `{"prompt":"x"}`, `line 2: no "output_tokens"`},
		{"output is a word", good + `{"prompt":"x","output_tokens":"many"}`, `line 2: "output_tokens" is "many"`},
		{"output is negative", `{"prompt":"x","output_tokens":-1}`, "not a number of tokens"},
		{"output is half a token", `{"prompt":"x","output_tokens":"1.5"}`, "not a number of tokens"},
		{"output is a list", `{"prompt":"x","output_tokens":[1]}`, "not a number of tokens"},
		{"empty", "\n", "no rows"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			open, closed := files(map[string]string{"f": c.text})
			_, err := New(Config{Dataset: "custom", Path: "f", Open: open, Output: FromData}, nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if *closed != 1 {
				t.Errorf("file closed %d times", *closed)
			}
		})
	}
}

func TestTemplateError(t *testing.T) {
	open, _ := files(map[string]string{"f": `{"prompt":"x"}`})
	no := errors.New("undefined variable")
	s, err := New(Config{Dataset: "custom", Path: "f", Open: open, Output: 1}, &letters{}, func(string) (string, error) { return "", no })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := must(t, "sonnet")
	if _, err := New(cfg, &letters{}, func(string) (string, error) { return "", no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}

func FuzzCustom(f *testing.F) {
	for _, seed := range []string{`{"prompt":"x","output_tokens":1}`, "\n{\"prompt\":\"\\u0041\"}\r\n", `{"prompt":null}`, `[]`, `{"prompt":"a","output_tokens":"1e3"}`, "{}\n{}"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, data bool) {
		out := 3
		if data {
			out = FromData
		}
		open, _ := files(map[string]string{"f": string(text)})
		s, err := New(Config{Dataset: "custom", Path: "f", Open: open, Output: out, NoShuffle: true}, nil, nil)
		if err != nil {
			return
		}
		var rows []call.Request
		rows = append(rows, drain(t, s)...)
		n := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.TrimSpace(line) == "" {
				continue
			}
			var row struct{ Prompt string }
			if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &row); err != nil {
				t.Fatalf("line %q was let through: %v", line, err)
			}
			if n >= len(rows) || rows[n].Prompt.Text != row.Prompt || rows[n].MaxOut < 0 {
				t.Fatalf("row %d differs from %q", n, row.Prompt)
			}
			n++
		}
		if n != len(rows) {
			t.Fatalf("%d requests of %d rows", len(rows), n)
		}
	})
}
