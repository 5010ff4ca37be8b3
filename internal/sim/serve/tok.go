package serve

// The built-in tokenizer. It needs no table and every id decodes, so token counts in usage, in
// /tokenize and in generated text agree exactly:
//
//   - a run of lower-case ASCII letters is cut every six letters, and one space before the run
//     belongs to its first piece; each piece is one token;
//   - every other byte is one token, and so is a single letter without a space.
//
// Ids 0-255 are the bytes. Pieces follow, ordered by length, then by spelling, first all without
// a space and then all with one. The last id is the end-of-sequence token, which decodes to nothing.
const (
	pieceLetters = 6 // makes prose about as many tokens as the usual vocabularies do
	pieceCount   = 26 + 26*26 + 26*26*26 + 26*26*26*26 + 26*26*26*26*26 + 26*26*26*26*26*26
	pieceBase    = 256
	eosID        = pieceBase + 2*pieceCount
	vocabSize    = eosID + 1
)

// pieceStart[n] is the number of pieces shorter than n letters.
var pieceStart = func() (start [pieceLetters + 2]int32) {
	for n, size := 2, int32(26); n < len(start); n, size = n+1, size*26 {
		start[n] = start[n-1] + size
	}
	return start
}()

func isLower(c byte) bool { return c-'a' < 26 }

// nextToken returns the id and the length in bytes of the token text starts with, which must not
// be empty.
func nextToken(text string) (int32, int) {
	c := text[0]
	space := 0
	if c == ' ' && len(text) > 1 && isLower(text[1]) {
		space = 1
	} else if !isLower(c) {
		return int32(c), 1
	}
	n := 0
	code := int32(0)
	for space+n < len(text) && n < pieceLetters && isLower(text[space+n]) {
		code = code*26 + int32(text[space+n]-'a')
		n++
	}
	if n == 1 && space == 0 {
		return int32(c), 1
	}
	id := pieceBase + pieceStart[n] + code
	if space == 1 {
		id += pieceCount
	}
	return id, space + n
}

// countTokens returns len(encode(nil, text)) without storing the ids.
func countTokens(text string) int {
	n := 0
	for len(text) > 0 {
		_, w := nextToken(text)
		text = text[w:]
		n++
	}
	return n
}

// encode appends the ids of text to dst.
func encode(dst []int32, text string) []int32 {
	for len(text) > 0 {
		id, w := nextToken(text)
		dst = append(dst, id)
		text = text[w:]
	}
	return dst
}

// appendToken appends the text of one id to dst. Ids outside the vocabulary give nothing.
func appendToken(dst []byte, id int32) []byte {
	switch {
	case id < 0 || id >= eosID:
		return dst
	case id < pieceBase:
		return append(dst, byte(id))
	}
	id -= pieceBase
	if id >= pieceCount {
		dst = append(dst, ' ')
		id -= pieceCount
	}
	n := 1
	for id >= pieceStart[n+1] {
		n++
	}
	code := id - pieceStart[n]
	at := len(dst) + n
	for range n {
		dst = append(dst, 0)
	}
	for i := 1; i <= n; i++ {
		dst[at-i] = byte('a' + code%26)
		code /= 26
	}
	return dst
}

// decode returns the text of ids.
func decode(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = appendToken(b, id)
	}
	return string(b)
}

// outWords are what the server answers with: each, with its space, is one token, also when the
// whole answer is tokenized again.
var outWords = [...]string{
	" the", " of", " and", " to", " in", " a", " is", " that", " for", " it", " as", " was", " with", " be", " by", " on",
	" not", " he", " this", " are", " or", " his", " from", " at", " but", " have", " an", " had", " they", " you", " were", " one",
	" all", " we", " can", " her", " has", " if", " more", " when", " will", " no", " out", " so", " said", " what", " up", " its",
	" into", " than", " them", " time", " only", " some", " my", " new", " then", " now", " any", " like", " over", " such", " our", " man",
}

var outIDs = func() (ids [len(outWords)]int32) {
	for i, w := range outWords {
		ids[i], _ = nextToken(w)
	}
	return ids
}()
