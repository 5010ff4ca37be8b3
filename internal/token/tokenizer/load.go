package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"spate/internal/safe/infile"
)

// node is a normalizer, pre-tokenizer, post-processor or decoder of a
// tokenizer.json: the fields of all kinds, told apart by Type.
type node struct {
	Type           string `json:"type"`
	Normalizers    []node `json:"normalizers"`
	PreTokenizers  []node `json:"pretokenizers"`
	PostProcessors []node `json:"processors"`
	Decoders       []node `json:"decoders"`

	Pattern struct {
		String *string `json:"String"`
		Regex  *string `json:"Regex"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
	Content  string `json:"content"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`
	IndividualDigits bool   `json:"individual_digits"`
	Delimiter        string `json:"delimiter"`

	Prepend            string `json:"prepend"`
	StripLeft          bool   `json:"strip_left"`
	StripRight         bool   `json:"strip_right"`
	CleanText          *bool  `json:"clean_text"`
	HandleChineseChars *bool  `json:"handle_chinese_chars"`
	StripAccents       *bool  `json:"strip_accents"`
	Lowercase          *bool  `json:"lowercase"`
	CharsMap           string `json:"precompiled_charsmap"`

	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
	Prefix  string `json:"prefix"`
	Suffix  string `json:"suffix"`
	Cleanup *bool  `json:"cleanup"`

	Single        []templatePart         `json:"single"`
	SpecialTokens map[string]templateIDs `json:"special_tokens"`
	Sep           json.RawMessage        `json:"sep"`
	Cls           json.RawMessage        `json:"cls"`
}

// flatten lists a node's parts if it is a Sequence, at any depth, else itself.
func (n *node) flatten(parts func(*node) []node) []*node {
	if n == nil {
		return nil
	}
	if n.Type != "Sequence" {
		return []*node{n}
	}
	var all []*node
	for _, p := range parts(n) {
		all = append(all, p.flatten(parts)...)
	}
	return all
}

// file is a tokenizer.json.
type file struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *node        `json:"normalizer"`
	PreTokenizer  *node        `json:"pre_tokenizer"`
	PostProcessor *node        `json:"post_processor"`
	Decoder       *node        `json:"decoder"`
	Model         modelFile    `json:"model"`
}

type modelFile struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
	UnkToken     *string         `json:"unk_token"`
	UnkID        *int32          `json:"unk_id"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	FuseUnk      bool            `json:"fuse_unk"`
	Dropout      float64         `json:"dropout"`
	SubPrefix    *string         `json:"continuing_subword_prefix"`
	WordSuffix   string          `json:"end_of_word_suffix"`
	MaxChars     *int            `json:"max_input_chars_per_word"`
}

// kind is the type of the model; old files do not say it.
func (m *modelFile) kind() string {
	switch {
	case m.Type != "":
		return m.Type
	case len(m.Merges) > 0:
		return "BPE"
	case strings.HasPrefix(string(m.Vocab), "["):
		return "Unigram"
	case m.MaxChars != nil:
		return "WordPiece"
	}
	return ""
}

// Load reads a tokenizer: a tokenizer.json, a tiktoken rank file, or a folder
// with one of them, as models are published. A tokenizer_config.json next to
// the file gives the names of the special tokens and the chat template.
func Load(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("loading tokenizer: %w", err)
	}
	name, dir := path, filepath.Dir(path)
	if info.IsDir() {
		dir = path
		if name, err = tokenizerFile(path); err != nil {
			return nil, err
		}
	}
	data, err := infile.ReadFile(name, infile.MaxTokenizer)
	if err != nil {
		return nil, fmt.Errorf("loading tokenizer: %w", err)
	}
	t, err := parseAny(data, filepath.Base(name))
	if err != nil {
		return nil, fmt.Errorf("loading tokenizer %s: %w", name, err)
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("loading tokenizer %s: %w", name, err)
	}
	t.config = config
	t.classTemplate()
	return t, nil
}

