package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxID bounds the ids of a vocabulary: tables are indexed by them.
const maxID = 1 << 22

// entry is one line of a vocabulary file.
type entry struct {
	token string
	id    int32
}

// vocabulary knows the text of every token. Byte-level names are already
// turned into the bytes they spell.
type vocabulary struct {
	byteLevel bool
	size      int
	words     map[string]int32 // text -> id
	odd       map[string]int32 // byte-level: names that spell no bytes, as they are
	text      []string         // id -> text, for decoding; added tokens too
}

func newVocabulary(entries []entry, byteLevel bool) (*vocabulary, error) {
	if len(entries) == 0 {
		return nil, errors.New("the vocabulary is empty")
	}
	v := &vocabulary{byteLevel: byteLevel, size: len(entries), words: make(map[string]int32, len(entries))}
	type place struct {
		start, end int
		odd        bool
	}
	var blob []byte
	places := make([]place, len(entries))
	top := int32(0)
	for i, e := range entries {
		start, spelled := len(blob), false
		if byteLevel {
			blob, spelled = appendBytes(blob, e.token)
		}
		if !spelled {
			blob = append(blob, e.token...)
		}
		places[i] = place{start, len(blob), byteLevel && !spelled}
		top = max(top, e.id)
	}
	all := string(blob)
	v.text = make([]string, top+1)
	for i, p := range places {
		s, id := all[p.start:p.end], entries[i].id
		v.text[id] = s
		if !p.odd {
			v.words[s] = id
			continue
		}
		if v.odd == nil {
			v.odd = make(map[string]int32)
		}
		v.odd[s] = id
	}
	return v, nil
}

// id looks up a token by its name in the file.
func (v *vocabulary) id(token string) (int32, bool) {
	if !v.byteLevel {
		id, ok := v.words[token]
		return id, ok
	}
	var buf [64]byte
	b, ok := appendBytes(buf[:0], token)
	if !ok {
		id, ok := v.odd[token]
		return id, ok
	}
	id, ok := v.words[string(b)]
	return id, ok
}

// set gives an id its text, growing the table for added tokens.
func (v *vocabulary) set(id int32, text string) {
	for int(id) >= len(v.text) {
		v.text = append(v.text, "")
	}
	v.text[id] = text
}

// byteIDs is the table of the ids that name single bytes, noToken elsewhere.
// complete tells whether all are there.
func (v *vocabulary) byteIDs() (ids [256]int32, complete bool) {
	complete = true
	for i := range ids {
		name := byteName(byte(i))
		if v.byteLevel {
			name = string([]byte{byte(i)})
		}
		id, ok := v.words[name]
		if !ok {
			id, complete = noToken, false
		}
		ids[i] = id
	}
	return ids, complete
}

// The vocabulary and the merges are most of the file. These readers are several
// times faster than reflection; encoding/json has already checked the syntax.

// readEntries reads {"token": id, ...}.
func readEntries(raw string) ([]entry, error) {
	r := reader{s: raw}
	if !r.take('{') {
		return nil, errors.New("vocab is not an object")
	}
	var all []entry
	for !r.take('}') {
		token, err := r.str()
		if err != nil {
			return nil, fmt.Errorf("vocab entry %d: %w", len(all), err)
		}
		if !r.take(':') {
			return nil, fmt.Errorf("vocab entry %d: no id", len(all))
		}
		id, err := strconv.ParseInt(r.scalar(), 10, 64)
		if err != nil || id < 0 || id > maxID {
			return nil, fmt.Errorf("vocab entry %q: id is not a number from 0 to %d", token, maxID)
		}
		all = append(all, entry{token, int32(id)})
		r.take(',')
	}
	return all, nil
}

// mergePair is one merge of a BPE model, as names of the file.
type mergePair struct{ left, right string }

// readMerges reads ["a b", ...] or [["a", "b"], ...].
func readMerges(raw string) ([]mergePair, error) {
	if raw == "" {
		return nil, nil
	}
	r := reader{s: raw}
	if !r.take('[') {
		return nil, errors.New("merges is not a list")
	}
	var all []mergePair
	for !r.take(']') {
		m, err := r.merge()
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", len(all), err)
		}
		all = append(all, m)
		r.take(',')
	}
	return all, nil
}

// reader walks over valid JSON.
type reader struct {
	s string
	i int
}

// take skips white space, and c if it comes next.
func (r *reader) take(c byte) bool {
	for r.i < len(r.s) && strings.IndexByte(" \t\r\n", r.s[r.i]) >= 0 {
		r.i++
	}
	if r.i < len(r.s) && r.s[r.i] == c {
		r.i++
		return true
	}
	return false
}

var errNoString = errors.New("not a string")

func (r *reader) str() (string, error) {
	if !r.take('"') {
		return "", errNoString
	}
	start, escaped := r.i, false
	for r.i < len(r.s) && r.s[r.i] != '"' {
		if r.s[r.i] == '\\' {
			escaped = true
			r.i++
		}
		r.i++
	}
	if r.i >= len(r.s) {
		return "", errNoString
	}
	r.i++
	if !escaped {
		return r.s[start : r.i-1], nil
	}
	var s string
	err := json.Unmarshal([]byte(r.s[start-1:r.i]), &s)
	return s, err
}

// scalar is the number or word that comes next.
func (r *reader) scalar() string {
	r.take(' ')
	start := r.i
	for r.i < len(r.s) && strings.IndexByte(",}] \t\r\n", r.s[r.i]) < 0 {
		r.i++
	}
	return r.s[start:r.i]
}

func (r *reader) merge() (mergePair, error) {
	if !r.take('[') {
		s, err := r.str()
		if err != nil {
			return mergePair{}, err
		}
		left, right, ok := strings.Cut(s, " ")
		if !ok || strings.Contains(right, " ") {
			return mergePair{}, fmt.Errorf("%q is not two tokens with a space between them", s)
		}
		return mergePair{left, right}, nil
	}
	left, err := r.str()
	if err != nil {
		return mergePair{}, err
	}
	r.take(',')
	right, err := r.str()
	if err != nil {
		return mergePair{}, err
	}
	if !r.take(']') {
		return mergePair{}, errors.New("more than two tokens")
	}
	return mergePair{left, right}, nil
}

// readScores reads the [["token", score], ...] of a Unigram model.
func readScores(raw string) ([]entry, []float64, error) {
	r := reader{s: raw}
	if !r.take('[') {
		return nil, nil, errors.New("vocab is not a list")
	}
	var all []entry
	var scores []float64
	for !r.take(']') {
		if len(all) > maxID || !r.take('[') {
			return nil, nil, fmt.Errorf("vocab entry %d is not a pair", len(all))
		}
		token, err := r.str()
		if err != nil {
			return nil, nil, fmt.Errorf("vocab entry %d: %w", len(all), err)
		}
		r.take(',')
		score, err := strconv.ParseFloat(r.scalar(), 64)
		if err != nil || !r.take(']') {
			return nil, nil, fmt.Errorf("vocab entry %q: no score", token)
		}
		all = append(all, entry{token, int32(len(all))})
		scores = append(scores, score)
		r.take(',')
	}
	return all, scores, nil
}
