package workload

import (
	"errors"
	"fmt"

	"spate/internal/call"
)

// batched puts several random prompts into each request, for servers that embed them together.
type batched struct {
	*random
	left int
}

func newBatched(cfg Config, tok Tokenizer) (*batched, int, error) {
	if cfg.IDs {
		return nil, 0, errors.New("several prompts in one request are sent as text: leave --prompt-token-ids out")
	}
	r, err := newRandom(cfg, tok)
	if err != nil {
		return nil, 0, err
	}
	return &batched{random: r, left: cfg.N}, (cfg.N + cfg.Batch - 1) / cfg.Batch, nil
}

func (b *batched) next() (job, state, error) {
	j := job{}
	for len(j.parts) < b.cfg.Batch && (b.left > 0 || b.cfg.Endless) {
		part, _, err := b.random.next()
		if err != nil {
			return job{}, done, err
		}
		b.left--
		j.parts = append(j.parts, part)
	}
	if len(j.parts) == 0 {
		return job{}, done, nil
	}
	return j, issue, nil
}

func (b *batched) build(s *scratch, j job) (call.Request, bool, error) {
	var req call.Request
	for _, part := range j.parts {
		one, _, err := b.random.build(s, part)
		if err != nil {
			return call.Request{}, false, err
		}
		req.Prompt.Texts = append(req.Prompt.Texts, one.Prompt.Text)
		req.In = call.Count{N: req.In.N + one.In.N, From: one.In.From}
	}
	return req, true, nil
}

var rerankDataset = Dataset{
	Name: "random-rerank", About: "a query and documents to score",
	open: newRanked,
	fill: func(c *Config, r *Run) {
		c.Input, c.Ratio, c.Batch, c.NoReranker = r.Random.InputLen, r.Random.RangeRatio, r.Random.BatchSize, r.Random.NoReranker
	},
	check: func(r *Run, c Problems) {
		c.Clash(!r.Pools, "dataset-name", "backend", "random-rerank needs a server that ranks: use --backend vllm-rerank")
		r.Random.check(r, c)
	},
}

// ranked is random-rerank: one query, and documents to rank by it, several to a request. A model that ranks
// reads query and document together, so they share the input length; another one embeds each alone.
type ranked struct {
	batched
	query    string
	queryIn  call.Count
	together bool
}

func newRanked(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	q := &ranked{together: !cfg.NoReranker}
	cfg.Batch = max(1, cfg.Batch)
	ask := cfg
	ask.N, ask.Prefix, ask.Output, ask.Salt = 1, 0, 0, ""
	if q.together {
		ask.Input = cfg.Input/2 - 1
	} else {
		cfg.N, cfg.Batch = cfg.N-1, cfg.Batch-1
		if cfg.N < 1 || cfg.Batch < 1 {
			return nil, 0, errors.New("without a reranker the query takes one of the prompts: raise --num-prompts and --random-batch-size to at least 2")
		}
	}
	if ask.Input < 1 {
		return nil, 0, fmt.Errorf("input length %d is too short to hold a query and a document", cfg.Input)
	}
	r, err := newRandom(ask, tok)
	if err != nil {
		return nil, 0, err
	}
	first, _, err := r.next()
	if err != nil {
		return nil, 0, err
	}
	s := &scratch{}
	if tok != nil {
		s.enc = tok.NewEncoder()
	}
	made, _, err := r.build(s, first)
	if err != nil {
		return nil, 0, err
	}
	q.query, q.queryIn = salted(cfg.Salt, made.Prompt.Text), made.In
	q.batched = batched{random: r, left: cfg.N}
	return q, (cfg.N + cfg.Batch - 1) / cfg.Batch, q.documents(cfg, tok, first.in)
}

// documents goes on drawing from where the query ended: lengths and offsets of the documents, whose numbers
// begin with 1.
func (q *ranked) documents(cfg Config, tok Tokenizer, query int) error {
	cfg.Prefix, cfg.Output = 0, 0
	if q.together {
		cfg.Input -= query + 1
	}
	specials := 0
	if tok != nil {
		specials = tok.SpecialsToAdd()
	}
	var err error
	q.cfg = cfg
	if q.in, q.out, err = q.cfg.spans(specials); err != nil {
		return err
	}
	q.block, q.first, q.at = drawnLengths{}, 1, 0
	q.drawBlock()
	return nil
}

func (q *ranked) build(s *scratch, j job) (call.Request, bool, error) {
	req, keep, err := q.batched.build(s, j)
	if err != nil {
		return req, false, err
	}
	more := q.queryIn.N
	if q.together {
		more = (q.queryIn.N + 1) * len(j.parts)
	}
	req.In.N += more
	req.Prompt.Texts = append([]string{q.query}, req.Prompt.Texts...)
	return req, keep, nil
}
