package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func TestSpecialTokens(t *testing.T) {
	for _, test := range []struct {
		model, text   string
		special       bool
		first, last   string // names; "" where nothing is asserted
		specialsToAdd int
	}{
		{"llama3", "hello", true, "<|begin_of_text|>", "", 1},
		{"bert", "hello", true, "[CLS]", "[SEP]", 2},
		{"bertcased", "hello", true, "[CLS]", "[SEP]", 2},
		{"t5", "hello", true, "", "</s>", 1},
		{"metaspace", "hello", true, "<s>", "</s>", 2},
		{"qwen", "<|im_start|>x<|im_end|>", false, "<|im_start|>", "<|im_end|>", 0},
		{"cl100k_base", "x<|endofprompt|>", true, "", "<|endofprompt|>", 0},
	} {
		t.Run(test.model, func(t *testing.T) {
			tok := small(t, test.model)
			ids := tok.NewEncoder().Encode(nil, test.text, test.special)
			for name, got := range map[string]int32{test.first: ids[0], test.last: ids[len(ids)-1]} {
				want, ok := tok.ID(name)
				if name == "" {
					continue
				}
				if !ok || got != want || !tok.IsSpecial(got) {
					t.Errorf("%q is id %d, special %v; want %d, %v", name, got, tok.IsSpecial(got), want, ok)
				}
			}
			if tok.SpecialsToAdd() != test.specialsToAdd {
				t.Errorf("SpecialsToAdd is %d, want %d", tok.SpecialsToAdd(), test.specialsToAdd)
			}
		})
	}
}

func TestEncodeAppends(t *testing.T) {
	tok := small(t, "qwen")
	enc := tok.NewEncoder()
	ids := enc.Encode([]int32{7, 8}, "hello world", false)
	if alone := enc.Encode(nil, "hello world", false); !slices.Equal(ids, append([]int32{7, 8}, alone...)) {
		t.Errorf("got %v, want 7 8 and then %v", ids, alone)
	}
	if text := tok.AppendDecode([]byte("> "), ids[2:], false); string(text) != "> hello world" {
		t.Errorf("decoded %q", text)
	}
}

func TestDecodeUnknownIDs(t *testing.T) {
	for _, name := range []string{"qwen", "llama2", "t5", "bert"} {
		tok := small(t, name)
		ids := tok.NewEncoder().Encode(nil, "hello", false)
		odd := append([]int32{-5, 1 << 30}, append(slices.Clone(ids), int32(tok.Len()))...)
		if got, want := tok.Decode(odd, false), tok.Decode(ids, false); got != want {
			t.Errorf("%s: unknown ids change %q into %q", name, want, got)
		}
	}
}

func TestDecodeSkipsSpecial(t *testing.T) {
	tok := small(t, "qwen")
	ids := tok.NewEncoder().Encode(nil, "<|im_start|>a<think>b<|im_end|>", false)
	if got := tok.Decode(ids, true); got != "a<think>b" {
		t.Errorf("skipping special tokens leaves %q", got)
	}
	if got := tok.Decode(ids, false); got != "<|im_start|>a<think>b<|im_end|>" {
		t.Errorf("keeping them gives %q", got)
	}
}

// TestHeapMerge checks that long words, merged with a heap, come out as short
// ones do.
func TestHeapMerge(t *testing.T) {
	for _, name := range []string{"gpt2", "llama2", "metaspace"} {
		tok := small(t, name)
		m := tok.model.(*bpe)
		enc := tok.NewEncoder()
		for _, w := range []string{"serverserver", "aaaaaaaaaaaaaaaaaaaaa", "thethethe", "percentile measurement", "xy"} {
			for _, n := range []int{1, 5, 12} {
				s := strings.Repeat(w, n)
				if m.byteLevel {
					enc.symbols = m.byteSymbols(enc.symbols[:0], s)
				} else {
					enc.symbols = m.runeSymbols(enc.symbols[:0], s)
				}
				saved := slices.Clone(enc.symbols)
				scan := slices.Clone(enc.mergeScan(nil, m.pairs))
				enc.symbols = saved
				if heap := enc.mergeHeap(nil, m.pairs); !slices.Equal(scan, heap) {
					t.Errorf("%s, %q: scan %v, heap %v", name, s, scan, heap)
				}
			}
		}
	}
}

// TestEncodersShareTokenizer runs many encoders at once: with -race this shows
// that what they share is safe, and without that they agree.
func TestEncodersShareTokenizer(t *testing.T) {
	var corpus []string
	unzipJSON(t, "corpus.json", &corpus)
	corpus = corpus[:200]
	for _, name := range []string{"qwen", "gemma", "t5"} {
		tok := small(t, name)
		results := make([][]int32, 4)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() {
				enc := tok.NewEncoder()
				for _, s := range corpus {
					results[i] = enc.Encode(results[i], s, true)
				}
			})
		}
		wg.Wait()
		for i := range results {
			if !slices.Equal(results[i], results[0]) {
				t.Errorf("%s: encoder %d differs from the first", name, i)
			}
		}
	}
}

