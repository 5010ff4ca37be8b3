package workload

import (
	"fmt"
	"iter"
	"strconv"

	"spate/internal/call"
)

// A load that several workers send is drawn by each of them in the same order, so that request i is the same for any
// number of workers; only what a worker sends itself it also makes. That a request of others need not be made is
// known where every drawn one is kept; where the making decides, as by the length of a text, all are made.

// certain is a dataset that can say of a drawn job that it will be kept.
type certain interface{ sure(j job) bool }

func (*random) sure(job) bool       { return true }
func (*recut) sure(job) bool        { return true }
func (*burst) sure(job) bool        { return true }
func (*custom) sure(job) bool       { return true }
func (*repetition) sure(job) bool   { return true }
func (*shared) sure(job) bool       { return true }
func (*replay) sure(job) bool       { return true }
func (*dialogs) sure(job) bool      { return true }
func (g *shareGPT) sure(j job) bool { return j.again }
func (h *hub) sure(j job) bool      { return j.again || h.rule.check == nil }
func (p *sonnet) sure(job) bool     { return p.cfg.Era == V6 }

// skipper is a dataset for which a request that is not made leaves something to do.
type skipper interface{ skip(j job) }

// Outline are all requests of a stream in their order, whoever sends them, without what they ask: numbers, names, and
// the conversations they begin. There are as many as there may be.
func (s *Stream) Outline() iter.Seq[call.Request] {
	return func(yield func(call.Request) bool) {
		id := 0
		for n := range s.limit {
			req := call.Request{ID: n, Number: n, Phase: call.Measure}
			if t, ok := s.ds.(*dialogs); ok {
				req.ID, req.Session = id, sessionName(n)
				id += t.length(n)
			}
			if req.Name = s.prefix + strconv.Itoa(req.ID); !yield(req) {
				return
			}
		}
	}
}

// skip gives a conversation of others as many requests as it has, since the numbers of later ones follow from it.
func (t *dialogs) skip(j job) {
	j.thread.script, j.thread.others = make([]step, t.length(j.index)), true
}

func sessionName(conversation int) string { return fmt.Sprintf("s%d", conversation) }
