package nearest

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWord(t *testing.T) {
	flags := []string{"model", "num-prompts", "request-rate", "max-concurrency"}
	cases := []struct {
		name, word string
		known      []string
		want       string
	}{
		{"swapped letters", "modle", flags, "model"},
		{"a letter left out, joined by _", "num_promts", flags, "num-prompts"},
		{"the end left out", "request_rat", flags, "request-rate"},
		{"a part of it", "concurrency", flags, "max-concurrency"},
		{"capitals", "MODEL", flags, "model"},
		{"nothing like it", "zzz", flags, ""},
		{"one edit in a short word", "cutt", []string{"reset", "cut"}, "cut"},
		{"two edits are another word", "tp", []string{"rdma", "pcie"}, ""},
		{"the nearest wins", "Qwen3-9B", []string{"Qwen3-32B", "Qwen3-4B", "Qwen3-8B"}, "Qwen3-4B"},
		{"the earlier of equals", "bat", []string{"cat", "hat"}, "cat"},
		{"nothing known", "x", nil, ""},
		{"nothing asked", "", flags, ""},
	}
	for _, c := range cases {
		if got := Word(c.word, c.known); got != c.want {
			t.Errorf("%s: Word(%q) = %q, want %q", c.name, c.word, got, c.want)
		}
	}
}

func TestHint(t *testing.T) {
	type kind string
	kinds := []kind{"stall", "cut"}
	if got := Hint("stal", kinds); got != `: did you mean "stall"?` {
		t.Errorf("hint %q", got)
	}
	if got := Hint("refuse", kinds); got != "" {
		t.Errorf("hint %q for a word like none", got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"kitten", "sitting", 3},
		{"ab", "ba", 1},
		{"abcd", "acbd", 1},
		{"é", "e", 1},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d edits, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzWord: a hint is one of the known words, a word that is known is its own, and edits can be counted from either side.
func FuzzWord(f *testing.F) {
	f.Add("modle", "model,mode,--x")
	f.Add("", ",")
	f.Add("a_b", "a-b,A_B")
	f.Fuzz(func(t *testing.T, word, list string) {
		known := strings.Split(list, ",")
		got := Word(word, known)
		if got != "" && !slices.Contains(known, got) {
			t.Fatalf("%q is not among %q", got, known)
		}
		if i := slices.IndexFunc(known, func(k string) bool { return fold(k) == fold(word) }); i >= 0 && fold(got) != fold(word) {
			t.Fatalf("%q is known as %q, and %q is suggested", word, known[i], got)
		}
		for _, k := range known {
			d := distance(word, k)
			gap := utf8.RuneCountInString(word) - utf8.RuneCountInString(k)
			if d != distance(k, word) || d < max(gap, -gap) || d > max(utf8.RuneCountInString(word), utf8.RuneCountInString(k)) {
				t.Fatalf("%q and %q are %d and %d edits apart", word, k, d, distance(k, word))
			}
		}
	})
}
