package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/rows"
)

// talk is a file whose sample is known by hand. With letters, each text is one token a letter and
// one more. Its six conversations of two turns are shuffled by seed 3 to 0 2 3 5 4 1.
func talk() string {
	type entry map[string]any
	conv := func(texts ...string) entry {
		var turns []map[string]string
		for i, text := range texts {
			turns = append(turns, map[string]string{"from": []string{"human", "gpt"}[i%2], "value": text})
		}
		return entry{"id": "x", "conversations": turns}
	}
	many := func(n int) string { return strings.Repeat("a", n) }
	raw, err := json.Marshal([]any{
		conv("aceg", "acegi"), // 5 and 6: kept
		entry{"id": "no conversation"},
		conv("ac", "acegi", "more"), // prompt of 3: too short
		conv("only one turn"),
		conv("bdf", "bd"),        // answer of 3: too short, unless the length is fixed
		conv("bdfh", "bdfhj"),    // 5 and 6: kept
		conv(many(1024), "aceg"), // prompt of 1025: too long
		"not an object",
		conv("kmo", many(2043)), // 4 and 2044: kept, just
	})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

type sample struct {
	text    string
	in, out int
}

func samples(rs []call.Request) []sample {
	var all []sample
	for _, r := range rs {
		all = append(all, sample{r.Prompt.Text, r.In.N, r.MaxOut})
	}
	return all
}

func TestShareGPT(t *testing.T) {
	var (
		zero  = sample{"aceg", 5, 6}
		three = sample{"bdfh", 5, 6}
		five  = sample{"kmo", 4, 2044}
		long  = strings.Repeat("a", 1024)
	)
	fixed := func(s sample, out int) sample { return sample{s.text, s.in, out} }
	two := sample{"bdf", 4, 0}
	cases := []struct {
		name string
		cfg  Config
		want []sample
		note string
	}{
		{"as many as there are", Config{N: 3, Seed: 3, Output: FromData}, []sample{zero, three, five}, ""},
		{"fewer", Config{N: 2, Seed: 3, Output: FromData}, []sample{zero, three}, ""},
		{"repeated", Config{N: 9, Seed: 3, Output: FromData}, []sample{zero, three, five, zero, five, five, zero, three, five}, "3 usable rows"},
		{"not repeated", Config{N: 9, Seed: 3, Output: FromData, NoOversample: true}, []sample{zero, three, five}, ""},
		{"not repeated in v0.6", Config{N: 9, Seed: 3, Output: FromData, Era: V6}, []sample{zero, three, five}, ""},
		{"not shuffled", Config{N: 2, Output: FromData, NoShuffle: true}, []sample{zero, three}, ""},
		{"fixed output", Config{N: 4, Seed: 3, Output: 1}, []sample{fixed(zero, 1), fixed(two, 1), fixed(three, 1), fixed(five, 1)}, ""},
		{"fixed output too long", Config{N: 4, Seed: 3, Output: 2044, NoOversample: true}, []sample{fixed(two, 2044), fixed(five, 2044)}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			open, closed := files(map[string]string{"talk.json": talk()})
			c.cfg.Dataset, c.cfg.Path, c.cfg.Open = "sharegpt", "talk.json", open
			got, notes := requests(t, c.cfg, &letters{}, nil)
			if d := cmp.Diff(c.want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
				t.Error(d)
			}
			if c.note == "" && len(notes) > 0 || c.note != "" && (len(notes) != 1 || !strings.Contains(notes[0], c.note)) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
			if *closed != 1 {
				t.Errorf("file closed %d times", *closed)
			}
			for _, r := range got {
				if r.Prompt.Text == long || r.In.From != call.FromTokenizer {
					t.Errorf("request %d: %+v", r.ID, r.In)
				}
			}
		})
	}
}

func TestShareGPTForms(t *testing.T) {
	open, _ := files(map[string]string{"talk.json": talk()})
	cfg := Config{Dataset: "sharegpt", Path: "talk.json", Open: open, N: 4, Seed: 3, Output: FromData}
	t.Run("ids", func(t *testing.T) {
		cfg := cfg
		cfg.IDs = true
		got, _ := requests(t, cfg, &letters{}, nil)
		want := call.Prompt{IDs: []int32{0, 1, 3, 5, 7}} // <s> a c e g
		for _, i := range []int{0, 3} {                  // drawn, and repeated
			if d := cmp.Diff(want, got[i].Prompt); d != "" || got[i].In.N != 5 {
				t.Errorf("request %d of %d tokens: %s", i, got[i].In.N, d)
			}
		}
	})
	t.Run("salt", func(t *testing.T) { // changes no choice, and is counted
		cfg := cfg
		cfg.Salt = "qq"
		got, _ := requests(t, cfg, &letters{}, nil)
		want := []sample{{"qq\naceg", 8, 6}, {"qq\nbdfh", 8, 6}, {"qq\nkmo", 7, 2044}, {"qq\naceg", 8, 6}}
		if d := cmp.Diff(want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
			t.Error(d)
		}
	})
	t.Run("no tokenizer", func(t *testing.T) {
		cfg := cfg
		cfg.Path = "words"
		cfg.Open, _ = files(map[string]string{"words": `[{"conversations":[{"value":"one two three four"},{"value":"a b c d e f g h i j"}]}]`})
		cfg.N = 1
		got, notes := requests(t, cfg, nil, nil)
		if got[0].In != (call.Count{N: 6, From: call.FromRequested}) || got[0].MaxOut != 13 {
			t.Errorf("%+v and %d, want 4 and 10 words at 1.3", got[0].In, got[0].MaxOut)
		}
		if d := cmp.Diff([]string{noTokenizer}, notes); d != "" {
			t.Error(d)
		}
	})
}

