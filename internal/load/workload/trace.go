package workload

import (
	"errors"
	"fmt"
	"time"

	"spate/internal/call"
	"spate/internal/load/trace"
	"spate/internal/rng"
)

var timedTraceDataset = Dataset{
	Name: "timed_trace", Path: NeedsPath, AllRows: true, About: "a trace with times and block hashes", Timed: true, Trace: true, Exact: true, Alike: true,
	open: newReplay, fill: fillTrace, check: checkTrace,
}

var mooncakeDataset = Dataset{
	Name: "mooncake", Path: NeedsPath, AllRows: true, About: "a trace as published with Mooncake: timed_trace in milliseconds and blocks of 512", Timed: true, Trace: true, Exact: true, Alike: true,
	open: newReplay, fill: fillTrace, check: checkTrace,
	resolve: func(r *Run) {
		if !r.Has("timed-trace-chunk-hash-size") {
			r.TimedTrace.ChunkHashSize = 512
		}
		if !r.Has("timed-trace-sec-multiplier") {
			r.TimedTrace.SecMultiplier = 0.001
		}
	},
}

func fillTrace(c *Config, r *Run) {
	r.Replay.fill(c)
	t := &r.TimedTrace
	c.Trace.Format = trace.Format{
		Labels: trace.Labels{Time: t.LabelTimestamp, In: t.LabelInput, Out: t.LabelOutput, Blocks: t.LabelHashIDs},
		Chunk:  t.ChunkHashSize, Unit: t.SecMultiplier,
	}
}

func checkTrace(r *Run, c Problems) {
	c.Want(r.TimedTrace.ChunkHashSize > 0, "timed-trace-chunk-hash-size", "%d is not above 0", r.TimedTrace.ChunkHashSize)
	c.Want(r.TimedTrace.SecMultiplier > 0, "timed-trace-sec-multiplier", "%v is not above 0", r.TimedTrace.SecMultiplier)
}

// TimedTrace configures timed_trace.
type TimedTrace struct {
	ChunkHashSize  int     `json:"chunk_hash_size"`
	SecMultiplier  float64 `json:"sec_multiplier"`
	LabelTimestamp string  `json:"label_timestamp"`
	LabelInput     string  `json:"label_input_length"`
	LabelOutput    string  `json:"label_output_length"`
	LabelHashIDs   string  `json:"label_hash_ids"`
}

func (t *TimedTrace) flags() []Flag {
	return []Flag{
		tokens("timed-trace-chunk-hash-size", &t.ChunkHashSize, "16", "tokens that one block id of a trace stands for; mooncake: 512"),
		{Name: "timed-trace-sec-multiplier", Default: "1.0", VLLM: true, To: &t.SecMultiplier, Help: "seconds per unit of a trace's timestamps; mooncake: 0.001"},
		{Name: "timed-trace-label-timestamp", Default: "timestamp", VLLM: true, To: &t.LabelTimestamp, Help: "name of a trace's time column"},
		{Name: "timed-trace-label-input-length", Default: "input_length", VLLM: true, To: &t.LabelInput, Help: "name of its input length column"},
		{Name: "timed-trace-label-output-length", Default: "output_length", VLLM: true, To: &t.LabelOutput, Help: "name of its output length column"},
		{Name: "timed-trace-label-hash-ids", Default: "hash_ids", VLLM: true, To: &t.LabelHashIDs, Help: "name of its column of block ids"},
	}
}

// Replay says how the times of a trace are followed.
type Replay struct {
	Speed  float64       `json:"speed"` // times as fast as recorded
	MaxGap time.Duration `json:"max_gap_ns"`
}

func (r *Replay) flags() []Flag {
	return []Flag{
		{Name: "trace-speed", Default: "1.0", To: &r.Speed, Help: "how many times as fast as recorded a trace is sent; 0.5 takes twice as long"},
		{Name: "trace-max-gap", To: &r.MaxGap, Help: "cut longer pauses between requests of a trace to this, after --trace-speed"},
	}
}

func (r *Replay) fill(c *Config) { c.Trace.Speed, c.Trace.MaxGap = r.Speed, r.MaxGap }

// Trace says how a trace is read and sent (timed_trace, mooncake).
type Trace struct {
	Format trace.Format
	Speed  float64       // times as fast as recorded; 0 means as recorded
	MaxGap time.Duration // no time between requests is longer; 0 leaves them
}

// replay sends the requests of a trace: prompts of its lengths that share with each other exactly the
// tokens its block ids say. A block's tokens follow from its id alone, so a trace gives the same prompts in
// every process and on every machine, whatever the seed; only its first token depends on which blocks
// stand beside it, so that prompts part where their blocks do.
type replay struct {
	remarks
	cfg     Config
	tok     Tokenizer
	rows    []trace.Row
	tree    *trace.Tree
	ideal   trace.Ideal
	ids     bool
	allowed []int32
	at      int
}

func newReplay(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	file, err := cfg.Open(cfg.Path)
	if err != nil {
		return nil, 0, fmt.Errorf("open dataset: %w", err)
	}
	most := cfg.N
	if cfg.Endless {
		most = 0
	}
	rows, err := trace.Read(file, cfg.Trace.Format, most)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	return newReplayOf(cfg, tok, rows)
}

