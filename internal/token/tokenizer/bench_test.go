package tokenizer

import (
	"os"
	"strings"
	"testing"
)

// benchTexts are about 4 KB each.
func benchTexts(b *testing.B) map[string]string {
	b.Helper()
	var corpus []string
	unzipJSON(b, "corpus.json", &corpus)
	code, err := os.ReadFile("scan.go")
	if err != nil {
		b.Fatal(err)
	}
	fill := func(from, to int) string {
		s := strings.Join(corpus[from:to], " ")
		return strings.Repeat(s+" ", 4096/len(s)+1)[:4096]
	}
	return map[string]string{"en": fill(19, 24), "code": string(code[:4096]), "cjk": strings.ToValidUTF8(fill(29, 32), "")}
}

// BenchmarkEncode uses the small vocabularies, which are harder than the real
// ones: their words fall into more tokens. SPATE_TOKENIZER names a real one.
func BenchmarkEncode(b *testing.B) {
	texts := benchTexts(b)
	toks := map[string]*Tokenizer{}
	for _, name := range []string{"llama3", "qwen", "o200k", "deepseek", "llama2", "gemma", "t5", "bert"} {
		toks[name] = small(b, name)
	}
	if path := os.Getenv("SPATE_TOKENIZER"); path != "" {
		tok, err := Load(path)
		if err != nil {
			b.Fatal(err)
		}
		toks = map[string]*Tokenizer{"real": tok}
	}
	for name, tok := range toks {
		for kind, text := range texts {
			b.Run(name+"/"+kind, func(b *testing.B) {
				enc := tok.NewEncoder()
				var ids []int32
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = enc.Encode(ids[:0], text, false)
				}
			})
		}
	}
}

// BenchmarkPrompt makes a prompt of 2000 tokens the way random workloads do:
// decode random ids, encode the text again.
func BenchmarkPrompt(b *testing.B) {
	tok := small(b, "qwen")
	if path := os.Getenv("SPATE_TOKENIZER"); path != "" {
		var err error
		if tok, err = Load(path); err != nil {
			b.Fatal(err)
		}
	}
	enc := tok.NewEncoder()
	ids := make([]int32, 2000)
	var text []byte
	var again []int32
	seed := uint32(1)
	b.ReportAllocs()
	for b.Loop() {
		for i := range ids {
			seed = seed*1664525 + 1013904223
			ids[i] = int32(seed>>8) % int32(tok.VocabSize())
		}
		text = tok.AppendDecode(text[:0], ids, true)
		again = enc.Encode(again[:0], string(text), false)
	}
	if len(again) == 0 {
		b.Error("no ids")
	}
}
