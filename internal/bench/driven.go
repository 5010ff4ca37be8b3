package bench

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/load/deal"
	"spate/internal/result"
	"spate/internal/send/driver"
	"spate/internal/view/live"
)

// driven has the load sent by others.
func (s *session) driven(ctx context.Context, cfg driver.Config) (driver.Result, error) {
	begins := &begins{s: s, open: slices.Clone(s.tenants)}
	in := DriveInput{
		Clock: s.clock, Sink: recorder.Tee(cfg.Sink, begins), Live: cfg.Live, Row: s.rows.set, Stop: cfg.Stop, Began: begins.at,
		Grace: s.Config.Load.GracePeriod, Idle: s.idlePart, Lost: s.lost,
	}
	if s.folder != nil {
		in.Folder = s.folder.Dir
	}
	for _, t := range s.tenants {
		in.Bodies = append(in.Bodies, t.target.client.Body)
		in.Grace = max(in.Grace, t.Config.Load.GracePeriod)
		in.Until = max(in.Until, t.sendsFor())
	}
	if slices.ContainsFunc(s.tenants, func(t *tenant) bool { return t.sendsFor() == 0 }) {
		in.Until = 0
	}
	if slices.ContainsFunc(s.tenants, func(t *tenant) bool { return t.Config.Load.GracePeriod < 0 }) {
		in.Grace = -1
	}
	d, err := s.Drive(ctx, in)
	s.run.Workers = d.Workers
	return s.sumUp(d), err
}

// sendsFor is how long after the start sending ends; 0 when a count ends it.
func (t *tenant) sendsFor() time.Duration {
	until := t.load.plan.Until
	if w := t.load.warmup; until > 0 && t.load.plan.Due == nil && w != nil {
		until += w.For
	}
	return until
}

// sumUp is what the driver of each tenant, and all together, would have said: by the records of the workers.
func (s *session) sumUp(d Driven) driver.Result {
	of := map[string]*driver.Result{}
	for _, t := range s.tenants {
		t.res = driver.Result{Start: d.Start, End: d.End, Measure: call.Unset, Stopped: d.Stopped, Refusal: d.Refusal}
		of[t.name] = &t.res
	}
	res := driver.Result{Start: d.Start, End: d.End, Measure: call.Unset, Stopped: d.Stopped, Aborted: d.Aborted, Refusal: d.Refusal}
	for r := range s.memory.All() {
		one, ok := of[r.Labels[result.TenantLabel]]
		if !ok || r.Phase == call.Probe {
			continue
		}
		for _, to := range []*driver.Result{one, &res} {
			to.Tally.Add(r)
			if !r.Retried {
				to.Tally.Due++
			}
			if r.Phase == call.Measure && r.Dispatched != call.Unset && (to.Measure == call.Unset || r.Dispatched < to.Measure) {
				to.Measure = r.Dispatched
			}
		}
	}
	if res.Aborted != "" {
		res.Aborted = s.whole.whyAborted(res.Aborted, res.Refusal)
	}
	return res
}

// begins tells each tenant when its measured part begins: with the start, or with its first measured request where a
// warm-up goes ahead in a closed loop, which shows in the first of its records.
type begins struct {
	s *session

	mu   sync.Mutex
	open []*tenant // those that have not begun
}

func (b *begins) at(start time.Duration) {
	b.s.started.Store(int64(start))
	b.tell(start, func(t *tenant) bool { return t.load.plan.Due != nil || t.load.warmup == nil })
}

func (b *begins) Record(r *call.Record) error {
	if r.Phase == call.Measure && r.Dispatched != call.Unset {
		b.tell(r.Dispatched, func(t *tenant) bool { return r.Labels[result.TenantLabel] == t.name })
	}
	return nil
}

func (b *begins) Close() error { return nil }

func (b *begins) tell(at time.Duration, whom func(*tenant) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(t *tenant) bool {
		if !whom(t) {
			return false
		}
		t.began(at)
		return true
	})
}

// idlePart reports a part of the load that has nothing to send.
func (s *session) idlePart(p deal.Part) bool {
	if len(s.named) > 0 {
		return p.Index >= len(s.named)
	}
	t := s.tenants[0]
	return t.nothing(p.Share(t.slots()), t.load.source.Count())
}