// newReplayOf is newReplay for rows that were read.
func newReplayOf(cfg Config, tok Tokenizer, rows []trace.Row) (*replay, int, error) {
	chunk := cfg.Trace.Format.Chunk
	r := &replay{cfg: cfg, tok: tok, rows: rows, ids: cfg.IDs || cfg.TakesIDs && tok != nil}
	missing, short := 0, 0
	for i := range rows {
		switch {
		case rows[i].Blocks == nil:
			missing++
		case rows[i].Tokens(chunk) < rows[i].In:
			short++
		}
	}
	if missing > 0 {
		r.add(fmt.Sprintf("%d of %d rows have no block ids: their prompts share nothing", missing, len(rows)))
	}
	if short > 0 {
		r.add(fmt.Sprintf("%d of %d rows have too few block ids of %d tokens for their length: their prompts are shorter, as with vLLM", short, len(rows), chunk))
	}
	trace.Named(rows, chunk)
	switch {
	case tok == nil && len(cfg.Words) > 0: // exact by the server's count
	case tok == nil:
		r.add("no tokenizer: prompts are plain words, of about the trace's lengths; shared beginnings are shared as text")
	default:
		r.allowed = allowedIDs(tok)
		if len(r.allowed) == 0 {
			return nil, 0, fmt.Errorf("all %d ids of the vocabulary are special", tok.VocabSize())
		}
		if !r.ids {
			r.add("prompts are sent as text, which the server's tokenizer may split into other tokens than the trace: an endpoint that takes token ids gets the exact ones")
		}
	}
	r.tree = trace.NewTree(chunk, max(len(r.allowed), 1))
	r.ideal = trace.Ideal{Requests: len(rows)}
	for i := range rows {
		r.ideal.Tokens += int64(rows[i].Tokens(chunk))
		r.ideal.Hit += int64(r.tree.Add(&rows[i]))
	}
	r.add(fmt.Sprintf("the trace's ideal prefix-hit rate is %.4f%%: %d of the %d prompt tokens of %d requests were in an earlier prompt (blocks of %d, an unlimited cache)",
		100*r.ideal.Rate(), r.ideal.Hit, r.ideal.Tokens, len(rows), chunk))
	if cfg.N > len(rows) && !cfg.Endless {
		r.add(fmt.Sprintf("the trace has %d rows: %d requests are sent, not %d", len(rows), len(rows), cfg.N))
	}
	return r, len(rows), nil
}

// allowedIDs are the ids of the vocabulary that are not special, in ascending order.
func allowedIDs(tok Tokenizer) []int32 {
	barred := map[int32]bool{}
	for _, id := range tok.SpecialIDs() {
		barred[id] = true
	}
	ids := make([]int32, 0, tok.VocabSize())
	for id := range int32(tok.VocabSize()) {
		if !barred[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *replay) next() (job, state, error) {
	if r.at >= len(r.rows) && !r.cfg.Endless {
		return job{}, done, nil
	}
	j := job{index: r.at % len(r.rows), again: r.at >= len(r.rows)}
	r.at++
	return j, issue, nil
}

func (r *replay) build(s *scratch, j job) (call.Request, bool, error) {
	row := &r.rows[j.index]
	n := row.Tokens(r.cfg.Trace.Format.Chunk)
	req := call.Request{MaxOut: row.Out, In: call.Count{N: n, From: call.FromTokenizer}}
	if r.tok == nil {
		s.text = s.text[:0]
		r.tree.First(row, func(block uint64, size, _ int) {
			if len(s.text) > 0 {
				s.text = append(s.text, ' ')
			}
			s.text = appendWords(s.text, r.cfg.Words, rng.New(0, "trace words "+r.cfg.Salt, block), size)
		})
		req.Prompt.Text, req.In.From = string(s.text), call.FromRequested
		return req, true, nil
	}
	ids := make([]int32, 0, n)
	r.tree.First(row, func(block uint64, size, first int) { ids = r.block(ids, block, size, first) })
	if r.ids {
		req.Prompt.IDs = ids
		return req, true, nil
	}
	s.text = r.tok.AppendDecode(s.text[:0], ids, false)
	req.Prompt.Text = string(s.text)
	return req, true, nil
}

// block appends the tokens of a block: size of the many its id stands for, the first of them chosen by
// the tree.
func (r *replay) block(ids []int32, id uint64, size, first int) []int32 {
	draws := rng.New(0, "trace block "+r.cfg.Salt, id)
	ids = append(ids, r.allowed[first])
	for range size - 1 {
		ids = append(ids, r.allowed[draws.IntN(len(r.allowed))])
	}
	return ids
}

func (r *replay) settle(j job, req *call.Request, _ bool) error {
	markRepeat(j, req)
	return nil
}

func (r *replay) close() error { return nil }

// times are when the rows are due.
func (r *replay) times() ([]time.Duration, error) {
	speed := r.cfg.Trace.Speed
	if speed == 0 {
		speed = 1
	}
	return trace.Replay(r.rows, speed, r.cfg.Trace.MaxGap)
}

// timed is a dataset that knows when its requests are due.
type timed interface {
	times() ([]time.Duration, error)
}

// Times are when the requests are due by the dataset's own record, from the first one on; nil where
// it has none.
func (s *Stream) Times() ([]time.Duration, error) {
	t, ok := s.ds.(timed)
	if !ok {
		return nil, nil
	}
	times, err := t.times()
	if err != nil {
		return nil, err
	}
	return times[:min(len(times), s.limit)], nil
}

// Ideal is the prefix-hit rate that no server can beat, where the dataset knows it.
func (s *Stream) Ideal() (trace.Ideal, bool) {
	r, ok := s.ds.(*replay)
	if !ok {
		return trace.Ideal{}, false
	}
	return r.ideal, true
}

// Count is how many requests the stream hands out at most; 0 for an endless one.
func (s *Stream) Count() int {
	if s.endless {
		return 0
	}
	return s.limit
}
