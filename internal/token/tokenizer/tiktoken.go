package tokenizer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// encoding is what a rank file does not say: how text is cut and which special
// tokens there are.
type encoding struct {
	name     string
	entries  int // of the published rank file, to know it by when its name is lost
	pattern  string
	specials []entry
}

// encodings lists the rank files that are known.
func encodings() []encoding {
	return []encoding{
		{"r50k_base", 50256, patternGPT2, []entry{{"<|endoftext|>", 50256}}},
		{"p50k_base", 50280, patternGPT2, []entry{{"<|endoftext|>", 50256}}},
		{"cl100k_base", 100256, patternCL100kV2, []entry{
			{"<|endoftext|>", 100257},
			{"<|fim_prefix|>", 100258},
			{"<|fim_middle|>", 100259},
			{"<|fim_suffix|>", 100260},
			{"<|endofprompt|>", 100276},
		}},
		{"o200k_base", 199998, patternO200k, []entry{{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
		{"o200k_harmony", 0, patternO200k, harmonySpecials()},
		{"qwen", 151643, patternQwen, numbered(
			[]entry{{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}},
			"<|extra_%d|>", 0, 205, 151646)},
	}
}

// harmonySpecials are the special tokens of gpt-oss.
func harmonySpecials() []entry {
	return numbered([]entry{
		{"<|startoftext|>", 199998},
		{"<|endoftext|>", 199999},
		{"<|return|>", 200002},
		{"<|constrain|>", 200003},
		{"<|channel|>", 200005},
		{"<|start|>", 200006},
		{"<|end|>", 200007},
		{"<|message|>", 200008},
		{"<|call|>", 200012},
		{"<|endofprompt|>", 200018},
	}, "<|reserved_%d|>", 200000, 1088, 200000)
}

// numbered appends count tokens with consecutive numbers and ids, leaving out
// ids that are taken.
func numbered(all []entry, format string, number, count int, id int32) []entry {
	for i := range count {
		next := id + int32(i)
		if slices.ContainsFunc(all, func(e entry) bool { return e.id == next }) {
			continue
		}
		all = append(all, entry{fmt.Sprintf(format, number+i), next})
	}
	return all
}

// encodingFor finds the encoding of a rank file by its name, else by how many
// entries it has.
func encodingFor(name string, entries int) (encoding, error) {
	base := strings.TrimSuffix(name, ".tiktoken")
	known := encodings()
	var names []string
	for _, e := range known {
		if e.name == base {
			return e, nil
		}
		names = append(names, e.name)
	}
	for _, e := range known {
		if e.entries == entries {
			return e, nil
		}
	}
	return encoding{}, fmt.Errorf("which encoding %s has is not known: call the file one of %s, with .tiktoken",
		name, strings.Join(names, ", "))
}

// ParseTiktoken reads a tiktoken rank file: lines of a token in base64 and its
// rank. The file's name, such as cl100k_base.tiktoken, says the rest.
func ParseTiktoken(data []byte, name string) (*Tokenizer, error) {
	entries, err := readRanks(data)
	if err != nil {
		return nil, err
	}
	enc, err := encodingFor(name, len(entries))
	if err != nil {
		return nil, err
	}
	return newTiktoken(entries, enc.pattern, enc.specials)
}

func readRanks(data []byte) ([]entry, error) {
	var all []entry
	for number, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		word, rank, ok := bytes.Cut(line, []byte(" "))
		if !ok {
			return nil, fmt.Errorf("line %d is not a token and a rank", number+1)
		}
		token, err := base64.StdEncoding.DecodeString(string(word))
		if err != nil || len(token) == 0 {
			return nil, fmt.Errorf("line %d: the token is not base64", number+1)
		}
		id, err := strconv.ParseInt(string(rank), 10, 32)
		if err != nil || id < 0 || id > maxID {
			return nil, fmt.Errorf("line %d: the rank is not a number from 0 to %d", number+1, maxID)
		}
		all = append(all, entry{string(token), int32(id)})
	}
	if len(all) == 0 {
		return nil, errors.New("no tokens in the file")
	}
	return all, nil
}

// newTiktoken builds a byte-level model in which the rank of a token is the
// rank of every merge that makes it.
func newTiktoken(entries []entry, pattern string, specials []entry) (*Tokenizer, error) {
	split, err := isolate(pattern)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{pre: preTokenizer{byteLevel: true, family: familyOf([]string{pattern}), stages: []splitter{split}}}
	if t.vocab, err = newVocabulary(entries, false); err != nil {
		return nil, err
	}
	t.vocab.byteLevel = true
	b := newBPE(t.vocab)
	b.ignoreMerges = true
	b.pairs = rankMerges(t.vocab)
	t.model = b
	var added []addedToken
	for _, s := range specials {
		t.vocab.set(s.id, s.token)
		added = append(added, addedToken{Content: s.token, Special: true, id: s.id})
	}
	t.addTokens(added)
	t.decode = byteDecoder{t.vocab}
	return t, nil
}

// rankMerges lists every pair of tokens that together make a token.
func rankMerges(v *vocabulary) *pairTable {
	pairs := newPairTable(2 * v.size)
	for id, s := range v.text {
		for i := 1; i < len(s); i++ {
			left, ok := v.words[s[:i]]
			if !ok {
				continue
			}
			if right, ok := v.words[s[i:]]; ok {
				pairs.put(uint32(left), uint32(right), uint64(id)<<32|uint64(id))
			}
		}
	}
	return pairs
}
