package sim

import (
	"fmt"

	"spate/internal/rng"
	"spate/internal/sim/kv"
)

// Stats counts what an engine has done since it was made.
type Stats struct {
	Submitted    int64 `json:"submitted"`
	Finished     int64 `json:"finished"`
	Aborted      int64 `json:"aborted"`
	Steps        int64 `json:"steps"`
	PromptTokens int64 `json:"prompt_tokens"` // computed, recomputed ones included
	Tokens       int64 `json:"tokens"`        // sampled
	Preemptions  int64 `json:"preemptions"`
	SwappedOut   int64 `json:"swapped_out,omitempty"` // of them, those whose blocks were moved to the host
	Queries      int64 `json:"prefix_queries"`        // tokens looked up in the prefix cache
	Hits         int64 `json:"prefix_hits"`

	recent window
}

// State is an engine at one moment.
type State struct {
	Running   int
	Waiting   int // requests queued, those waiting for KV from elsewhere included
	Deferred  int // of them, those that hold blocks and wait for KV
	Swapped   int // requests whose blocks are in the host's memory
	Host      int // blocks there
	HostTotal int
	Free      int // blocks
	Total     int
	HitRecent float64 // prefix hit rate over the last thousand queries, as vLLM logs it
	Stats     Stats
}

// Usage is the share of the KV cache in use.
func (s State) Usage() float64 {
	if s.Total == 0 {
		return 0
	}
	return 1 - float64(s.Free)/float64(s.Total)
}

// uniform draws from [0, 1); rng streams do.
type uniform interface{ Float64() float64 }

// Engine is one serving engine. It is not safe for concurrent use.
type Engine struct {
	cfg     Config
	lanes   []*lane
	seqs    map[int]*seq
	flights []*flight // under way, oldest first
	spare   []*flight
	idle    []*seq // recycled
	ended   []*seq // with the step being committed
	turn    int    // lane to plan next
	count   int64
	digest  uint64
	stats   Stats
	draw    uniform
	out     Outputs
	scratch stretch
}

// New makes an empty engine.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, seqs: map[int]*seq{}, draw: rng.New(cfg.Seed, "sim.accept")}
	e.stats.recent.older = cfg.CountRetries
	for i := range cfg.lanes() {
		pool := kv.NewPool(cfg.laneBlocks(), cfg.UnhashedFirst)
		e.lanes = append(e.lanes, &lane{cfg: &e.cfg, index: i, pool: pool, stats: &e.stats, ratio: cfg.ReserveRatio})
	}
	return e, nil
}

// Config is what the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Submit queues a request.
func (e *Engine) Submit(r Request) error {
	in := kv.Length(r.Prompt)
	if in < 1 || r.Out < 1 {
		return fmt.Errorf("%w: %d prompt and %d output tokens", ErrTooLong, in, r.Out)
	}
	if e.seqs[r.ID] != nil {
		return fmt.Errorf("request %d is already in the engine", r.ID)
	}
	if err := e.fits(in, r.Out); err != nil {
		return err
	}
	s := e.newSeq()
	s.Request, s.in = r, in
	if r.OutStream == 0 {
		s.OutStream = rng.Mix(rng.Mix(uint64(e.stats.Submitted)+1) ^ e.cfg.Seed ^ 0x6f7574)
	} else {
		for _, l := range e.lanes {
			l.shared = true
		}
	}
	switch {
	case e.cfg.PrefixCaching:
		s.chain = kv.NewChain(r.Prompt, s.OutStream, uint64(r.Adapter))
	case r.Group != 0:
		s.chain = kv.NewChain(r.Prompt, s.OutStream, rng.Mix(r.Group)) // names nobody else knows
	}
	s.lane = e.pick()
	s.lane.waiting.push(s)
	e.seqs[r.ID] = s
	e.stats.Submitted++
	return nil
}

// fits reports why a request could never run to its end.
func (e *Engine) fits(in, out int) error {
	l := e.lanes[0]
	if m := e.cfg.MaxModelLen; m > 0 && in+out > m {
		return fmt.Errorf("%w: %d prompt and %d output tokens exceed max_model_len %d", ErrTooLong, in, out, m)
	}
	n := l.ceil(in + out + e.cfg.Drafts)
	if n+l.sideWanted(n)+l.watermark() > l.pool.Total() {
		return fmt.Errorf("%w: %d tokens exceed the KV cache of %d blocks", ErrTooLong, in+out, l.pool.Total())
	}
	if most := in + out - 1; e.cfg.whole() && most > e.cfg.MaxTokens { // what it recomputes when preempted late
		return fmt.Errorf("%w: %d tokens exceed a step of %d and prompts are not cut", ErrTooLong, most, e.cfg.MaxTokens)
	}
	return nil
}

// pick is the lane with the fewest requests.
func (e *Engine) pick() *lane {
	best := e.lanes[0]
	for _, l := range e.lanes[1:] {
		if l.load() < best.load() {
			best = l
		}
	}
	return best
}

