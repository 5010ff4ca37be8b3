package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// addedToken is a token that is matched in the text before the model sees it.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`

	id    int32  // the id it really has: see addedIDs
	match string // what is looked for: the content, normalized if it says so
}

// addedSet finds added tokens in a text, the leftmost and there the longest.
type addedSet struct {
	tokens []addedToken
	trie   *trie
}

func newAddedSet(tokens []addedToken) *addedSet {
	if len(tokens) == 0 {
		return nil
	}
	bytes := 0
	for i := range tokens {
		bytes += len(tokens[i].match)
	}
	a := &addedSet{tokens: tokens, trie: newTrie(bytes)}
	for i := range tokens {
		a.trie.put(tokens[i].match, int32(i))
	}
	return a
}

// cut calls text for what is between the added tokens of s and token for each
// of them. text gets the byte offset of its part in s.
func (a *addedSet) cut(s string, text func(part string, at int), token func(id int32)) {
	done := 0
	for from := 0; from < len(s); {
		start, end, k := a.trie.longest(s, from)
		if k < 0 {
			break
		}
		from = end
		tok := &a.tokens[k]
		if tok.SingleWord && !standsAlone(s, start, end) {
			continue
		}
		if tok.LStrip {
			start = max(done, len(strings.TrimRightFunc(s[:start], spaceRune)))
		}
		if tok.RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], spaceRune))
		}
		if done < start {
			text(s[done:start], done)
		}
		token(tok.id)
		done = end
	}
	if done < len(s) {
		text(s[done:], done)
	}
}

// standsAlone tells whether s[start:end] has no word characters at its sides.
func standsAlone(s string, start, end int) bool {
	if before, n := utf8.DecodeLastRuneInString(s[:start]); n > 0 && wordRune(before) {
		return false
	}
	after, n := utf8.DecodeRuneInString(s[end:])
	return n == 0 || !wordRune(after)
}

// addedIDs gives every added token its id. As the reference does, it believes
// the vocabulary and not the file: a token the model knows keeps the model's
// id, any other gets the next free one. Duplicates and empty tokens are dropped.
func addedIDs(tokens []addedToken, known func(string) (int32, bool), vocabSize int) []addedToken {
	ids := make(map[string]int32, len(tokens))
	highest := int32(-1)
	kept := tokens[:0]
	for _, tok := range tokens {
		if tok.Content == "" {
			continue
		}
		id, dup := ids[tok.Content]
		if !dup {
			var ok bool
			if id, ok = known(tok.Content); !ok {
				id = max(highest+1, int32(vocabSize))
			}
		}
		ids[tok.Content] = id
		highest = max(highest, id)
		tok.id = id
		kept = append(kept, tok)
	}
	return kept
}
