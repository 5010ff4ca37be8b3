package workload

import (
	"fmt"

	"spate/internal/rng"
)

// writer makes random texts of a length in tokens, each from its own stream, so that they can be made in any
// order.
type writer struct {
	fitter
	seed   uint64
	words  []string
	vocab  int
	barred map[int32]bool
}

func (w *writer) prepare(tok Tokenizer, cfg *Config) error {
	w.tok, w.seed, w.words = tok, cfg.Seed, cfg.Words
	if tok == nil {
		return nil
	}
	w.vocab, w.barred = tok.VocabSize(), map[int32]bool{}
	for _, id := range tok.SpecialIDs() {
		w.barred[id] = true
	}
	if w.vocab <= len(w.barred) {
		return fmt.Errorf("all %d ids of the vocabulary are special", w.vocab)
	}
	return nil
}

// text makes n tokens of text: words where there is no tokenizer.
func (w *writer) text(s *scratch, name string, n int, index ...uint64) string {
	draws := rng.New(w.seed, name, index...)
	if w.tok == nil {
		return string(appendWords(nil, w.words, draws, n))
	}
	pick := func() int32 {
		for {
			if id := int32(draws.IntN(w.vocab)); !w.barred[id] {
				return id
			}
		}
	}
	ids := make([]int32, n)
	for k := range ids {
		ids[k] = pick()
	}
	text, _ := w.fit(s, ids, n, pick)
	return text
}