func TestCacheStartsOver(t *testing.T) {
	tok := small(t, "gpt2")
	enc := tok.NewEncoder()
	want := enc.Encode(nil, "zqzqz", false)
	for i := range wordCacheSize + 10 {
		enc.remember(fmt.Sprint("w", i), []int32{1})
	}
	if len(enc.cache) > wordCacheSize {
		t.Errorf("the cache has %d words", len(enc.cache))
	}
	if got := enc.Encode(nil, "zqzqz", false); !slices.Equal(got, want) {
		t.Errorf("got %v after the cache was full, %v before", got, want)
	}
}

func TestStream(t *testing.T) {
	text := "naïve 😀 服务器 – the end"
	for _, name := range []string{"gpt2", "llama2", "qwen", "t5", "bert", "o200k_base"} {
		tok := small(t, name)
		ids := tok.NewEncoder().Encode(nil, text, true)
		s := tok.NewStream(true)
		var b strings.Builder
		for _, id := range ids {
			part := s.Next(id)
			if !utf8.ValidString(part) || strings.Contains(part, "\uFFFD") {
				t.Errorf("%s: part %q is not whole characters", name, part)
			}
			b.WriteString(part)
		}
		b.WriteString(s.Rest())
		if want := tok.Decode(ids, true); b.String() != want {
			t.Errorf("%s: streamed %q, want %q", name, b.String(), want)
		}
	}
}

func TestStreamRest(t *testing.T) {
	tok := small(t, "gpt2")
	ids := tok.NewEncoder().Encode(nil, "a\U0001F9FF", false)
	s := tok.NewStream(true)
	var got string
	for _, id := range ids[:len(ids)-1] {
		got += s.Next(id)
	}
	if got != "a" || s.Rest() != "\uFFFD" {
		t.Errorf("half a character gave %q and then %q", got, s.Rest())
	}
}

func TestValidUTF8(t *testing.T) {
	const bad = "\uFFFD"
	for _, test := range []struct{ name, in, want string }{
		{"valid", "aé中😀", "aé中😀"},
		{"cut character is one", "a\xe4\xb8b", "a" + bad + "b"},
		{"cut emoji is one", "\xf0\x9f\x98", bad},
		{"stray bytes are one each", "\x80\x80", bad + bad},
		{"overlong", "\xe0\x80\x80", bad + bad + bad},
		{"surrogate", "\xed\xa0\x80", bad + bad + bad},
		{"too large", "\xf4\x90\x80\x80", bad + bad + bad + bad},
		{"never valid", "\xff\xc0a", bad + bad + "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(validUTF8([]byte("pre"+test.in), 3)); got != "pre"+test.want {
				t.Errorf("got %q, want %q", got, "pre"+test.want)
			}
		})
	}
}

// FuzzRoundTrip checks the law of byte-level models: decoding gives back the
// text, whatever it is, as long as no normalizer touches it.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "hello world", "a\n  ", "\x00\xff\xfe", "日本語 😀", "<|endoftext|>x", strings.Repeat("ab", 200)} {
		f.Add(s)
	}
	var toks []*Tokenizer
	for _, name := range []string{"gpt2", "llama3", "o200k", "tekken", "deepseek", "cl100k_base"} {
		toks = append(toks, small(f, name))
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range toks {
			ids := tok.NewEncoder().Encode(nil, s, false)
			if got, want := tok.Decode(ids, false), string(validUTF8([]byte(s), 0)); got != want {
				t.Errorf("%q became %q", s, got)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Len() {
					t.Errorf("%q has the id %d of %d", s, id, tok.Len())
				}
			}
		}
	})
}

// FuzzEncode checks that no model fails on any text.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "hello world", "e\u0301 ﬁ ½", "\x80\xe2\x96", "▁▁ <own> ownword", "カ\u3099 👍🏽"} {
		f.Add(s)
	}
	var toks []*Tokenizer
	for _, name := range fixtures(f) {
		toks = append(toks, small(f, name))
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range toks {
			enc := tok.NewEncoder()
			ids := enc.Encode(nil, s, true)
			if again := enc.Encode(nil, s, true); !slices.Equal(ids, again) {
				t.Errorf("%q gives %v and then %v", s, ids, again)
			}
			if text := tok.Decode(ids, true); utf8.ValidString(s) && !utf8.ValidString(text) {
				t.Errorf("%q decodes to invalid %q", s, text)
			}
		}
	})
}
