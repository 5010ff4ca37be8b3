package serve

import (
	"math"
	"math/rand/v2"
	"time"

	"spate/internal/rng"
)

// Timetable is an engine that answers every request by the clock, whatever the load: first output
// after TTFT, the next ones ITL apart. Deadlines are absolute, so lateness never adds up.
type Timetable struct {
	cfg     TimetableConfig
	cache   *prefixCache
	due     []*run // 4-ary min-heap by before
	runs    map[*Request]*run
	waiting []*run // in order of arrival; aborted ones are dropped when they come up
	nwait   int
	running int
	queries int64
	hits    int64
}

// run is one request being answered.
type run struct {
	at   int64 // due time of the next output
	req  *Request
	out  Stream
	rnd  *rand.Rand
	sent int // tokens emitted
	step int // outputs emitted
	want int // tokens to emit
	end  Finish
	gone bool
	live bool // admitted
}

// NewTimetable returns a timetable engine.
func NewTimetable(cfg TimetableConfig) *Timetable {
	if cfg.ChunkTokens <= 0 {
		cfg.ChunkTokens = 1
	}
	t := &Timetable{cfg: cfg, runs: make(map[*Request]*run)}
	if cfg.PrefixCache {
		t.cache = newPrefixCache(cfg.CacheBlocks, cfg.BlockSize)
	}
	return t
}

// Submit implements Engine.
func (t *Timetable) Submit(now int64, req *Request, out Stream) {
	r := &run{req: req, out: out}
	if t.cfg.Jitter != 0 || t.cfg.TTFTSpread != 0 || t.cfg.OutputVary != 0 {
		r.rnd = rng.New(t.cfg.Seed, "sim/timetable", uint64(req.Index))
	}
	r.want, r.end = t.length(r)
	t.runs[req] = r
	if t.cfg.MaxRunning > 0 && t.running >= t.cfg.MaxRunning {
		t.waiting = append(t.waiting, r)
		t.nwait++
		return
	}
	t.admit(min(req.Arrived, now), r)
}

// length decides how many tokens a request gets and how it ends.
func (t *Timetable) length(r *run) (int, Finish) {
	req := r.req
	if tm := req.Timing; tm != nil && tm.Output > 0 {
		end := tm.Finish
		if end == Running {
			end = FinishStop
		}
		return tm.Output, end
	}
	want := req.MaxTokens
	if t.cfg.OutputLen == 0 || req.IgnoreEOS {
		return want, FinishLength
	}
	own := float64(t.cfg.OutputLen)
	if v := t.cfg.OutputVary; v != 0 {
		own *= 1 + v*(2*r.rnd.Float64()-1)
	}
	n := max(int(math.Round(own)), 1, req.MinTokens)
	if n < want {
		return n, FinishStop
	}
	return want, FinishLength
}

// admit starts the clock of a request at time at.
func (t *Timetable) admit(at int64, r *run) {
	req := r.req
	cached := 0
	if t.cache != nil {
		cached = t.cache.lookup(req.Prompt)
		t.queries += int64(req.PromptTokens)
		t.hits += int64(cached)
	}
	r.live = true
	t.running++
	r.out.Start(at, cached)
	ttft := t.cfg.TTFT
	if req.Timing != nil && req.Timing.TTFT != nil {
		ttft = *req.Timing.TTFT
	}
	ttft += time.Duration(int64(t.cfg.Prefill) * int64(req.PromptTokens-cached) / 1000)
	r.at = at + int64(t.vary(r, ttft))
	if t.cfg.TTFTSpread > 0 {
		r.at += r.rnd.Int64N(int64(t.cfg.TTFTSpread))
	}
	t.schedule(r)
}

// schedule puts a run into the heap unless the script has it stall here for ever.
func (t *Timetable) schedule(r *run) {
	if tm := r.req.Timing; tm != nil && tm.Stall != 0 && tm.StallAt == r.step {
		if tm.Stall < 0 {
			return
		}
		r.at += int64(tm.Stall)
	}
	t.push(r)
}

func (t *Timetable) vary(r *run, d time.Duration) time.Duration {
	if t.cfg.Jitter == 0 {
		return d
	}
	return time.Duration(float64(d) * (1 + t.cfg.Jitter*(2*r.rnd.Float64()-1)))
}

