package tokenizer

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
)

// hostileFile is a tokenizer.json of a few words with these parts.
func hostileFile(parts string) string {
	return `{"added_tokens":[],` + parts + `"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"a":1,"##a":2}}}`
}

// TestHostileTokenizers loads files that ask for time or memory without a bound: each is refused, or says that it
// cannot be used, and nothing grows meanwhile.
func TestHostileTokenizers(t *testing.T) {
	big := strings.Repeat("aaaaaaaa", 1<<15) // 256 KiB
	repeat := func(n int, part string) string {
		return strings.Join(strings.Split(strings.Repeat(part+"\x00", n), "\x00")[:n], ",")
	}
	replace := `{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"}`
	for name, parts := range map[string]string{
		"backtracking split":   `"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|aa)+$"},"behavior":"Isolated","invert":false},`,
		"backtracking replace": `"normalizer":{"type":"Replace","pattern":{"Regex":"(a*)*b"},"content":"c"},`,
		"nested replace":       `"normalizer":{"type":"Sequence","normalizers":[` + repeat(12, replace) + `]},`,
		"large replace":        `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + big + `"},`,
		"large pattern":        `"normalizer":{"type":"Replace","pattern":{"Regex":"a"},"content":"` + big + `"},`,
		"nested prepend":       `"normalizer":{"type":"Sequence","normalizers":[` + repeat(64, `{"type":"Prepend","prepend":"`+big+`"}`) + `]},`,
		"large metaspace":      `"pre_tokenizer":{"type":"Metaspace","replacement":"` + big + `","prepend_scheme":"always","split":false},`,
		"template": `"post_processor":{"type":"TemplateProcessing","single":[` + repeat(1000, `{"SpecialToken":{"id":"x","type_id":0}}`) +
			`,{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"x":{"id":"x","ids":[` + repeat(1000, "1") + `],"tokens":["x"]}}},`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tok, err := Parse([]byte(hostileFile(parts)))
			if err == nil {
				tok.NewEncoder().Encode(nil, strings.Repeat("a", 60)+strings.Repeat(" a", 300)+"!", true)
				err = tok.Err()
			}
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatal("nothing was wrong with it")
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
			if tok != nil {
				if ids := tok.NewEncoder().Encode(nil, "a", true); len(ids) != 0 {
					t.Errorf("it still encodes: %v", ids)
				}
			}
		})
	}
}

// BenchmarkMatchTime compares the pattern of GPT-4 with and without a bound on the time of a match, in one run.
func BenchmarkMatchTime(b *testing.B) {
	const expr = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	text := strings.Repeat("The quick brown fox, aged 1234 years, didn't jump over it.\n", 200)
	for _, bounded := range []bool{false, true} {
		b.Run(fmt.Sprintf("bounded=%v", bounded), func(b *testing.B) {
			re := regexp2.MustCompile(expr)
			if bounded {
				re.MatchTimeout = matchTime
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := re.FindAllStringIndex(text, -1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
