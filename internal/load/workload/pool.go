package workload

import (
	"fmt"

	"spate/internal/call"
	"spate/internal/rng"
)

// pool draws rows of a file: each once in shuffled order, then, when they do not suffice, accepted
// ones again. It remembers a few integers a row, never text.
type pool struct {
	seed      uint64
	oversamp  bool
	order     []int32
	at        int // next of order
	unsettled int
	taken     []row
	again     *rng.Python // draws repeats; nil until they begin
	repeats   int
}

// row is an accepted row and its lengths.
type row struct{ index, in, out int32 }

func newPool(cfg Config, rows int) pool {
	p := pool{seed: cfg.Seed, oversamp: !cfg.NoOversample && cfg.Era != V6, order: make([]int32, rows)}
	for i := range p.order {
		p.order[i] = int32(i)
	}
	if !cfg.NoShuffle {
		rng.NewPython(cfg.Seed).Shuffle(rows, func(i, j int) { p.order[i], p.order[j] = p.order[j], p.order[i] })
	}
	return p
}

// draw is next without its job's meaning: repeats wait until every row was judged, because they
// are drawn from the accepted ones.
func (p *pool) draw() (job, state) {
	switch {
	case p.at < len(p.order):
		p.at++
		p.unsettled++
		return job{index: int(p.order[p.at-1])}, issue
	case p.again == nil && p.unsettled > 0:
		return job{}, wait
	case !p.oversamp || len(p.taken) == 0:
		return job{}, done
	}
	if p.again == nil {
		p.again = rng.NewPython(p.seed)
	}
	r := p.taken[p.again.Choice(len(p.taken))]
	p.repeats++
	return job{index: int(r.index), in: int(r.in), out: int(r.out), again: true}, issue
}

func (p *pool) settle(j job, req *call.Request, keep bool) {
	if j.again {
		markRepeat(j, req)
		return
	}
	p.unsettled--
	if keep {
		p.taken = append(p.taken, row{int32(j.index), int32(req.In.N), int32(req.MaxOut)})
	}
}

func (p *pool) note() []string {
	if p.repeats == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the file has %d usable rows: further requests repeat them, which a prefix cache makes faster", len(p.taken))}
}

// markRepeat labels a request whose prompt was sent before.
func markRepeat(j job, req *call.Request) {
	if !j.again {
		return
	}
	labels := map[string]string{call.RepeatLabel: "yes"}
	for k, v := range req.Labels {
		labels[k] = v
	}
	req.Labels = labels
}
