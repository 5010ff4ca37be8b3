package serve

import (
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	cases := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{" a", []string{" a"}},
		{"the cat", []string{"the", " cat"}},
		{"elephants eat", []string{"elepha", "nts", " eat"}},
		{"The  end.", []string{"T", "he", " ", " end", "."}},
		{"é\n", []string{"\xc3", "\xa9", "\n"}},
		{"a1b2", []string{"a", "1", "b", "2"}},
	}
	for _, c := range cases {
		var got []string
		ids := encode(nil, c.text)
		for _, id := range ids {
			got = append(got, decode([]int32{id}))
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || countTokens(c.text) != len(c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestEveryIDDecodes(t *testing.T) {
	seen := make(map[string]int32)
	for id := int32(0); id < eosID; id += 64811 {
		text := decode([]int32{id})
		if text == "" {
			t.Fatalf("id %d decodes to nothing", id)
		}
		if back := encode(nil, text); len(back) != 1 || decode(back) != text {
			t.Fatalf("id %d: %q encodes to %v", id, text, back)
		}
		if other, ok := seen[text]; ok && len(text) > 1 {
			t.Fatalf("ids %d and %d are both %q", id, other, text)
		}
		seen[text] = id
	}
	for _, id := range []int32{-1, eosID, vocabSize + 7} {
		if got := decode([]int32{id}); got != "" {
			t.Errorf("id %d decodes to %q", id, got)
		}
	}
}

func TestAnswersCountExactly(t *testing.T) {
	for stride := 1; stride < len(outWords); stride += 2 {
		e := encoder{answerState: answerState{stride: stride}}
		text := string(e.words(nil, 500, false))
		if n := countTokens(text); n != 500 {
			t.Fatalf("stride %d: %d tokens in a text of 500", stride, n)
		}
		ids := encode(nil, text)
		for i, id := range ids {
			if id != outIDs[i*stride%len(outWords)] {
				t.Fatalf("stride %d: token %d is %d", stride, i, id)
			}
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range []string{"", "hello world", "  x", "\xff\xfe", "ABC def ghijk 12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := encode(nil, text)
		if got := decode(ids); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
		if n := countTokens(text); n != len(ids) {
			t.Errorf("%q: counted %d of %d", text, n, len(ids))
		}
		for _, id := range ids {
			if id < 0 || id >= eosID {
				t.Errorf("%q: id %d", text, id)
			}
		}
	})
}