// tokenizerFile picks the file of a folder to read.
func tokenizerFile(dir string) (string, error) {
	name := filepath.Join(dir, "tokenizer.json")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tiktoken"))
	if err != nil {
		return "", fmt.Errorf("looking for a tokenizer: %w", err)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no tokenizer.json and no *.tiktoken file in %s", dir)
	}
	return "", fmt.Errorf("no tokenizer.json and %d *.tiktoken files in %s: name one of them", len(found), dir)
}

// parseAny tells a tokenizer.json from a rank file by its first byte.
func parseAny(data []byte, name string) (*Tokenizer, error) {
	if strings.HasPrefix(strings.TrimSpace(string(data[:min(len(data), 64)])), "{") {
		return Parse(data)
	}
	return ParseTiktoken(data, name)
}

// Parse reads the content of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	return within(func() (*Tokenizer, error) { return parse(data) })
}

func parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t := new(Tokenizer)
	var err error
	if t.normalize, err = newNormalizers(f.Normalizer); err != nil {
		return nil, err
	}
	if t.pre, err = newPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	entries, err := t.readModel(&f.Model)
	if err != nil {
		return nil, fmt.Errorf("%s model: %w", f.Model.kind(), err)
	}
	if t.prefix, t.suffix, err = newTemplate(f.PostProcessor); err != nil {
		return nil, err
	}
	added := addedIDs(f.AddedTokens, t.vocab.id, t.vocab.size)
	t.addTokens(added)
	if err := t.checkTemplate(); err != nil {
		return nil, err
	}
	if t.decode, err = newDecoder(f.Decoder, t.vocab, entries, added); err != nil {
		return nil, err
	}
	return t, nil
}

// addTokens makes the added tokens known. Special ones come first, so that they
// win where two of them look for the same text.
func (t *Tokenizer) addTokens(tokens []addedToken) {
	t.added = make(map[string]int32, len(tokens))
	t.special = make(map[int32]bool)
	for i := range tokens {
		tok := &tokens[i]
		t.added[tok.Content] = tok.id
		if tok.Special {
			t.special[tok.id] = true
		}
		tok.match = tok.Content
		if tok.Normalized {
			for _, f := range t.normalize {
				tok.match = f(tok.match)
			}
		}
	}
	var raw, normalized []addedToken
	for _, special := range []bool{true, false} {
		for _, tok := range tokens {
			switch {
			case tok.Special != special:
			case tok.Normalized:
				normalized = append(normalized, tok)
			default:
				raw = append(raw, tok)
			}
		}
	}
	t.raw, t.normalized = newAddedSet(raw), newAddedSet(normalized)
}

// checkTemplate makes sure that the ids Encode adds exist.
func (t *Tokenizer) checkTemplate() error {
	known := make(map[int32]bool, len(t.added))
	for _, id := range t.added {
		known[id] = true
	}
	for _, id := range append(t.prefix[:len(t.prefix):len(t.prefix)], t.suffix...) {
		if !known[id] && (id < 0 || int(id) >= len(t.vocab.text)) {
			return fmt.Errorf("post-processor adds the id %d, which is not in the vocabulary", id)
		}
	}
	return nil
}

// readModel reads the vocabulary and builds the model.
func (t *Tokenizer) readModel(m *modelFile) ([]entry, error) {
	kind := m.kind()
	if t.pre.byteLevel && kind != "BPE" {
		return nil, errors.New("a ByteLevel pre-tokenizer is only supported with BPE")
	}
	switch kind {
	case "BPE":
		return t.readBPE(m)
	case "Unigram":
		return t.readUnigram(m)
	case "WordPiece":
		return t.readWordPiece(m)
	}
	return nil, errors.New("this kind of model is not supported (BPE, Unigram and WordPiece are)")
}

