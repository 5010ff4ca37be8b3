package workload

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"spate/internal/call"
	"spate/internal/rng"
)

var repetitionDataset = Dataset{
	Name: "prefix_repetition", About: "several shared prefixes with random ends", Alike: true,
	open: newRepetition,
	fill: func(c *Config, r *Run) {
		p := &r.PrefixRepetition
		c.Prefix, c.Suffix, c.Groups, c.Output = p.PrefixLen, p.SuffixLen, p.NumPrefixes, p.OutputLen
	},
	check: func(r *Run, c Problems) {
		p := &r.PrefixRepetition
		c.Want(p.PrefixLen >= 0, "prefix-repetition-prefix-len", "%d is negative", p.PrefixLen)
		c.Want(p.SuffixLen >= 0, "prefix-repetition-suffix-len", "%d is negative", p.SuffixLen)
		c.Want(p.PrefixLen+p.SuffixLen > 0, "prefix-repetition-suffix-len", "a prompt needs at least one token")
		c.Want(p.NumPrefixes > 0, "prefix-repetition-num-prefixes", "%d is not above 0", p.NumPrefixes)
		c.Want(p.OutputLen > 0, "prefix-repetition-output-len", "%d is not above 0", p.OutputLen)
		c.Clash(r.N > 0 && r.N < p.NumPrefixes, "num-prompts", "prefix-repetition-num-prefixes",
			fmt.Sprintf("%d requests cannot have %d prefixes", r.N, p.NumPrefixes))
	},
}

// PrefixRepetition configures prefix_repetition.
type PrefixRepetition struct {
	PrefixLen   int `json:"prefix_len"`
	SuffixLen   int `json:"suffix_len"`
	NumPrefixes int `json:"num_prefixes"`
	OutputLen   int `json:"output_len"`
}

func (p *PrefixRepetition) flags() []Flag {
	return []Flag{
		{Name: "prefix-repetition-prefix-len", Default: "256", VLLM: true, To: &p.PrefixLen, Meta: "TOKENS", Help: "length of each prefix", Prompt: true},
		{Name: "prefix-repetition-suffix-len", Default: "256", VLLM: true, To: &p.SuffixLen, Meta: "TOKENS", Help: "length of what follows a prefix", Prompt: true},
		{Name: "prefix-repetition-num-prefixes", Default: "10", VLLM: true, To: &p.NumPrefixes, Help: "how many prefixes there are"},
		tokens("prefix-repetition-output-len", &p.OutputLen, "128", "output length of prefix_repetition").as(outputLen),
	}
}

// repetition is prefix_repetition: a few prefixes, each with many endings of its own. As vLLM does, it
// draws every id of every prompt from NumPy's global generator, one prompt after the other, the ids
// that pad a short text included; so all ids are drawn when the dataset is opened. What is left for
// the workers is to decode them.
type repetition struct {
	remarks
	fitter
	cfg      Config
	prefixes [][]int32
	suffixes [][]int32 // by prefix, then in the order they were drawn
	order    []int32
	at       int
	salt     []int32
}