func TestShareGPTBadFiles(t *testing.T) {
	good := `{"conversations":[{"value":"aceg"},{"value":"acegi"}]}`
	cases := []struct{ name, text, fault, note string }{
		{"cut", `[` + good + `,{"conversations":[{"val`, "ends inside", ""},
		{"empty", ``, "ends inside", ""},
		{"lines", good + "\n" + good, "custom dataset", ""},
		{"no array", `"hello"`, "an array was expected", ""},
		{"nothing usable", `[{"conversations":[]}]`, "no conversation with two turns", ""},
		{"nothing fits", `[{"conversations":[{"value":"a"},{"value":"b"}]}]`, "none of the 1 conversations", ""},
		{"trailing", `[` + good + `] x`, "more after", ""},
		{"comma", `[` + good + `,]`, "comma", ""},
		{"broken row", `[{"conversations":[{"value":5},{"value":"x"}]},{"conversations":[{"text":"a"},{"value":"x"}]},` + good + `]`, "", "2 conversations without text"},
		{"bad escape in a row", `[{"conversations":[{"value":"\q"},{"value":"x"}]},` + good + `]`, "", "1 conversations without text"},
		{"pictures", `[{"image":"x.png","conversations":[{"value":"aceg"},{"value":"acegi"}]}]`, "", "1 conversations carry images"},
		{"byte order mark", "\ufeff[" + good + "]", "", ""},
		{"last key wins", `[{"conversations":[{"value":"zzzzz"},{"value":"zzzzz"}],"conversations":[{"value":"aceg"},{"value":"acegi"}]}]`, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			open, closed := files(map[string]string{"f": c.text})
			s, err := New(Config{Dataset: "sharegpt", Path: "f", Open: open, N: 1, Output: FromData, NoOversample: true, NoShuffle: true}, &letters{}, nil)
			var got call.Request
			if err == nil {
				got, err = s.Next(t.Context())
				if err == nil {
					_, eof := s.Next(t.Context())
					if !errors.Is(eof, io.EOF) {
						t.Errorf("after the last: %v", eof)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if *closed != 1 {
				t.Errorf("file closed %d times", *closed)
			}
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("error %v, want one with %q", err, c.fault)
				}
				return
			}
			if err != nil || got.Prompt.Text != "aceg" {
				t.Errorf("got %q, %v", got.Prompt.Text, err)
			}
			if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes %q, want %q", notes, c.note)
			}
		})
	}
}

// TestScanner holds the scanner against encoding/json, with buffers that end anywhere.
func TestScanner(t *testing.T) {
	cases := []string{
		`[]`, `[1,-2.5e3,true,false,null]`, ` [ { "a" : [ ] , "b\"\\" : "\\\"" } , "" ] `, `["\\","\\\\","\"","\\\""]`,
		`[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `[{"a":}]`, `["a]`, `[tru]`, `[01]`, `[`, `[[[[`, `[{]}`, `["\\\\\\"]`, `["a\\"`, `[{"a":1,}]`, `[1}`,
	}
	for _, text := range cases {
		want := json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), "[")
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			s := rows.NewScanner(r)
			err := s.Array(func(int) error { return s.Past(1) })
			if (err == nil) != want {
				t.Errorf("%q: error %v, valid %v", text, err, want)
			}
		}
	}
	broken := rows.NewScanner(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("[1,2]"))))
	if err := broken.Array(func(int) error { return broken.Past(1) }); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("read error came back as %v", err)
	}
	deep := rows.NewScanner(strings.NewReader(strings.Repeat("[", 100000)))
	if err := deep.Array(func(int) error { return deep.Past(1) }); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("deep nesting: %v", err)
	}
}

// reference is the index by encoding/json: the first two turns of every conversation that has two.
func reference(text []byte) (turns [][]json.RawMessage, ok bool) {
	var entries []json.RawMessage
	if json.Unmarshal(text, &entries) != nil || entries == nil {
		return nil, false
	}
	for _, e := range entries {
		var fields map[string]json.RawMessage
		if json.Unmarshal(e, &fields) != nil {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(fields["conversations"], &list) == nil && len(list) >= 2 {
			turns = append(turns, list[:2])
		}
	}
	return turns, true
}

func FuzzShareGPT(f *testing.F) {
	for _, seed := range []string{
		talk(), `[]`, `[{}]`, `[{"conversations":[1,2]}]`, `[{"conversations":[{"value":"a\"b"},{"value":"\\"}]}]`,
		`[{"conversations":null},{"conversations":[[],[]]}]`, `[{"conv\u0065rsations":["\\\"",{}]}]`, "\ufeff[]", `[1`, `{"conversations":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _, err := indexShareGPT(iotest.HalfReader(bytes.NewReader(text)))
		want, ok := reference(bytes.TrimPrefix(text, []byte("\ufeff")))
		if ok && err != nil && !strings.Contains(err.Error(), "nested") {
			t.Fatalf("valid JSON refused: %v", err)
		}
		if !ok || err != nil {
			return // the scanner lets through what only decoding finds
		}
		if len(got) != len(want) {
			t.Fatalf("%d conversations, want %d", len(got), len(want))
		}
		for i, at := range got {
			var turns []json.RawMessage
			part := fmt.Appendf(nil, "[%s]", text[at.at:at.at+at.size])
			if err := json.Unmarshal(part, &turns); err != nil || len(turns) != 2 {
				t.Fatalf("turns %s: %v", part, err)
			}
			for k := range turns {
				if !bytes.Equal(bytes.TrimSpace(turns[k]), bytes.TrimSpace(want[i][k])) {
					t.Fatalf("turn %s, want %s", turns[k], want[i][k])
				}
			}
		}
	})
}