func (t *Tokenizer) readBPE(m *modelFile) ([]entry, error) {
	if m.WordSuffix != "" || m.SubPrefix != nil && *m.SubPrefix != "" {
		return nil, errors.New("end_of_word_suffix and continuing_subword_prefix are not supported")
	}
	if m.Dropout != 0 {
		return nil, errors.New("dropout is not supported: encoding would be random")
	}
	entries, err := readEntries(string(m.Vocab))
	if err != nil {
		return nil, err
	}
	merges, err := readMerges(string(m.Merges))
	if err != nil {
		return nil, err
	}
	if t.vocab, err = newVocabulary(entries, t.pre.byteLevel); err != nil {
		return nil, err
	}
	b := newBPE(t.vocab)
	b.ignoreMerges, b.fuseUnk = m.IgnoreMerges, m.FuseUnk
	b.fallback = m.ByteFallback
	if m.UnkToken != nil {
		id, ok := t.vocab.id(*m.UnkToken)
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", *m.UnkToken)
		}
		b.unk = id
	}
	if b.pairs, err = newMerges(merges, t.vocab); err != nil {
		return nil, err
	}
	if !b.byteLevel {
		b.cut = newCutter(merges, b.words, b.ignoreMerges)
	}
	t.model = b
	return entries, nil
}

// newBPE is a model without merges.
func newBPE(v *vocabulary) *bpe {
	b := &bpe{words: v.words, byteLevel: v.byteLevel, unk: noToken}
	b.whole = make(wholeWords, len(v.text))
	b.bytes, _ = v.byteIDs()
	return b
}

// newMerges turns merges of names into merges of ids.
func newMerges(merges []mergePair, v *vocabulary) (*pairTable, error) {
	pairs := newPairTable(len(merges))
	for i, m := range merges {
		left, ok1 := v.id(m.left)
		right, ok2 := v.id(m.right)
		both, ok3 := v.id(m.left + m.right)
		if !ok1 || !ok2 || !ok3 {
			return nil, fmt.Errorf("merge %d, of %q and %q, is of tokens outside the vocabulary", i, m.left, m.right)
		}
		pairs.put(uint32(left), uint32(right), uint64(i)<<32|uint64(both))
	}
	return pairs, nil
}

func (t *Tokenizer) readUnigram(m *modelFile) ([]entry, error) {
	entries, scores, err := readScores(string(m.Vocab))
	if err != nil {
		return nil, err
	}
	if t.vocab, err = newVocabulary(entries, false); err != nil {
		return nil, err
	}
	u := &unigram{words: t.vocab.words, scores: scores, unk: noToken, fallback: m.ByteFallback}
	u.bytes, _ = t.vocab.byteIDs()
	if m.UnkID != nil {
		if u.unk = *m.UnkID; u.unk < 0 || int(u.unk) >= len(entries) {
			return nil, fmt.Errorf("unk_id %d is not in the vocabulary", u.unk)
		}
	}
	worst := scores[0]
	bytes := 0
	for i, s := range scores {
		worst = min(worst, s)
		bytes += len(entries[i].token)
	}
	u.unkScore = worst - unkPenalty
	u.trie = newTrie(bytes)
	for _, e := range entries {
		u.trie.put(e.token, u.words[e.token])
	}
	t.model = u
	return entries, nil
}

func (t *Tokenizer) readWordPiece(m *modelFile) ([]entry, error) {
	entries, err := readEntries(string(m.Vocab))
	if err != nil {
		return nil, err
	}
	if t.vocab, err = newVocabulary(entries, false); err != nil {
		return nil, err
	}
	w := &wordPiece{maxRunes: 100, start: newTrie(0), rest: newTrie(0)}
	if m.MaxChars != nil {
		w.maxRunes = *m.MaxChars
	}
	unk, prefix := "[UNK]", "##"
	if m.UnkToken != nil {
		unk = *m.UnkToken
	}
	if m.SubPrefix != nil {
		prefix = *m.SubPrefix
	}
	var ok bool
	if w.unk, ok = t.vocab.words[unk]; !ok {
		return nil, fmt.Errorf("unk_token %q is not in the vocabulary", unk)
	}
	for _, e := range entries {
		w.start.put(e.token, e.id)
		if rest, ok := strings.CutPrefix(e.token, prefix); ok {
			w.rest.put(rest, e.id)
		}
	}
	t.model = w
	return entries, nil
}