// gap returns the time between the output just emitted and the next.
func (t *Timetable) gap(r *run) time.Duration {
	d := t.cfg.ITL
	if tm := r.req.Timing; tm != nil && len(tm.ITL) > 0 {
		d = tm.ITL[min(r.step-1, len(tm.ITL)-1)]
	}
	return t.vary(r, d)
}

func (t *Timetable) chunk(r *run) int {
	n := t.cfg.ChunkTokens
	if tm := r.req.Timing; tm != nil && len(tm.Chunks) > 0 {
		n = tm.Chunks[min(r.step, len(tm.Chunks)-1)]
	}
	return min(max(n, 1), r.want-r.sent)
}

// Advance implements Engine.
func (t *Timetable) Advance(now int64) {
	for len(t.due) > 0 && t.due[0].at <= now {
		r := t.due[0]
		if r.gone {
			t.pop()
			continue
		}
		out := t.output(r)
		if out.Finish != Running {
			t.pop()
			t.finish(r)
			r.out.Emit(out)
			t.admitNext(r.at)
			continue
		}
		r.at += int64(t.gap(r))
		if tm := r.req.Timing; tm != nil {
			t.pop()
			t.schedule(r)
		} else {
			t.down(0)
		}
		r.out.Emit(out)
	}
}

// output makes the next output of a run and counts it. An output never mixes kinds: a reasoning or
// tool part ends where it ends.
func (t *Timetable) output(r *run) Output {
	n := t.chunk(r)
	kind := Text
	think, tool := 0, r.want
	if r.req.Chat {
		think, tool = t.cfg.Reasoning, max(r.want-t.cfg.ToolTokens, 0)
	}
	switch {
	case r.sent < think:
		kind = Reasoning
		n = min(n, think-r.sent)
	case r.sent >= tool:
		kind = Tool
	default:
		n = min(n, tool-r.sent)
	}
	out := Output{Due: r.at, Tokens: int32(n), Kind: kind}
	r.sent += n
	r.step++
	if r.sent >= r.want {
		out.Finish = r.end
		if kind == Tool {
			out.Finish = FinishTool
		}
	}
	return out
}

func (t *Timetable) finish(r *run) {
	delete(t.runs, r.req)
	t.running--
}

// admitNext starts the longest waiting request when one may start.
func (t *Timetable) admitNext(at int64) {
	for len(t.waiting) > 0 && t.running < t.cfg.MaxRunning {
		r := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		if r.gone {
			continue
		}
		t.nwait--
		t.admit(max(at, r.req.Arrived), r)
	}
}

// Abort implements Engine.
func (t *Timetable) Abort(now int64, req *Request) {
	r := t.runs[req]
	if r == nil {
		return
	}
	r.gone = true
	if !r.live {
		delete(t.runs, req)
		t.nwait--
		return
	}
	t.finish(r)
	t.admitNext(now)
}

// Next implements Engine.
func (t *Timetable) Next() int64 {
	if len(t.due) == 0 {
		return Never
	}
	return t.due[0].at
}

// ResetPrefixCache implements Engine.
func (t *Timetable) ResetPrefixCache() bool {
	if t.cache != nil {
		t.cache.reset()
	}
	return true
}

// State implements Engine.
func (t *Timetable) State() EngineState {
	s := EngineState{Running: t.running, Waiting: t.nwait, CacheQueries: t.queries, CacheHits: t.hits}
	if t.cache != nil {
		s.CacheBlocks, s.CacheCapacity = t.cache.len(), t.cache.capacity
	}
	return s
}

// before orders runs by deadline, and by arrival where deadlines are equal, so that the same
// requests always give the same sequence.
func (r *run) before(o *run) bool {
	return r.at < o.at || (r.at == o.at && r.req.Index < o.req.Index)
}

func (t *Timetable) push(r *run) {
	t.due = append(t.due, r)
	i := len(t.due) - 1
	for i > 0 {
		p := (i - 1) / 4
		if t.due[p].before(r) {
			break
		}
		t.due[i] = t.due[p]
		i = p
	}
	t.due[i] = r
}

func (t *Timetable) pop() {
	last := len(t.due) - 1
	t.due[0] = t.due[last]
	t.due[last] = nil
	t.due = t.due[:last]
	if last > 0 {
		t.down(0)
	}
}

func (t *Timetable) down(i int) {
	r := t.due[i]
	n := len(t.due)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if t.due[c].before(t.due[least]) {
				least = c
			}
		}
		if r.before(t.due[least]) {
			break
		}
		t.due[i] = t.due[least]
		i = least
	}
	t.due[i] = r
}
