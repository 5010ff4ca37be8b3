package workload

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"spate/internal/load/lengths"
	"spate/internal/token/tokenizer"
)

// tiny is a byte-level BPE of the letters a to p, the space and the merges of neighbours.
func tiny(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	vocab, merges := []string{`"<s>":0`, `"Ġ":1`}, []string{}
	for c := 'a'; c <= 'p'; c++ {
		vocab = append(vocab, fmt.Sprintf(`"%c":%d`, c, len(vocab)))
	}
	for c := 'a'; c < 'p'; c++ {
		vocab = append(vocab, fmt.Sprintf(`"%c%c":%d`, c, c+1, len(vocab)))
		merges = append(merges, fmt.Sprintf(`"%c %c"`, c, c+1))
	}
	for c := 'a'; c <= 'p'; c++ {
		vocab = append(vocab, fmt.Sprintf(`"Ġ%c":%d`, c, len(vocab)))
		merges = append(merges, fmt.Sprintf(`"Ġ %c"`, c))
	}
	text := `{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
		"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"decoder":{"type":"ByteLevel"},
		"model":{"type":"BPE","vocab":{` + strings.Join(vocab, ",") + `},"merges":[` + strings.Join(merges, ",") + `]}}`
	tok, err := tokenizer.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestLoadedTokenizer brings random prompts to their length with a tokenizer of a file.
func TestLoadedTokenizer(t *testing.T) {
	if Wrap(nil) != nil {
		t.Error("no tokenizer became one")
	}
	tok := Wrap(tiny(t))
	cfg := Config{Dataset: "random", N: 200, Input: 50, Output: 1, Prefix: 10, Ratio: lengths.Ratio{Input: 0.3, Output: 0}}
	s := mustNew(t, cfg, tok)
	drawn := s.ds.(*random).block.in
	for i, r := range drain(t, s) {
		ids := tok.NewEncoder().Encode(nil, r.Prompt.Text, false)
		if want := 10 + int(drawn[i]); len(ids) != want || r.In.N != want {
			t.Errorf("request %d: %d tokens, counted %d, want %d: %q", i, len(ids), r.In.N, want, r.Prompt.Text)
		}
	}
	if n := s.Notes(); len(n) != 0 {
		t.Errorf("notes %q", n)
	}
}

// BenchmarkRandom makes prompts of 2,000 tokens. SPATE_BENCH_TOKENIZER names a tokenizer.json to
// measure with besides the toy one, which costs next to nothing.
func BenchmarkRandom(b *testing.B) {
	toks := map[string]Tokenizer{"toy": flat{1 << 16}, "none": nil}
	if path := os.Getenv("SPATE_BENCH_TOKENIZER"); path != "" {
		tok, err := tokenizer.Load(path)
		if err != nil {
			b.Fatal(err)
		}
		toks["file"] = Wrap(tok)
	}
	for _, name := range []string{"toy", "none", "file"} {
		tok, ok := toks[name]
		if !ok {
			continue
		}
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, Config{Dataset: "random", N: b.N, Input: 2000, Output: 1}, tok)
			b.ReportAllocs()
			b.ResetTimer()
			total := int64(0)
			for range b.N {
				r, err := s.Next(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				total += int64(len(r.Prompt.Text))
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(total / int64(b.N))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "prompts/s")
		})
	}
}

// BenchmarkShareGPTIndex reads a conversation file of 64 MB.
func BenchmarkShareGPTIndex(b *testing.B) {
	turn := `{"from": "human", "value": "` + strings.Repeat(`Tell me \"more\" about it.\n\n`, 40) + `"}`
	entry := `{"id": "x", "conversations": [` + strings.Repeat(turn+", ", 7) + turn + `]}`
	text := `[` + strings.Repeat(entry+",\n", (64<<20)/len(entry)) + entry + `]`
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		turns, _, err := indexShareGPT(strings.NewReader(text))
		if err != nil || len(turns) != (64<<20)/len(entry)+1 {
			b.Fatal(len(turns), err)
		}
	}
}
