package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/load/lengths"
	"spate/internal/rng"
)

const (
	saltIDs = 8 // tokens a salt takes of each prompt
	// maxBlock bounds how many requests' lengths are drawn at a time, and so the memory they take. Beyond it
	// the draws are others than NumPy's for as many.
	maxBlock = 1 << 22
	noVocab  = 32000 // stands in for the vocabulary when there is no tokenizer
)

var randomDataset = Dataset{
	Name: "random", Path: OptionalPath, About: "random tokens of given lengths, or a file's conversations cut to them", Exact: true, Random: true,
	open: func(c Config, tok Tokenizer, _ Template) (dataset, int, error) {
		switch {
		case c.Batch > 1:
			return newBatched(c, tok)
		case c.Path != "":
			ds, err := newRecut(c, tok)
			return ds, c.N, err
		}
		ds, err := newRandom(c, tok)
		return ds, c.N, err
	},
	fill: func(c *Config, r *Run) {
		r.Random.fill(c)
		c.Batch = r.Random.BatchSize
		switch r.Random.Meaning {
		case RatioV6:
			c.Era = V6
		case RatioV10:
			c.Era = V10
		}
	},
	check: func(r *Run, c Problems) {
		r.Random.check(r, c)
		c.Clash(r.Random.BatchSize > 1 && !r.Pools, "random-batch-size", "backend",
			r.Backend+" answers one prompt at a time; embedding servers take several")
	},
}

// Random configures synthetic prompts of chosen lengths.
type Random struct {
	InputLen   int           `json:"input_len"`
	OutputLen  int           `json:"output_len"`
	PrefixLen  int           `json:"prefix_len"`
	RangeRatio lengths.Ratio `json:"range_ratio"`
	Meaning    RatioMeaning  `json:"range_ratio_meaning"` // once the settings are resolved: never auto
	BatchSize  int           `json:"batch_size"`
	NoReranker bool          `json:"no_reranker"`
}

// RatioMeaning says how a range ratio is read.
type RatioMeaning string

// Meanings of --random-range-ratio.
const (
	RatioAuto RatioMeaning = "auto" // head; a ratio of 1, which head refuses, is an older script's way to say fixed
	RatioHead RatioMeaning = "head" // lengths in [len*(1-r), len*(1+r)]; 0 is fixed
	RatioV10  RatioMeaning = "v10"  // as head, with the rounding and sampling of vLLM 0.8.4 to 0.11
	RatioV6   RatioMeaning = "v6"   // lengths in [len*r, len]; 1 is fixed
)

func (r *Random) flags() []Flag {
	return []Flag{
		{Name: "random-input-len", VLLM: true, Main: true, Default: "1024", To: &r.InputLen, Meta: "TOKENS", Help: "prompt length of random prompts", Like: inputLen, Prompt: true},
		{Name: "random-output-len", VLLM: true, Main: true, Default: "128", To: &r.OutputLen, Meta: "TOKENS", Help: "output length of random prompts", Like: outputLen},
		{
			Name: "random-range-ratio", VLLM: true, Main: true, Default: "0.0", To: &r.RangeRatio,
			Help: `spread of random lengths: r draws from [len*(1-r), len*(1+r)]; {"input":r1,"output":r2} sets one for each`,
		},
		{
			Name: "range-ratio-meaning", Default: "auto", To: &r.Meaning, Choices: []string{"auto", "head", "v10", "v6"},
			Help: "which version's rule --random-range-ratio follows: head is described there; v10 is the same with the rounding of vLLM 0.10; v6 is [len*r, len], as before vLLM 0.8.4; auto is head, but takes a ratio of 1, which head refuses, as fixed lengths",
		},
		{
			Name: "random-prefix-len", VLLM: true, Default: "0", To: &r.PrefixLen, Meta: "TOKENS", Prompt: true,
			Help: "length of a common beginning that is put before every random prompt", Also: []string{"prefix-prompt-length", "shared-system-prompt-length"},
		},
		{Name: "random-batch-size", VLLM: true, Default: "1", To: &r.BatchSize, Help: "random prompts in each request to an embedding server; documents in each of random-rerank"},
		{Name: "no-reranker", VLLM: true, To: &r.NoReranker, Help: "random-rerank for a model that embeds query and documents separately"},
		{
			Name: "salt", Main: true,
			Help: "text put before every prompt, so that a repeated run does not measure the server's prefix cache; auto makes a new one each run",
		},
	}
}

