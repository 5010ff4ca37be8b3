package sim

import (
	"spate/internal/rng"
	"spate/internal/sim/latency"
)

// part is one request's share of a batch under way.
type part struct {
	s      *seq
	tokens int32 // tokens computed
	sample bool
}

// flight is a planned batch that has not been committed.
type flight struct {
	lane      *lane
	parts     []part
	items     []Item
	shape     latency.Batch
	receive   int
	moved     int
	admitted  []Admission
	preempted []int
	adapters  []int
	repeat    int
	stamp     uint64 // order-sensitive hash of who computes how much
}

func (f *flight) reset(l *lane) {
	*f = flight{
		lane: l, parts: f.parts[:0], items: f.items[:0],
		admitted: f.admitted[:0], preempted: f.preempted[:0], adapters: f.adapters[:0], repeat: 1,
	}
}

// add puts n tokens of s into the batch and advances the request past them.
func (f *flight) add(s *seq, n int) {
	cfg := f.lane.cfg
	decode := !s.prefilling()
	item := Item{ID: s.ID, Tokens: n, Context: s.computed, Decode: decode}
	f.count(cfg, s, item)
	s.computed += n
	if decode {
		s.computed -= n - 1 // drafts count once they are accepted
	}
	s.flying++
	item.Sample = s.computed >= s.known()
	if item.Sample && cfg.Async {
		s.pending++
	}
	f.put(s, item)
}

// addReceived puts a request into the batch whose prompt arrives from another engine.
func (f *flight) addReceived(s *seq) {
	n := s.known() - s.computed
	f.receive += n
	s.computed += n
	s.flying++
	f.put(s, Item{ID: s.ID, Tokens: n, Sample: true, Receive: true})
}

func (f *flight) put(s *seq, item Item) {
	f.items = append(f.items, item)
	f.parts = append(f.parts, part{s: s, tokens: int32(item.Tokens), sample: item.Sample})
	f.stamp = rng.Mix(f.stamp ^ uint64(item.ID)<<24 ^ uint64(item.Tokens))
}

func (f *flight) count(cfg *Config, s *seq, item Item) {
	sh := &f.shape
	if item.Decode {
		context := item.Context + item.Tokens
		sh.Decode++
		sh.Drafts += item.Tokens - 1
		sh.KV += int64(context)
		sh.MaxContext = max(sh.MaxContext, context)
		if cfg.Window > 0 {
			sh.WindowKV += int64(min(context, cfg.Window))
			if context < cfg.Window {
				sh.Growing++
			}
		}
	} else {
		sh.Prompts++
		sh.Prefill += item.Tokens
		sh.Attention2 += int64(item.Tokens) * int64(2*item.Context+item.Tokens)
	}
	if s.Adapter != 0 {
		f.adapt(s.Adapter)
	}
}

// tokens is the number of tokens the batch computes.
func (f *flight) tokens() int {
	n := 0
	for i := range f.parts {
		n += int(f.parts[i].tokens)
	}
	return n
}

// adapt notes an adapter that the batch uses.
func (f *flight) adapt(a int) {
	if !f.uses(a) {
		f.adapters = append(f.adapters, a)
		f.shape.Adapters++
	}
}

func (f *flight) uses(a int) bool {
	for _, b := range f.adapters {
		if a == b {
			return true
		}
	}
	return false
}