// lost are the records of what was due from a worker that is gone: what it had let go and gave no record of was given
// up, the rest never left.
func (s *session) lost(ctx context.Context, g Gone) ([]call.Record, error) {
	var out []call.Record
	for _, t := range s.tenants {
		share := t.share()
		if t.name == "" {
			share = g.Part.Share(t.slots())
		} else if !g.Part.Share(0).Has(t.place) {
			continue
		}
		passed := 0
		for r := range t.planned(share, &g) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			r.Outcome, r.Fault, r.Err = call.Dropped, call.FaultLost, fmt.Sprintf("worker %s was gone when it was due", g.Name)
			if passed < g.Sent {
				r.Outcome, r.Err = call.Canceled, fmt.Sprintf("worker %s was gone before it told how it ended", g.Name)
			}
			passed++
			t.sign(&r)
			if g.Have(r.Phase, r.ID) {
				continue
			}
			r.Worker, r.End = g.Name, g.At
			out = append(out, r)
		}
	}
	return out, nil
}

// planned are the requests of a share that a worker had to let go before it was gone, in their order.
func (t *tenant) planned(share deal.Share, g *Gone) iter.Seq[call.Record] {
	if t.load.plan.Due == nil {
		return t.tookUp(share, g)
	}
	return func(yield func(call.Record) bool) {
		warm, measured := t.outline()
		next, stop := iter.Pull(chained(warm, measured))
		defer stop()
		for at := range t.load.plan.Due {
			req, ok := next()
			if !ok || g.Start+at >= g.At {
				return
			}
			r := call.NewRecord(&req)
			if r.Due = g.Start + at; share.Has(req.Number) && !yield(r) {
				return
			}
		}
	}
}

// tookUp are the requests that a closed loop had let go: as many as the worker said.
func (t *tenant) tookUp(share deal.Share, g *Gone) iter.Seq[call.Record] {
	warm, measured := t.outline()
	if w := t.load.warmup; w != nil && w.For > 0 && g.Start+w.For < g.At { // how many there were shows in the last one that ended
		warm = firstOf(warm, t.lastWarm(warm, share, g)+1)
	}
	return func(yield func(call.Record) bool) {
		left := g.Sent
		for req := range chained(warm, measured) {
			if left <= 0 {
				return
			}
			if !share.Has(req.Number) {
				continue
			}
			left--
			if !yield(call.NewRecord(&req)) {
				return
			}
		}
	}
}

// lastWarm is the number of the last warm-up request that there is a record of; -1 for none.
func (t *tenant) lastWarm(warm iter.Seq[call.Request], share deal.Share, g *Gone) int {
	last, looked := -1, 0
	for req := range warm {
		if looked >= g.Sent {
			break
		}
		if !share.Has(req.Number) {
			continue
		}
		looked++
		if g.Have(call.Warmup, req.ID*t.of+t.place) {
			last = req.Number
		}
	}
	return last
}

// outline are the requests of the whole load without what they ask: those of the warm-up, and the measured ones.
func (t *tenant) outline() (warm, measured iter.Seq[call.Request]) {
	warm, measured = firstOf(nil, 0), t.load.source.Outline()
	if w := t.load.warmup; w != nil {
		all, _ := w.Source.(interface{ Outline() iter.Seq[call.Request] }) // both kinds of warm-up have it
		warm = func(yield func(call.Request) bool) {
			for req := range all.Outline() {
				req.Phase = call.Warmup
				if !yield(req) {
					return
				}
			}
		}
		if w.N > 0 {
			warm = firstOf(warm, w.N)
		}
	}
	return warm, measured
}

// firstOf are the first n of a sequence.
func firstOf(of iter.Seq[call.Request], n int) iter.Seq[call.Request] {
	return func(yield func(call.Request) bool) {
		if n <= 0 {
			return
		}
		seen := 0
		for req := range of {
			if seen++; !yield(req) || seen == n {
				return
			}
		}
	}
}

// chained is one sequence after the other.
func chained(parts ...iter.Seq[call.Request]) iter.Seq[call.Request] {
	return func(yield func(call.Request) bool) {
		for _, p := range parts {
			for req := range p {
				if !yield(req) {
					return
				}
			}
		}
	}
}

// rows are the workers as they stand, for the live view.
type rows struct {
	mu   sync.Mutex
	list []live.Worker
}

func (r *rows) set(w live.Worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.list, func(have live.Worker) bool { return have.Name == w.Name })
	if i < 0 {
		r.list = append(r.list, w)
		slices.SortFunc(r.list, func(a, b live.Worker) int { return cmp.Compare(a.Name, b.Name) })
		return
	}
	r.list[i] = w
}

func (r *rows) get() []live.Worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
