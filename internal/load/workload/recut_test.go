package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/load/lengths"
)

const conversations = `[{"conversations": [{"value": "aceg"}, {"value": "x"}]}, {"conversations": [{"value": " "}, {"value": "x"}]},
	{"conversations": [{"value": "no answer"}]}, {"conversations": [{"value": "bd"}, {"value": "x"}]}]`

// TestRecutByHand: ids are cut, or repeated and cut, to the length, the opening <s> included; a
// conversation without text takes no length.
func TestRecutByHand(t *testing.T) {
	base := Config{Dataset: "random", Path: "c.json", N: 2, Input: 7, Output: 9, Ratio: lengths.Ratio{Input: 1, Output: 1}, Era: V6, NoShuffle: true}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []sample
	}{
		"repeated":   {func(*Config) {}, []sample{{"<s>aceg<s>a", 7, 9}, {"<s>bd<s>bd<s>", 7, 9}}},
		"cut":        {func(c *Config) { c.Input = 3 }, []sample{{"<s>ac", 3, 9}, {"<s>bd", 3, 9}}},
		"specials":   {func(c *Config) { c.Input, c.LessSpecials = 4, true }, []sample{{"<s>ac", 3, 9}, {"<s>bd", 3, 9}}},
		"file ended": {func(c *Config) { c.Input, c.N = 3, 5 }, []sample{{"<s>ac", 3, 9}, {"<s>bd", 3, 9}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			open, closed := files(map[string]string{"c.json": conversations})
			cfg.Open = open
			c.change(&cfg)
			got, _ := requests(t, cfg, &letters{}, nil)
			if d := cmp.Diff(c.want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
				t.Error(d)
			}
			if *closed != 1 {
				t.Errorf("file closed %d times", *closed)
			}
		})
	}
}

// TestRecutWithoutTokenizer: words of the file, 1.3 tokens each, and a note.
func TestRecutWithoutTokenizer(t *testing.T) {
	open, _ := files(map[string]string{"c.json": `[{"conversations": [{"value": "one two three"}, {"value": "x"}]}]`})
	got, notes := requests(t, Config{Dataset: "random", Path: "c.json", Open: open, N: 1, Input: 7, Output: 2, Ratio: lengths.Ratio{Input: 1, Output: 1}, Era: V6}, nil, nil)
	want := []sample{{"one two three one two", 7, 2}} // 7 / 1.3 is 5.4
	if d := cmp.Diff(want, samples(got), cmp.AllowUnexported(sample{})); d != "" {
		t.Error(d)
	}
	if got[0].In.From != call.FromRequested || len(notes) != 1 || notes[0] != noTokenizer {
		t.Errorf("length from %q, notes %q", got[0].In.From, notes)
	}
}

// TestLeastLength: SGLang's and LMDeploy's lengths begin at 1 where vLLM 0.6 began at 0.
func TestLeastLength(t *testing.T) {
	cfg := Config{Input: 8, Output: 4, Era: V6, Least: 1}
	in, out, err := cfg.spans(0)
	if err != nil || in != (lengths.Span{Low: 1, High: 8}) || out != (lengths.Span{Low: 1, High: 4}) {
		t.Errorf("%v, %v, %v", in, out, err)
	}
	cfg.Least = 0
	if in, out, err = cfg.spans(0); err != nil || in != (lengths.Span{Low: 0, High: 8}) || out != (lengths.Span{Low: 0, High: 4}) {
		t.Errorf("%v, %v, %v", in, out, err)
	}
}

// TestWordsOfOneToken: prompts of words that are a token each have the asked length, the salt included.
func TestWordsOfOneToken(t *testing.T) {
	words := []string{"aa", "bb", "cc"}
	for _, cfg := range []Config{
		{Dataset: "random", N: 3, Input: 5, Output: 1, Words: words},
		{Dataset: "random", N: 3, Input: 3, Prefix: 2, Output: 1, Words: words},
		{Dataset: "random", N: 3, Input: 5, Output: 1, Words: words, Salt: "x y", SaltLen: 2},
		{Dataset: "prefix_repetition", N: 4, Prefix: 2, Suffix: 3, Groups: 2, Output: 1, Words: words},
	} {
		got, notes := requests(t, cfg, nil, nil)
		for _, r := range got {
			n := 1
			for _, b := range r.Prompt.Text {
				if b == ' ' {
					n++
				}
			}
			if n != 5 || r.In != (call.Count{N: 5, From: call.FromServer}) {
				t.Errorf("%s: %q of %+v", cfg.Dataset, r.Prompt.Text, r.In)
			}
		}
		if len(got) < 3 || len(notes) != 0 {
			t.Errorf("%s: %d requests, notes %q", cfg.Dataset, len(got), notes)
		}
	}
}
