package workload

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"spate/internal/call"
)

// recut sends first turns of conversations, cut or repeated to drawn lengths: what SGLang's and LMDeploy's
// clients call random. Lengths are drawn as random's; the i-th goes to the i-th conversation that has text,
// in the order of the seed's shuffle.
type recut struct {
	*shareGPT
	lengths  *random
	specials int // tokens taken off each length
}

func newRecut(cfg Config, tok Tokenizer) (*recut, error) {
	lengths, err := newRandom(cfg, tok)
	if err != nil {
		return nil, err
	}
	text := cfg
	text.Salt = "" // a salt would change the lengths: it takes the place of the first words
	g, err := newShareGPT(text, tok)
	if err != nil {
		return nil, err
	}
	g.salt = cfg.Salt
	r := &recut{shareGPT: g, lengths: lengths}
	if tok != nil && cfg.LessSpecials && !cfg.IDs {
		r.specials = tok.SpecialsToAdd()
	}
	return r, nil
}

func (r *recut) next() (job, state, error) {
	s := &scratch{}
	for {
		j, st := r.pool.draw()
		if st != issue {
			if st == done && len(r.pool.taken) == 0 {
				return j, st, errors.New("none of the conversations has text in its first turn")
			}
			return j, st, nil
		}
		prompt, _, err := r.read(s, r.turns[j.index])
		if err != nil {
			return j, st, err
		}
		if prompt == nil || strings.TrimSpace(*prompt) == "" {
			r.broken.Add(1)
			r.pool.settle(j, nil, false)
			continue
		}
		length, st, err := r.lengths.next()
		j.in, j.out, j.text = max(1, length.in-r.specials), length.out, *prompt
		return j, st, err
	}
}

func (r *recut) build(s *scratch, j job) (call.Request, bool, error) {
	req := call.Request{MaxOut: j.out, In: call.Count{N: j.in, From: call.FromRequested}}
	if s.enc == nil {
		req.Prompt.Text = cutWords(salted(r.salt, j.text), j.in)
		return req, true, nil
	}
	s.ids = s.enc.Encode(s.ids[:0], salted(r.salt, j.text), true) // these tools count and repeat what a tokenizer adds
	if len(s.ids) == 0 {
		return req, false, fmt.Errorf("the tokenizer gives no tokens for %.40q", j.text)
	}
	ids := repeated(s.ids, j.in)
	if r.cfg.IDs {
		req.Prompt.IDs = ids
		return req, true, nil
	}
	req.Prompt.Text = string(r.lengths.tok.AppendDecode(nil, ids, false))
	return req, true, nil
}

// repeated is a list cut, or repeated and cut, to n.
func repeated[T any](list []T, n int) []T {
	out := make([]T, 0, n)
	for len(out) < n {
		out = append(out, list[:min(len(list), n-len(out))]...)
	}
	return out
}

// cutWords is a text cut or repeated to about n tokens.
func cutWords(text string, n int) string {
	return strings.Join(repeated(strings.Fields(text), max(1, int(math.Round(float64(n)/perWord)))), " ")
}
