package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// expected is what a reference implementation made of the corpus; see
// testdata/README.md.
type expected struct {
	Vocab   int               `json:"vocab"`
	IDs     [][]int32         `json:"ids"`
	Decoded map[string]string `json:"decoded"`
}

// text is what the ids of string i decode to without special tokens.
func (e *expected) text(i int, s string) string {
	if d, ok := e.Decoded[strconv.Itoa(i)]; ok {
		return d
	}
	return s
}

func unzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

func unzipJSON(t testing.TB, name string, to any) {
	t.Helper()
	if err := json.Unmarshal(unzip(t, name), to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// fixtures are the names of the files with an expectation, by their family.
func fixtures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.expected.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 17 {
		t.Fatalf("only %d expectations in testdata", len(files))
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".expected.json.gz")
	}
	return files
}

// small is one of the vocabularies of testdata.
func small(t testing.TB, name string) *Tokenizer {
	t.Helper()
	if strings.HasSuffix(name, "_base") {
		tok, err := ParseTiktoken(unzip(t, name+".tiktoken"), name+".tiktoken")
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	tok, err := Parse(unzip(t, name+".tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestReference holds every family to its reference: no id and no decoded text
// may differ on any string of the corpus.
func TestReference(t *testing.T) {
	var corpus []string
	unzipJSON(t, "corpus.json", &corpus)
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			var want expected
			unzipJSON(t, name+".expected.json", &want)
			tok := small(t, name)
			if tok.VocabSize() != want.Vocab {
				t.Errorf("VocabSize is %d, want %d", tok.VocabSize(), want.Vocab)
			}
			if len(want.IDs) != len(corpus) {
				t.Fatalf("%d expectations for %d strings", len(want.IDs), len(corpus))
			}
			checkReference(t, tok, corpus, &want)
		})
	}
}

func checkReference(t *testing.T, tok *Tokenizer, corpus []string, want *expected) {
	t.Helper()
	enc := tok.NewEncoder()
	for round, note := range []string{"first time", "from the cache"} {
		for i, s := range corpus {
			if round > 0 && i%4 != 0 {
				continue // enough to know that the cache does not lie
			}
			got := enc.Encode(nil, s, true)
			if !slices.Equal(got, want.IDs[i]) {
				t.Errorf("%s, string %d, %q:\n got %v\nwant %v", note, i, s, got, want.IDs[i])
			}
			if round > 0 {
				continue
			}
			if text := tok.Decode(want.IDs[i], true); text != want.text(i, s) {
				t.Errorf("decoding string %d:\n got %q\nwant %q", i, text, want.text(i, s))
			}
			plain := enc.Encode(nil, s, false)
			if len(plain)+tok.SpecialsToAdd() != len(got) || !bytes.Contains(asBytes(got), asBytes(plain)) {
				t.Errorf("string %d: %v without special tokens, %v with %d of them", i, plain, got, tok.SpecialsToAdd())
			}
		}
	}
}

func asBytes(ids []int32) []byte {
	var b []byte
	for _, id := range ids {
		b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	return b
}

// TestScannersInUse makes sure that the families do not silently run on the
// general engine, which would be right but slow.
func TestScannersInUse(t *testing.T) {
	for name, want := range map[string]family{
		"gpt2": familyGPT2, "llama3": familyCL100k, "qwen": familyQwen, "o200k": familyO200k, "tekken": familyTekken,
		"deepseek": familyDeepSeek, "cl100k_base": familyCL100kV2, "o200k_base": familyO200k, "digits": familyNone, "llama2": familyNone,
	} {
		if got := small(t, name).pre.family; got != want {
			t.Errorf("%s: family %d, want %d", name, got, want)
		}
	}
}
