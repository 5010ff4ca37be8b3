package workload

import "spate/internal/token/tokenizer"

// Wrap makes a loaded tokenizer usable here; nil stays nil.
func Wrap(t *tokenizer.Tokenizer) Tokenizer {
	if t == nil {
		return nil
	}
	return loaded{t}
}

// loaded narrows NewEncoder's result to the interface.
type loaded struct{ *tokenizer.Tokenizer }

func (l loaded) NewEncoder() Encoder { return l.Tokenizer.NewEncoder() }
