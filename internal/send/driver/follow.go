package driver

import (
	"fmt"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/load/workload"
)

// serve sends a request and then, one after the other, the turns its answers lead to; those that an answer
// sets to work beside each other go at the same time. It returns when the last of them has ended: a slot
// holds a conversation, think times included.
func (r *run) serve(it item) (end time.Duration) {
	end, turns := r.send(it)
	var beside sync.WaitGroup
	for len(turns) > 0 {
		at := end
		for _, t := range turns[1:] {
			beside.Go(func() {
				if it, ok := r.turn(t, at); ok {
					r.serve(it)
				}
			})
		}
		next, ok := r.turn(turns[0], at)
		if !ok {
			break
		}
		end, turns = r.send(next)
	}
	beside.Wait()
	return end
}

// turn encodes a turn and waits until its user has thought; false means that sending has ended.
func (r *run) turn(t workload.Turn, end time.Duration) (item, bool) {
	if err := r.cfg.Doer.Prepare(&t.Request); err != nil {
		r.fail(fmt.Errorf("make requests: %w", err))
		return item{}, false
	}
	due := end + t.After
	wait := time.NewTimer(due - r.cfg.Clock.Now())
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.stop:
		return item{}, false
	case <-r.ctx.Done():
		return item{}, false
	}
	if stopped(r.stop) {
		return item{}, false
	}
	now := r.cfg.Clock.Now()
	return item{req: t.Request, seq: r.noteDue(&t.Request, now), due: due, dispatched: now}, true
}

// follow asks the source of a measured request what its answer leads to. Warm-up requests come from another
// source, and lead to nothing.
func (r *run) follow(rec *call.Record) []workload.Turn {
	f, ok := r.cfg.Source.(workload.Follower)
	if !ok || rec.Retried || rec.Phase != call.Measure {
		return nil
	}
	return f.Follow(rec)
}

// fail keeps the first error that is not a request's fate.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sinkErr == nil {
		r.sinkErr = err
	}
}