func (r *Random) fill(c *Config) {
	c.Input, c.Output, c.Prefix, c.Ratio = r.InputLen, r.OutputLen, r.PrefixLen, r.RangeRatio
}

func (r *Random) check(run *Run, c Problems) {
	c.Want(r.BatchSize > 0 || !run.Has("random-batch-size"), "random-batch-size", "%d is not above 0", r.BatchSize)
	c.Want(r.InputLen >= 0, "random-input-len", "%d is negative", r.InputLen)
	c.Want(r.PrefixLen >= 0, "random-prefix-len", "%d is negative", r.PrefixLen)
	c.Want(r.InputLen+r.PrefixLen > 0, "random-input-len", "a prompt needs at least one token")
	c.Want(r.OutputLen > 0, "random-output-len", "%d is not above 0", r.OutputLen)
	for _, v := range slices.Compact([]float64{r.RangeRatio.Input, r.RangeRatio.Output}) {
		if r.Meaning == RatioV6 {
			c.Want(v >= 0 && v <= 1, "random-range-ratio", "%v is not between 0 and 1, as the older rule requires", v)
			continue
		}
		c.Want(v >= 0 && v < 1, "random-range-ratio", "%v is not at least 0 and below 1", v)
	}
}

// random sends tokens drawn from the vocabulary: request i is a run of consecutive allowed ids
// that starts at a drawn offset.
//
// Lengths, offsets and the prefix are NumPy's to the bit. The ids that pad a prompt whose text came
// out short are not: vLLM draws them from the same generator while it walks through the requests,
// which would force one order on the making of prompts. Here each request has its own stream.
type random struct {
	remarks
	cfg     Config
	draws   lengths.Drawer
	in, out lengths.Span
	vocab   int
	allowed []int32
	prefix  []int32
	salt    []int32
	block   drawnLengths // drawn N at a time
	first   int          // request number of the block's first
	at      int          // next in the block

	fitter
}

// drawnLengths holds the draws of a block of requests.
type drawnLengths struct{ in, out, offset []int32 }

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
	err := errors.Join(lengths.Load(&r.cfg.InDist, cfg.Open), lengths.Load(&r.cfg.OutDist, cfg.Open))
	if err != nil {
		return nil, err
	}
	if r.in, r.out, err = cfg.spans(specials); err != nil {
		return nil, err
	}
	if r.draws, err = lengths.NewDrawer(cfg.Era, cfg.Seed); err != nil {
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
		r.block = drawnLengths{make([]int32, n), make([]int32, n), make([]int32, n)}
	}
	r.draws.Fill(r.block.in, r.in)
	r.draws.Fill(r.block.out, r.out)
	r.draws.Fill(r.block.offset, lengths.Span{Low: 0, High: int64(r.vocab) - 1})
	r.spread()
}

func (r *random) drawPrefix() {
	r.prefix = make([]int32, r.cfg.Prefix)
	r.draws.Fill(r.prefix, lengths.Span{Low: 0, High: int64(len(r.allowed)) - 1})
	for i, pick := range r.prefix {
		r.prefix[i] = r.allowed[pick]
	}
	if len(r.prefix) == 0 || r.cfg.Era != Head || r.tok == nil {
		return
	}
	pad := func() int32 { return int32(r.draws.Draw(lengths.Span{Low: 0, High: int64(r.vocab) - 1})) }
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
		if !r.cfg.Lengths {
			req.Prompt.Text = r.words(s, j)
		}
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