func newRepetition(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	r := &repetition{cfg: cfg, fitter: fitter{tok: tok}}
	switch {
	case cfg.Output == FromData:
		return nil, 0, errors.New("random prompts have no output length of their own: give one")
	case cfg.Groups < 1:
		return nil, 0, fmt.Errorf("%d prefixes asked for: at least 1 is needed", cfg.Groups)
	case cfg.Prefix+cfg.Suffix < 1:
		return nil, 0, errors.New("prefix and suffix are both empty: a prompt needs at least one token")
	case cfg.N < cfg.Groups:
		return nil, 0, fmt.Errorf("%d requests are fewer than %d prefixes, so that no prefix would be sent twice: raise --num-prompts or lower --prefix-repetition-num-prefixes", cfg.N, cfg.Groups)
	case cfg.Seed > math.MaxUint32:
		return nil, 0, fmt.Errorf("seed %d is above %d, the highest NumPy's global generator takes", cfg.Seed, uint32(math.MaxUint32))
	}
	per := cfg.N / cfg.Groups
	n := per * cfg.Groups
	if left := cfg.N - n; left > 0 && !cfg.Endless {
		r.add(fmt.Sprintf("%d requests are sent, not %d: each of %d prefixes gets the same number, as in vLLM", n, cfg.N, cfg.Groups))
	}
	if tok == nil {
		r.noTokenizer(&cfg)
	} else {
		r.draw(per)
	}
	r.order = make([]int32, n)
	for i := range r.order {
		r.order[i] = int32(i)
	}
	if !cfg.NoShuffle {
		rng.NewPython(cfg.Seed).Shuffle(n, func(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] })
	}
	return r, n, nil
}

// draw makes all ids: each prefix, then the suffixes that follow it.
func (r *repetition) draw(per int) {
	s := &scratch{enc: r.tok.NewEncoder()}
	global := rng.NewLegacy(uint32(r.cfg.Seed))
	pick := func() int32 { return int32(global.Integers(0, int64(r.tok.VocabSize()))) }
	exact := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = pick()
		}
		_, ids = r.fit(s, ids, n, pick)
		return ids
	}
	for range r.cfg.Groups {
		r.prefixes = append(r.prefixes, exact(r.cfg.Prefix))
		for range per {
			r.suffixes = append(r.suffixes, exact(r.cfg.Suffix))
		}
	}
	r.salt = saltOf(r.cfg, func(draw func(int) int) int32 { return int32(draw(r.tok.VocabSize())) })
}

func (r *repetition) next() (job, state, error) {
	if r.at >= len(r.order) && !r.cfg.Endless {
		return job{}, done, nil
	}
	j := job{index: int(r.order[r.at%len(r.order)]), again: r.at >= len(r.order)}
	r.at++
	return j, issue, nil
}

func (r *repetition) build(s *scratch, j job) (call.Request, bool, error) {
	group := j.index / (len(r.order) / r.cfg.Groups)
	req := call.Request{MaxOut: r.cfg.Output}
	if r.tok == nil {
		req.Prompt.Text = r.words(s, group, j.index)
		req.In = r.cfg.wordCount(r.cfg.Prefix + r.cfg.Suffix)
		return req, true, nil
	}
	ids := make([]int32, 0, r.cfg.Prefix+r.cfg.Suffix)
	ids = append(append(ids, r.prefixes[group]...), r.suffixes[j.index]...)
	copy(ids[:min(len(r.salt), len(ids)/2)], r.salt)
	req.In = call.Count{N: len(ids), From: call.FromTokenizer}
	if r.cfg.IDs {
		req.Prompt.IDs = ids
		return req, true, nil
	}
	req.Prompt.Text = r.decode(s, ids)
	return req, true, nil
}

// words is a prompt when there is no tokenizer.
func (r *repetition) words(s *scratch, group, index int) string {
	s.text = s.text[:0]
	if r.cfg.Salt != "" {
		s.text = append(append(s.text, r.cfg.Salt...), ' ')
	}
	s.text = appendWords(s.text, r.cfg.Words, rng.New(r.cfg.Seed, "repeated prefix", uint64(group)), r.cfg.Prefix)
	s.text = append(s.text, ' ')
	s.text = appendWords(s.text, r.cfg.Words, rng.New(r.cfg.Seed, "suffix", uint64(index)), r.cfg.Suffix-r.cfg.SaltLen)
	return strings.TrimSpace(string(s.text))
}

func (r *repetition) settle(j job, req *call.Request, _ bool) error {
	markRepeat(j, req)
	return nil
}

func (r *repetition) close() error { return nil }

func (r *repetition) notes() []string { return append(r.remarks.notes(), r.fitter.notes()...) }
