package workload

import (
	"errors"
	"fmt"
	"strings"

	"spate/internal/call"
	"spate/internal/rng"
)

const (
	saltIDs = 8 // tokens a salt takes of each prompt
	// maxBlock bounds how many requests' lengths are drawn at a time, and so the memory they take. Beyond it
	// the draws are others than NumPy's for as many.
	maxBlock = 1 << 22
	noVocab  = 32000 // stands in for the vocabulary when there is no tokenizer
)

// random sends tokens drawn from the vocabulary: request i is a run of consecutive allowed ids
// that starts at a drawn offset.
//
// Lengths, offsets and the prefix are NumPy's to the bit. The ids that pad a prompt whose text came
// out short are not: vLLM draws them from the same generator while it walks through the requests,
// which would force one order on the making of prompts. Here each request has its own stream.
type random struct {
	remarks
	cfg     Config
	draws   drawer
	in, out span
	vocab   int
	allowed []int32
	prefix  []int32
	salt    []int32
	block   lengths // drawn N at a time
	first   int     // request number of the block's first
	at      int     // next in the block

	fitter
}

// lengths holds the draws of a block of requests.
type lengths struct{ in, out, offset []int32 }

func newRandom(cfg Config, tok Tokenizer) (*random, error) {
	r := &random{cfg: cfg, fitter: fitter{tok: tok}, vocab: noVocab}
	specials := 0
	if tok != nil {
		r.vocab, specials = tok.VocabSize(), tok.SpecialsToAdd()
		if r.vocab <= 0 {
			return nil, fmt.Errorf("the tokenizer has a vocabulary of %d", r.vocab)
		}
	} else {
		r.noTokenizer(&cfg)
	}
	err := errors.Join(r.cfg.InDist.load(cfg.Open), r.cfg.OutDist.load(cfg.Open))
	if err != nil {
		return nil, err
	}
	if r.in, r.out, err = cfg.spans(specials); err != nil {
		return nil, err
	}
	if r.draws, err = newDrawer(cfg.Era, cfg.Seed); err != nil {
		return nil, err
	}
	if r.allowed = r.allow(); len(r.allowed) == 0 {
		return nil, fmt.Errorf("all %d ids of the vocabulary are special", r.vocab)
	}
	r.salt = saltOf(cfg, func(draw func(int) int) int32 { return r.allowed[draw(len(r.allowed))] })
	r.draw()
	return r, nil
}

// allow lists the ids prompts are made of.
func (r *random) allow() []int32 {
	barred := map[int32]bool{}
	if r.tok != nil && r.cfg.Era == Head {
		for _, id := range r.tok.SpecialIDs() {
			barred[id] = true
		}
	}
	ids := make([]int32, 0, r.vocab)
	for id := range int32(r.vocab) {
		if !barred[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// draw makes the first block of draws in the era's order.
func (r *random) draw() {
	if r.cfg.Era == Head {
		r.drawBlock()
		r.drawPrefix()
		return
	}
	r.drawPrefix()
	r.drawBlock()
}

func (r *random) drawBlock() {
	if r.block.in == nil {
		n := min(r.cfg.N, maxBlock)
		r.block = lengths{make([]int32, n), make([]int32, n), make([]int32, n)}
	}
	r.draws.fill(r.block.in, r.in)
	r.draws.fill(r.block.out, r.out)
	r.draws.fill(r.block.offset, span{0, int64(r.vocab) - 1})
	r.spread()
}

func (r *random) drawPrefix() {
	r.prefix = make([]int32, r.cfg.Prefix)
	r.draws.fill(r.prefix, span{0, int64(len(r.allowed)) - 1})
	for i, pick := range r.prefix {
		r.prefix[i] = r.allowed[pick]
	}
	if len(r.prefix) == 0 || r.cfg.Era != Head || r.tok == nil {
		return
	}
	pad := func() int32 { return int32(r.draws.draw(span{0, int64(r.vocab) - 1})) }
	_, r.prefix = r.fit(&scratch{enc: r.tok.NewEncoder()}, r.prefix, len(r.prefix), pad)
}

func (r *random) next() (job, state, error) {
	if r.at == len(r.block.in) {
		r.first += r.at
		r.at = 0
		r.drawBlock()
	}
	j := job{index: r.first + r.at, in: int(r.block.in[r.at]), out: int(r.block.out[r.at]), offset: int(r.block.offset[r.at])}
	r.at++
	return j, issue, nil
}

func (r *random) build(s *scratch, j job) (call.Request, bool, error) {
	req := call.Request{MaxOut: j.out}
	nominal := r.cfg.Prefix + j.in
	if r.tok == nil {
		req.Prompt.Text = r.words(s, j)
		req.In = r.cfg.wordCount(nominal)
		return req, true, nil
	}
	s.ids = r.sequence(s.ids[:0], j)
	if r.cfg.IDs { // ids are counted as they are, so there is nothing to fit
		req.Prompt.IDs = append([]int32(nil), s.ids...)
		req.In = call.Count{N: len(s.ids), From: call.FromTokenizer}
		return req, true, nil
	}
	req.In = call.Count{N: nominal, From: call.FromTokenizer}
	switch r.cfg.Era {
	case V6:
		req.Prompt.Text = r.decode(s, s.ids)
		req.In.From = call.FromRequested
	case V10:
		s.ids = s.enc.Encode(s.ids[:0], r.decode(s, s.ids), false)
		s.ids = s.ids[:min(len(s.ids), nominal)]
		req.Prompt.Text = r.decode(s, s.ids)
		req.In.N = len(s.ids)
	default:
		req.Prompt.Text, s.ids = r.fit(s, s.ids, nominal, r.padding(j.index))
		req.In.N = len(s.ids)
	}
	return req, true, nil
}

// sequence appends the ids of a request: prefix, then the run from its offset. A salt replaces the
// first few, so that the length stays.
func (r *random) sequence(ids []int32, j job) []int32 {
	ids = append(ids, r.prefix...)
	at := (j.offset + j.index) % len(r.allowed)
	for left := j.in; left > 0; {
		run := r.allowed[at:min(len(r.allowed), at+left)]
		ids = append(ids, run...)
		left -= len(run)
		at = 0
	}
	copy(ids[:min(len(r.salt), len(ids)/2)], r.salt)
	return ids
}

// padding draws the ids that lengthen request i.
func (r *random) padding(i int) func() int32 {
	var stream interface{ IntN(int) int }
	return func() int32 {
		if stream == nil { // most prompts need none
			stream = rng.New(r.cfg.Seed, "random padding", uint64(i))
		}
		return int32(stream.IntN(r.vocab))
	}
}

// words is the prompt when there is no tokenizer.
func (r *random) words(s *scratch, j job) string {
	s.text = s.text[:0]
	if r.cfg.Salt != "" {
		s.text = append(append(s.text, r.cfg.Salt...), ' ')
	}
	s.text = appendWords(s.text, r.cfg.Words, rng.New(r.cfg.Seed, "prefix words"), r.cfg.Prefix)
	if r.cfg.Prefix > 0 {
		s.text = append(s.text, ' ')
	}
	s.text = appendWords(s.text, r.cfg.Words, rng.New(r.cfg.Seed, "words", uint64(j.index)), j.in-r.cfg.SaltLen)
	return strings.TrimSpace(string(s.text))
}

func (r *random) settle(job, *call.Request, bool) error { return nil }

func (r *random) close() error { return nil }

func (r *random) notes() []string {
	return append(r.remarks.notes(), r.fitter.notes()...)
}
