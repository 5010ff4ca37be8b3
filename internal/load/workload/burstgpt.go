package workload

import (
	"errors"
	"fmt"
	"math"
	"time"

	"spate/internal/call"
	"spate/internal/load/trace"
	"spate/internal/rng"
)

// burstModel is the model whose calls vLLM takes from the file.
const burstModel = "GPT-4"

var burstDataset = Dataset{
	Name: "burstgpt", Path: NeedsPath, AllRows: true, About: "token counts of a CSV trace", Timed: true,
	open: newBurst,
	fill: func(c *Config, r *Run) { r.Replay.fill(c) },
}

// burst sends prompts of the lengths in a BurstGPT file. Rows are picked as pandas picks them for the seed;
// when the file's own times are followed, they come in its order.
type burst struct {
	remarks
	cfg   Config
	tok   Tokenizer
	vocab int
	rows  []trace.Row // in the order they are sent
	at    int
}

func newBurst(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	if cfg.Seed > math.MaxUint32 {
		return nil, 0, fmt.Errorf("seed %d is above %d, the highest pandas takes", cfg.Seed, uint32(math.MaxUint32))
	}
	file, err := cfg.Open(cfg.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("open dataset: %w", err)
	}
	all, err := trace.ReadBurst(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	b := &burst{cfg: cfg, tok: tok, vocab: noVocab}
	var usable []trace.Row
	for _, row := range all {
		if row.Model == burstModel && row.Out > 0 {
			usable = append(usable, row.Row)
		}
	}
	if len(usable) == 0 {
		return nil, 0, fmt.Errorf("%s: none of %d rows is a call of %s that was answered", cfg.Path, len(all), burstModel)
	}
	if tok == nil {
		b.noTokenizer(&cfg)
	} else {
		b.vocab = tok.VocabSize()
	}
	b.pick(usable)
	return b, len(b.rows), nil
}

// pick takes rows: the first ones for a replay, else a sample, with repeats where the file is short.
func (b *burst) pick(usable []trace.Row) {
	n := b.cfg.N
	if n <= 0 {
		n = len(usable)
	}
	if b.cfg.SelfTimed {
		b.rows = usable[:min(n, len(usable))]
		return
	}
	state := rng.NewLegacy(uint32(b.cfg.Seed))
	if n > len(usable) {
		b.add(fmt.Sprintf("the file has %d usable rows: %d requests take some of them more than once", len(usable), n))
		for range n {
			b.rows = append(b.rows, usable[state.Integers(0, int64(len(usable)))])
		}
		return
	}
	order := make([]int32, len(usable))
	for i := range order {
		order[i] = int32(i)
	}
	state.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, i := range order[:n] {
		b.rows = append(b.rows, usable[i])
	}
}

func (b *burst) next() (job, state, error) {
	if b.at >= len(b.rows) && !b.cfg.Endless {
		return job{}, done, nil
	}
	row := b.rows[b.at%len(b.rows)]
	j := job{index: b.at, in: row.In, out: row.Out}
	b.at++
	return j, issue, nil
}

func (b *burst) build(s *scratch, j job) (call.Request, bool, error) {
	req := call.Request{MaxOut: j.out, In: call.Count{N: j.in, From: call.FromRequested}}
	if b.tok == nil {
		s.text = appendWords(s.text[:0], b.cfg.Words, rng.New(b.cfg.Seed, "burst words", uint64(j.index)), j.in)
		req.Prompt.Text = salted(b.cfg.Salt, string(s.text))
		return req, true, nil
	}
	s.ids = s.ids[:0]
	for k := range j.in {
		s.ids = append(s.ids, int32((j.index+k)%b.vocab))
	}
	if b.cfg.IDs {
		req.Prompt.IDs, req.In.From = append([]int32(nil), s.ids...), call.FromTokenizer
		return req, true, nil
	}
	s.text = b.tok.AppendDecode(s.text[:0], s.ids, false)
	req.Prompt.Text = salted(b.cfg.Salt, string(s.text))
	return req, true, nil
}

func (b *burst) settle(job, *call.Request, bool) error { return nil }

func (b *burst) close() error { return nil }

func (b *burst) times() ([]time.Duration, error) {
	if !b.cfg.SelfTimed {
		return nil, nil
	}
	speed := b.cfg.Trace.Speed
	if speed == 0 {
		speed = 1
	}
	return trace.Replay(b.rows, speed, b.cfg.Trace.MaxGap)
}
