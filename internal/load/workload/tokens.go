package workload

import (
	"math"
	"strings"
	"sync"
	"unicode"

	"spate/internal/call"
	"spate/internal/rng"
)

// Tokenizer is what datasets need of a tokenizer. Its methods are called from several goroutines.
type Tokenizer interface {
	NewEncoder() Encoder // for one goroutine
	AppendDecode(dst []byte, ids []int32, skipSpecial bool) []byte
	VocabSize() int      // without added tokens
	SpecialIDs() []int32 // ids random prompts leave out
	SpecialsToAdd() int  // tokens Encode adds when special is set
}

// Encoder turns text into ids, appended to dst. It belongs to one goroutine.
type Encoder interface {
	Encode(dst []int32, text string, special bool) []int32
}

// perWord is how many tokens an English word is taken for when there is no tokenizer: the usual
// vocabularies of 32k to 256k entries need 1.2 to 1.4 for prose, punctuation included.
const perWord = 1.3

// estimate guesses the tokens of a text: perWord for a word, one for each character of scripts
// that write no spaces.
func estimate(text string) int {
	words, wide, inside := 0, 0, false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			inside = false
		case r >= 0x2E80 && unicode.IsLetter(r):
			wide, inside = wide+1, false
		case !inside:
			words, inside = words+1, true
		}
	}
	return int(math.Ceil(float64(words)*perWord)) + wide
}

// count is the length of a text as the server will see it, special tokens included. With ids set
// the worker's ids hold the tokens afterwards.
func (s *scratch) count(text string) call.Count {
	if s.enc == nil {
		return call.Count{N: estimate(text), From: call.FromRequested}
	}
	s.ids = s.enc.Encode(s.ids[:0], text, true)
	return call.Count{N: len(s.ids), From: call.FromTokenizer}
}

// prompt is the text, or, when ids were asked for, the ids count left behind.
func (s *scratch) prompt(text string, ids bool) call.Prompt {
	if ids {
		return call.Prompt{IDs: append([]int32(nil), s.ids...)}
	}
	return call.Prompt{Text: text}
}

// remarks collects what Notes says, each sentence once, in the order it came up.
type remarks struct {
	mu   sync.Mutex
	list []string
}

func (r *remarks) add(sentence string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.list {
		if have == sentence {
			return
		}
	}
	r.list = append(r.list, sentence)
}

func (r *remarks) notes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}

// noTokenizer is the remark of every dataset that has to guess lengths.
const noTokenizer = "no tokenizer: prompt lengths are estimates (1.3 tokens to a word); the server's own counts are taken where it sends them"

// wordsOnly is the remark of datasets that make their own text.
const wordsOnly = "no tokenizer: prompts are plain words of about the asked length (1.3 tokens to a word); the server's own counts are taken where it sends them"

// noTokenizer notes what prompts are made of without a tokenizer, unless the server's told which words
// are one token each.
func (r *remarks) noTokenizer(cfg *Config) {
	if len(cfg.Words) == 0 {
		r.add(wordsOnly)
	}
}

// wordCount is the length of a prompt made of words.
func (c *Config) wordCount(n int) call.Count {
	if len(c.Words) == 0 {
		return call.Count{N: n, From: call.FromRequested}
	}
	return call.Count{N: n, From: call.FromServer}
}

// saltOf turns the salt into ids that take the place of a prompt's first; pick draws one id.
func saltOf(cfg Config, pick func(draw func(n int) int) int32) []int32 {
	if cfg.Salt == "" {
		return nil
	}
	ids := make([]int32, saltIDs)
	draws := rng.New(cfg.Seed, "salt "+cfg.Salt)
	for i := range ids {
		ids[i] = pick(draws.IntN)
	}
	return ids
}

// salted puts the salt in front of a prompt.
func salted(salt, text string) string {
	if salt == "" {
		return text
	}
	var b strings.Builder
	b.Grow(len(salt) + 1 + len(text))
	b.WriteString(salt)
	b.WriteByte('\n')
	b.WriteString(text)
	return b.String()
}
