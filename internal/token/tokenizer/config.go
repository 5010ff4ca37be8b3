package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/safe/infile"
)

// Config is what the files beside a tokenizer.json say about its use. All of it
// is empty where there are no such files.
type Config struct {
	// Class is the class Hugging Face loads the tokenizer with.
	Class string
	// ChatTemplate is the Jinja source of the default chat template.
	ChatTemplate string
	// ChatTemplates has the other templates of a model that has several, by name.
	ChatTemplates map[string]string
	// The special tokens by their part; "" where the model has none.
	BOS, EOS, UNK, SEP, PAD, CLS, Mask string
	// Additional lists the other special tokens.
	Additional []string
	// MaxLength is model_max_length, 0 where unknown.
	MaxLength int64
	// AddBOS and AddEOS are nil where the file does not say.
	AddBOS, AddEOS *bool
	// CleanUpSpaces says that Hugging Face runs CleanUp over decoded text.
	CleanUpSpaces bool
}

// Config tells what the tokenizer's folder says about its use.
func (t *Tokenizer) Config() Config { return t.config }

// Specials lists the special tokens of the configuration, each once, in the
// order of Hugging Face's all_special_tokens.
func (c *Config) Specials() []string {
	var all []string
	for _, s := range append([]string{c.BOS, c.EOS, c.UNK, c.SEP, c.PAD, c.CLS, c.Mask}, c.Additional...) {
		if s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// SpecialIDs is Hugging Face's all_special_ids: the special tokens that have a
// part to play. Without a tokenizer_config.json it is all added tokens marked
// special.
func (t *Tokenizer) SpecialIDs() []int32 {
	var ids []int32
	for _, s := range t.config.Specials() {
		if id, ok := t.ID(s); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for id := range t.special {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// CleanUp takes out the spaces before punctuation and contractions that
// decoding some models leaves; see Config.CleanUpSpaces.
func CleanUp(s string) string {
	for _, r := range [][2]string{
		{" .", "."},
		{" ?", "?"},
		{" !", "!"},
		{" ,", ","},
		{" ' ", "'"},
		{" n't", "n't"},
		{" 'm", "'m"},
		{" 's", "'s"},
		{" 've", "'ve"},
		{" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	return s
}

// configFile is a tokenizer_config.json or a special_tokens_map.json.
type configFile struct {
	Class         string          `json:"tokenizer_class"`
	ChatTemplate  json.RawMessage `json:"chat_template"`
	MaxLength     float64         `json:"model_max_length"`
	AddBOS        *bool           `json:"add_bos_token"`
	AddEOS        *bool           `json:"add_eos_token"`
	CleanUpSpaces bool            `json:"clean_up_tokenization_spaces"`
	Additional    json.RawMessage `json:"additional_special_tokens"`
	Extra         json.RawMessage `json:"extra_special_tokens"`
}

// classDefaults are the special tokens that a class has where its file is
// silent, which is not the same as null.
var classDefaults = map[string]map[string]string{
	"GPT2Tokenizer":    {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
	"Qwen2Tokenizer":   {"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
	"LlamaTokenizer":   {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
	"GemmaTokenizer":   {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
	"T5Tokenizer":      {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
	"BertTokenizer":    {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"},
	"RobertaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"},
}

// readConfig reads what a folder has of tokenizer_config.json,
// special_tokens_map.json and chat template files.
func readConfig(dir string) (Config, error) {
	var c Config
	main, err := readOptional(dir, "tokenizer_config.json")
	if err != nil {
		return c, err
	}
	special, err := readOptional(dir, "special_tokens_map.json")
	if err != nil {
		return c, err
	}
	if c, err = parseConfig(main, special); err != nil {
		return c, err
	}
	err = c.readTemplates(dir)
	return c, err
}

// parseConfig reads the two JSON files; either may be nil.
func parseConfig(main, special []byte) (Config, error) {
	var f, m configFile
	fields, err := unmarshalConfig("tokenizer_config.json", main, &f)
	if err != nil {
		return Config{}, err
	}
	more, err := unmarshalConfig("special_tokens_map.json", special, &m)
	if err != nil {
		return Config{}, err
	}
	c := Config{Class: f.Class, AddBOS: f.AddBOS, AddEOS: f.AddEOS, CleanUpSpaces: f.CleanUpSpaces}
	if 0 < f.MaxLength && f.MaxLength < 1<<53 { // larger means that nobody set it
		c.MaxLength = int64(f.MaxLength)
	}
	defaults := classDefaults[strings.TrimSuffix(f.Class, "Fast")]
	for name, to := range map[string]*string{
		"bos_token": &c.BOS, "eos_token": &c.EOS, "unk_token": &c.UNK, "sep_token": &c.SEP,
		"pad_token": &c.PAD, "cls_token": &c.CLS, "mask_token": &c.Mask,
	} {
		raw, ok := fields[name]
		if !ok {
			raw, ok = more[name]
		}
		if *to = tokenName(raw); !ok {
			*to = defaults[name]
		}
	}
	for _, list := range []json.RawMessage{f.Additional, m.Additional, f.Extra} {
		c.Additional = append(c.Additional, tokenNames(list)...)
	}
	c.ChatTemplate, c.ChatTemplates = parseTemplates(f.ChatTemplate)
	return c, nil
}

func unmarshalConfig(name string, data []byte, f *configFile) (map[string]json.RawMessage, error) {
	if data == nil {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return fields, nil
}

// tokenName reads "name" or {"content": "name"}; anything else is no token.
func tokenName(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	return o.Content
}

// tokenNames reads a list of tokens, or the values of an object in the order of
// their keys.
func tokenNames(raw json.RawMessage) []string {
	var names []string
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, r := range list {
			names = append(names, tokenName(r))
		}
		return names
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(raw, &named) != nil {
		return nil
	}
	keys := make([]string, 0, len(named))
	for k := range named {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		names = append(names, tokenName(named[k]))
	}
	return names
}

// parseTemplates reads a template, or a list of named ones.
func parseTemplates(raw json.RawMessage) (main string, named map[string]string) {
	if json.Unmarshal(raw, &main) == nil {
		return main, nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return "", nil
	}
	named = make(map[string]string)
	for _, t := range list {
		if t.Name == "default" {
			main = t.Template
		} else {
			named[t.Name] = t.Template
		}
	}
	return main, named
}

// readTemplates lets template files, the newer way, go before the configuration.
func (c *Config) readTemplates(dir string) error {
	data, err := readOptional(dir, "chat_template.jinja")
	if err != nil {
		return err
	}
	if data != nil {
		c.ChatTemplate = string(data)
		return nil
	}
	if data, err = readOptional(dir, "chat_template.json"); err != nil || data == nil {
		return err
	}
	var f configFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("chat_template.json: %w", err)
	}
	if main, named := parseTemplates(f.ChatTemplate); main != "" || named != nil {
		c.ChatTemplate, c.ChatTemplates = main, named
	}
	return nil
}

// readOptional is the content of a file, nil where there is none.
func readOptional(dir, name string) ([]byte, error) {
	data, err := infile.ReadFile(filepath.Join(dir, name), infile.MaxTokenizer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}
