package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tiny is a tokenizer.json with parts to put in: pre-tokenizer, model.
func tiny(normalizer, pre, model string) string {
	return `{"added_tokens":[],"normalizer":` + normalizer + `,"pre_tokenizer":` + pre +
		`,"post_processor":null,"decoder":null,"model":` + model + `}`
}

const tinyBPE = `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}`

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"no JSON", `{`, "unexpected end"},
		{"empty", `{}`, "not supported"},
		{"unknown model", tiny("null", "null", `{"type":"WordLevel","vocab":{"a":0}}`), "WordLevel model: this kind"},
		{"unknown normalizer", tiny(`{"type":"X"}`, "null", tinyBPE), `normalizer "X"`},
		{"unknown pre-tokenizer", tiny("null", `{"type":"UnicodeScripts"}`, tinyBPE), `pre-tokenizer "UnicodeScripts"`},
		{"split after bytes", tiny("null", `{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]}`, tinyBPE), "after ByteLevel"},
		{"bad pattern", tiny("null", `{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}`, tinyBPE), "pattern"},
		{"bad behavior", tiny("null", `{"type":"Split","pattern":{"String":"x"},"behavior":"Odd"}`, tinyBPE), `"Odd"`},
		{"no pattern", tiny("null", `{"type":"Split","behavior":"Isolated"}`, tinyBPE), "no pattern"},
		{"metaspace", tiny("null", `{"type":"Metaspace","replacement":""}`, tinyBPE), "one character"},
		{"empty vocabulary", tiny("null", "null", `{"type":"BPE","vocab":{},"merges":[]}`), "empty"},
		{"negative id", tiny("null", "null", `{"type":"BPE","vocab":{"a":-1},"merges":[]}`), "not a number"},
		{"huge id", tiny("null", "null", `{"type":"BPE","vocab":{"a":4000000000},"merges":[]}`), "not a number"},
		{"merge of strangers", tiny("null", "null", `{"type":"BPE","vocab":{"a":0},"merges":["a b"]}`), "outside the vocabulary"},
		{"merge of three", tiny("null", "null", `{"type":"BPE","vocab":{"a":0},"merges":[["a","b","c"]]}`), "more than two"},
		{"merge without space", tiny("null", "null", `{"type":"BPE","vocab":{"a":0},"merges":["ab"]}`), "not two tokens"},
		{"dropout", tiny("null", "null", `{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}`), "dropout"},
		{"suffix", tiny("null", "null", `{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]}`), "end_of_word_suffix"},
		{"unknown unk", tiny("null", "null", `{"type":"BPE","unk_token":"?","vocab":{"a":0},"merges":[]}`), "unk_token"},
		{"unigram unk", tiny("null", "null", `{"type":"Unigram","unk_id":5,"vocab":[["a",-1]]}`), "unk_id 5"},
		{"unigram score", tiny("null", "null", `{"type":"Unigram","vocab":[["a","x"]]}`), "no score"},
		{"wordpiece unk", tiny("null", "null", `{"type":"WordPiece","vocab":{"a":0}}`), "[UNK]"},
		{"charsmap", tiny(`{"type":"Precompiled","precompiled_charsmap":"AAAA"}`, "null", tinyBPE), "charsmap"},
		{"charsmap size", tiny(`{"type":"Precompiled","precompiled_charsmap":"/////w=="}`, "null", tinyBPE), "charsmap"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Parse([]byte(test.in)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, test := range []struct{ name, post, want string }{
		{"unknown", `{"type":"X"}`, `post-processor "X"`},
		{"no text", `{"type":"TemplateProcessing","single":[],"special_tokens":{}}`, "0 times"},
		{"stranger", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{}}`, `"<s>"`},
		{"id outside", `{"type":"BertProcessing","sep":["s",99],"cls":["c",0]}`, "id 99"},
		{"no pair", `{"type":"BertProcessing","sep":3,"cls":["c",0]}`, "BertProcessing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := strings.Replace(tiny("null", "null", tinyBPE), `"post_processor":null`, `"post_processor":`+test.post, 1)
			if _, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestAddedIDs: the vocabulary decides the ids of added tokens, not the file.
func TestAddedIDs(t *testing.T) {
	in := strings.Replace(tiny("null", "null", tinyBPE), `"added_tokens":[]`,
		`"added_tokens":[{"id":90,"content":"<x>"},{"id":91,"content":"ab","special":true},{"id":95,"content":"<y>"},{"id":96,"content":""}]`, 1)
	tok, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int32{"<x>": 3, "ab": 2, "<y>": 4} {
		if id, ok := tok.ID(name); !ok || id != want {
			t.Errorf("%q has id %d, %v; want %d", name, id, ok, want)
		}
	}
	if got := tok.NewEncoder().Encode(nil, "<y>ab<x>b", false); !slices.Equal(got, []int32{4, 2, 3, 1}) {
		t.Errorf("encoded as %v", got)
	}
	if tok.Len() != 5 || tok.VocabSize() != 3 {
		t.Errorf("Len %d, VocabSize %d; want 5, 3", tok.Len(), tok.VocabSize())
	}
	if got := tok.Decode([]int32{4, 1}, false); got != "<y> b" {
		t.Errorf("without a decoder tokens are joined with spaces, not %q", got)
	}
}

func TestReadersAgreeWithJSON(t *testing.T) {
	for _, in := range []string{`{}`, `{"a":1}`, "{ \"a\" : 1 ,\n \"b\\u0041\\n\\\"\": 22 }", `{"\ud83d\ude00":3,"é":4,"\ud800":5}`} {
		var want map[string]int32
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		got, err := readEntries(in)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v", in, got, err)
		}
		for _, e := range got {
			if want[e.token] != e.id {
				t.Errorf("%s: %q is %d, want %d", in, e.token, e.id, want[e.token])
			}
		}
	}
}

func TestLoadFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "no tokenizer.json") {
		t.Errorf("an empty folder gives %v", err)
	}
	write("cl100k_base.tiktoken", string(unzip(t, "cl100k_base.tiktoken")))
	tok, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := tok.ID("<|endofprompt|>"); !ok || id != 100276 {
		t.Errorf("<|endofprompt|> is %d, %v", id, ok)
	}
	write("tokenizer.json", string(unzip(t, "llama3.tokenizer.json")))
	write("tokenizer_config.json", `{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<|begin_of_text|>","eos_token":{"content":"<|eot_id|>"},
		"pad_token":null,"chat_template":"old","model_max_length":1000000000000000019884624838656,"clean_up_tokenization_spaces":true,"add_bos_token":true}`)
	write("chat_template.jinja", "{{ new }}")
	if tok, err = Load(dir); err != nil {
		t.Fatal(err)
	}
	c := tok.Config()
	if c.BOS != "<|begin_of_text|>" || c.EOS != "<|eot_id|>" || c.PAD != "" || c.ChatTemplate != "{{ new }}" ||
		c.MaxLength != 0 || !c.CleanUpSpaces || c.AddBOS == nil || !*c.AddBOS {
		t.Errorf("configuration is %+v", c)
	}
	bos, _ := tok.ID(c.BOS)
	eos, _ := tok.ID(c.EOS)
	if got := tok.SpecialIDs(); !slices.Equal(got, []int32{bos, eos}) {
		t.Errorf("SpecialIDs is %v, want %d %d", got, bos, eos)
	}
	write("tokenizer_config.json", `{`)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("a broken configuration gives %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there loads")
	}
}

// TestClassTemplate: some classes add BOS and EOS whatever the file says.
func TestClassTemplate(t *testing.T) {
	for _, test := range []struct {
		name, config   string
		before, behind []string
	}{
		{"other classes leave it", `{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>","add_bos_token":false}`, []string{"<s>"}, []string{"</s>"}},
		{"llama by default", `{"tokenizer_class":"LlamaTokenizer"}`, []string{"<s>"}, nil},
		{"llama without", `{"tokenizer_class":"LlamaTokenizerFast","add_bos_token":false}`, nil, nil},
		{"llama with both", `{"tokenizer_class":"LlamaTokenizerFast","add_eos_token":true}`, []string{"<s>"}, []string{"</s>"}},
		{"unknown token", `{"tokenizer_class":"GemmaTokenizer"}`, []string{"<s>"}, []string{"</s>"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tok := small(t, "metaspace") // its file asks for <s> and </s>
			var err error
			if tok.config, err = parseConfig([]byte(test.config), nil); err != nil {
				t.Fatal(err)
			}
			tok.classTemplate()
			ids := func(names []string) (all []int32) {
				for _, n := range names {
					id, _ := tok.ID(n)
					all = append(all, id)
				}
				return all
			}
			if !slices.Equal(tok.prefix, ids(test.before)) || !slices.Equal(tok.suffix, ids(test.behind)) {
				t.Errorf("adds %v and %v, want %q and %q", tok.prefix, tok.suffix, test.before, test.behind)
			}
		})
	}
}

func TestSpecialIDsWithoutConfig(t *testing.T) {
	tok := small(t, "qwen")
	var want []int32
	for _, name := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		id, _ := tok.ID(name)
		want = append(want, id)
	}
	if got := tok.SpecialIDs(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseConfig(t *testing.T) {
	for _, test := range []struct {
		name, main, special string
		want                []string
		template            string
	}{
		{"nothing", `{}`, `{}`, nil, ""},
		{"defaults of a class", `{"tokenizer_class":"Qwen2TokenizerFast","eos_token":"<|im_end|>","unk_token":null}`, `{}`, []string{"<|im_end|>", "<|endoftext|>"}, ""},
		{"no default for null", `{"tokenizer_class":"Qwen2Tokenizer","eos_token":"e","unk_token":null,"pad_token":null}`, `{}`, []string{"e"}, ""},
		{"additional", `{"bos_token":"b","additional_special_tokens":["x",{"content":"y"},"b"]}`, `{}`, []string{"b", "x", "y"}, ""},
		{"extra by name", `{"extra_special_tokens":{"image":"<i>","audio":"<a>"}}`, `{}`, []string{"<a>", "<i>"}, ""},
		{"map fills in", `{"eos_token":"e"}`, `{"bos_token":"b","eos_token":"other"}`, []string{"b", "e"}, ""},
		{"named templates", `{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`, `{}`, nil, "D"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := parseConfig([]byte(test.main), []byte(test.special))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Specials(); !slices.Equal(got, test.want) || c.ChatTemplate != test.template {
				t.Errorf("special tokens %q, template %q", got, c.ChatTemplate)
			}
		})
	}
}

func TestCleanUp(t *testing.T) {
	if got := CleanUp("I 'm here , are n't you ? Yes ! It 's ' ok ' ."); got != "I'm here, aren't you? Yes! It's'ok '." {
		t.Errorf("got %q", got)
	}
}

func TestTiktokenErrors(t *testing.T) {
	for _, test := range []struct{ name, file, in, want string }{
		{"empty", "cl100k_base.tiktoken", "", "no tokens"},
		{"no rank", "cl100k_base.tiktoken", "YQ==\n", "line 1"},
		{"no base64", "cl100k_base.tiktoken", "YQ== 0\n? 1\n", "line 2"},
		{"bad rank", "cl100k_base.tiktoken", "YQ== x\n", "line 1"},
		{"unknown name", "mine.tiktoken", "YQ== 0\n", "cl100k_base, o200k_base"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ParseTiktoken([]byte(test.in), test.file); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHarmonySpecials(t *testing.T) {
	tok, err := ParseTiktoken([]byte("YQ== 0\n"), "o200k_harmony.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int32{
		"<|startoftext|>": 199998, "<|return|>": 200002, "<|message|>": 200008, "<|call|>": 200012,
		"<|endofprompt|>": 200018, "<|reserved_200000|>": 200000, "<|reserved_201087|>": 201087,
	} {
		if id, ok := tok.ID(name); !ok || id != want {
			t.Errorf("%s is %d, %v; want %d", name, id, ok, want)
		}
	}
}

// FuzzParse feeds anything to the loader, and text to whatever loads.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny("null", "null", tinyBPE)), "ab a")
	f.Add([]byte(tiny(`{"type":"BertNormalizer"}`, `{"type":"BertPreTokenizer"}`, `{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2}}`)), "ab!")
	f.Add([]byte(tiny(`{"type":"NFKC"}`, `{"type":"Metaspace","replacement":"_"}`, `{"type":"Unigram","vocab":[["a",-1],["_",-2]]}`)), "a \xffb")
	f.Add([]byte(tiny(`{"type":"Precompiled","precompiled_charsmap":"CAAAAAAAAAAAAAAAYWIA"}`, `{"type":"Digits"}`, tinyBPE)), "a1b")
	f.Add([]byte(`{"added_tokens":[{"id":9,"content":"<x>","lstrip":true,"rstrip":true,"single_word":true}],"model":`+tinyBPE+
		`,"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1}]}}`), " <x> ab")
	f.Add([]byte("YQ== 0\nYg== 1\n"), "ab")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if bytes.Contains(data, []byte("Regex")) || len(text) > 200 {
			return // a pattern may take as long as it likes
		}
		tok, err := parseAny(data, "r50k_base.tiktoken")
		if err != nil {
			return
		}
		for _, id := range tok.NewEncoder().Encode(nil, text, true) {
			if id < 0 || int(id) >= tok.Len() {
				t.Errorf("id %d of %d", id, tok.Len())
			}
			tok.Decode([]int32{id}, false)
		}
	})
}
