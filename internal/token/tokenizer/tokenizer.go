package tokenizer

// Tokenizer is a loaded vocabulary with its rules. It does not change after
// Load, but for Err, and is safe for any number of goroutines.
type Tokenizer struct {
	vocab      *vocabulary
	added      map[string]int32 // content of an added token -> id
	special    map[int32]bool   // added tokens that are special
	raw        *addedSet        // added tokens looked for in the text as it is
	normalized *addedSet        // added tokens looked for in the normalized text
	normalize  []normalizer
	pre        preTokenizer
	model      model
	prefix     []int32 // special tokens before the text
	suffix     []int32 // special tokens after it
	decode     decoder
	config     Config
	trouble    trouble
}

// model turns one piece of normalized text into ids.
type model interface {
	appendPiece(e *Encoder, dst []int32, piece string) []int32
}

// Encoder encodes text. It owns scratch memory and a cache of words, so each
// goroutine needs its own.
type Encoder struct {
	t       *Tokenizer
	cache   map[string][]int32
	scratch []int32
	symbols []int32
	ranks   []uint64
	prev    []int32
	next    []int32
	heap    []candidate
	steps   []step
	pieces  [2][]piece
}

// NewEncoder makes an encoder for one goroutine.
func (t *Tokenizer) NewEncoder() *Encoder {
	return &Encoder{t: t, cache: make(map[string][]int32)}
}

// Encode appends the ids of text to dst. With special it also adds the tokens
// the model wants around a text, such as a BOS. Special tokens spelled out in
// the text are recognised either way. Bytes that are no UTF-8 are kept where
// the vocabulary can spell them.
func (e *Encoder) Encode(dst []int32, text string, special bool) (ids []int32) {
	t := e.t
	ids = dst
	if t.trouble.first.Load() != nil {
		return ids
	}
	defer t.trouble.rescue()
	if special {
		dst = append(dst, t.prefix...)
	}
	if t.raw == nil {
		dst = e.segment(dst, text, true)
	} else {
		t.raw.cut(text,
			func(part string, at int) { dst = e.segment(dst, part, at == 0) },
			func(id int32) { dst = append(dst, id) })
	}
	if special {
		dst = append(dst, t.suffix...)
	}
	return dst
}

// segment encodes text that has no raw added tokens; first says that it begins
// the whole text.
func (e *Encoder) segment(dst []int32, s string, first bool) []int32 {
	t := e.t
	from := len(s)
	for _, f := range t.normalize {
		s = f(s)
		grown("normalizing", from, len(s))
	}
	if s == "" {
		return dst
	}
	if t.normalized == nil {
		return e.words(dst, piece{s, first})
	}
	t.normalized.cut(s,
		func(part string, at int) { dst = e.words(dst, piece{part, first && at == 0}) },
		func(id int32) { dst = append(dst, id) })
	return dst
}

// words cuts normalized text into words and encodes each.
func (e *Encoder) words(dst []int32, p piece) []int32 {
	t := e.t
	s := p.text
	switch t.pre.family {
	case familyNone:
		return e.stages(dst, p)
	case familyDeepSeek:
		for i := 0; i < len(s); {
			span := s[:deepSeekSpan(s, i)]
			for i < len(span) {
				end := nextDeepSeek(span, i)
				dst = t.model.appendPiece(e, dst, s[i:end])
				i = end
			}
		}
	default:
		for i := 0; i < len(s); {
			end := t.pre.family.next(s, i)
			dst = t.model.appendPiece(e, dst, s[i:end])
			i = end
		}
	}
	return dst
}

// stages runs the splitters one after the other over all pieces.
func (e *Encoder) stages(dst []int32, p piece) []int32 {
	in, out := append(e.pieces[0][:0], p), e.pieces[1]
	for _, split := range e.t.pre.stages {
		out = out[:0]
		for _, p := range in {
			out = split(out, p)
		}
		in, out = out, in
	}
	for _, p := range in {
		dst = e.t.model.appendPiece(e, dst, p.text)
	}
	clear(in)
	clear(out)
	e.pieces = [2][]piece{in, out}
	return dst
}

// remember caches the ids of a word.
func (e *Encoder) remember(w string, ids []int32) {
	if len(e.cache) >= wordCacheSize {
		clear(e.cache)
	}
	// The word is part of a text that should not be kept alive with it.
	e.cache[string([]byte(w))] = append([]int32(nil), ids...)
}

// VocabSize is the number of entries of the model, without added tokens: what
// Hugging Face calls vocab_size.
func (t *Tokenizer) VocabSize() int { return t.vocab.size }

// Len is one more than the highest id there is, added tokens included.
func (t *Tokenizer) Len() int { return len(t.vocab.text) }

// ID is the id of a token by its name in the vocabulary file.
func (t *Tokenizer) ID(token string) (id int32, ok bool) {
	if id, ok = t.added[token]; ok {
		return id, true
	}
	return t.vocab.id(token)
}

// IsSpecial tells whether decoding leaves out the id when asked to skip
// special tokens.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// SpecialsToAdd is how many tokens Encode adds to a text when asked for special
// tokens: num_special_tokens_to_add.
func (t *Tokenizer) SpecialsToAdd() int { return len(t.prefix) + len(t.suffix) }