// load is the number of requests of a lane.
func (l *lane) load() int { return len(l.running) + l.waiting.len() + l.swapped.len() }

func (e *Engine) newSeq() *seq {
	if n := len(e.idle); n > 0 {
		s := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return s
	}
	return &seq{}
}

// recycle keeps the memory of a request that nothing refers to any more.
func (e *Engine) recycle(s *seq) {
	*s = seq{blocks: s.blocks[:0], side: s.side[:0], hashes: s.hashes[:0], finds: s.finds[:0]}
	e.idle = append(e.idle, s)
}

// Abort removes a request at once. Tokens of a step under way are lost. It reports whether the
// request was there.
func (e *Engine) Abort(id int) bool {
	s := e.seqs[id]
	if s == nil {
		return false
	}
	e.stats.Aborted++
	wasActive := s.stage == active
	e.leave(s)
	if wasActive {
		s.lane.sweep()
	}
	for _, f := range e.flights {
		f.repeat = 1 // the items have changed
	}
	if s.flying == 0 {
		e.recycle(s)
	}
	return true
}

// leave takes a request out of the books; a running one stays in its lane's list until swept.
func (e *Engine) leave(s *seq) {
	switch s.stage {
	case active:
	case parked:
		s.lane.swapped.remove(s)
		s.lane.unpark(s)
	case fetched:
		s.lane.fetched--
		s.lane.waiting.remove(s)
	default:
		s.lane.waiting.remove(s)
	}
	s.lane.release(s)
	s.stage = gone
	delete(e.seqs, s.ID)
}

// Deliver says that the KV of a remote request's prompt has arrived.
func (e *Engine) Deliver(id int) bool {
	s := e.seqs[id]
	if s == nil || s.stage != fetched {
		return false
	}
	s.received = true
	return true
}

// Fetches lists the requests that were given blocks since the last call and now wait for their
// prompt's KV. Call it after Plan, whatever Plan reported.
func (e *Engine) Fetches() []int {
	var ids []int
	for _, l := range e.lanes {
		ids = append(ids, l.fetches...)
		l.fetches = l.fetches[:0]
	}
	return ids
}

// Forget says that the KV of a remote request's prompt will not arrive: the request computes it here.
func (e *Engine) Forget(id int) bool {
	s := e.seqs[id]
	if s == nil || s.stage == active {
		return false
	}
	if s.stage == fetched {
		s.lane.fetched--
	}
	s.lane.release(s)
	s.stage, s.Remote = queued, false
	return true
}

// ResetPrefixCache forgets all cached blocks. It cannot while any is in use.
func (e *Engine) ResetPrefixCache() bool {
	for _, l := range e.lanes {
		if l.pool.Free() != l.pool.Total() {
			return false
		}
	}
	for _, l := range e.lanes {
		l.pool.Reset()
	}
	e.stats.recent = window{older: e.cfg.CountRetries}
	return true
}

// State reports the engine's gauges and counters.
func (e *Engine) State() State {
	st := State{Stats: e.stats, HitRecent: e.stats.recent.rate()}
	for _, l := range e.lanes {
		st.Running += len(l.running)
		st.Waiting += l.waiting.len()
		st.Swapped += l.swapped.len()
		st.Host += l.parked
		st.HostTotal += l.cfg.SwapBlocks
		st.Free += l.pool.Free()
		st.Total += l.pool.Total()
		for _, s := range l.waiting.live() {
			if s.stage == fetched {
				st.Deferred++
			}
		}
	}
	return st
}

// Load is the number of requests in the engine.
func (e *Engine) Load() int { return len(e.seqs) }

// Pending reports whether any request is in the engine.
func (e *Engine) Pending() bool { return len(e.seqs) > 0 }

// InFlight is the number of batches under way.
func (e *Engine) InFlight() int { return len(e.flights) }

// Digest is a hash of every batch run so far: who computed how many tokens, in which order.
func (e *Engine) Digest() uint64 { return e.digest }

// Check verifies the books of all block pools and queues.
func (e *Engine) Check() error {
	n := 0
	for _, l := range e.lanes {
		if err := l.pool.Check(); err != nil {
			return fmt.Errorf("lane %d: %w", l.index, err)
		}
		n += len(l.running) + l.waiting.len() + l.swapped.len()
		held := 0
		for _, s := range l.swapped.live() {
			held += s.host
		}
		if held != l.parked || held > l.cfg.SwapBlocks {
			return fmt.Errorf("lane %d: %d blocks in the host's memory, %d counted, room for %d", l.index, held, l.parked, l.cfg.SwapBlocks)
		}
	}
	if n != len(e.seqs) {
		return fmt.Errorf("%d requests known, %d queued or running", len(e.seqs), n)
	}
	if in := e.stats.Finished + e.stats.Aborted + int64(n); in != e.stats.Submitted {
		return fmt.Errorf("%d requests submitted, %d accounted for", e.stats.Submitted, in)
	}
	return nil
}
