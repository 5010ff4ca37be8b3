package driver

import (
	"fmt"
	"sync"

	"spate/internal/call"
)

// Abort says when failed requests end a run. The zero value ends one that cannot come to anything: the
// first requests all fail in the same way and none succeeds, or nothing takes connections any more.
type Abort struct {
	Off   bool
	Run   int     // failed requests in a row, of any kind; 0: no such bound
	Share float64 // failed of those that ended, above which the run ends; 0: no such bound
}

// The bounds of a run whose user set none, and of a share.
const (
	// FirstAlike is how many of the first requests must fail in the same way. They are counted in the order
	// of sending: refusals come sooner than answers, so that the first to end may be all that ever fail.
	FirstAlike = 10
	// Unreachable is how many requests in a row must find nobody to connect to.
	Unreachable = 20
	// ShareFrom is how many requests must have ended before a share of them means something.
	ShareFrom = 20
)

// failures counts how requests end, and says when that ends the run.
type failures struct {
	rule Abort

	mu          sync.Mutex
	done        int
	failed      int
	row         int // failures since the last success
	unreachable int // of those at the end of the row, how many found nobody
	first       int // of the first requests, how many failed like alike
	alike       string
	mixed       bool // they do not fail alike
}

// add counts the fate of the request that was sent as the seq-th, from 0. It returns why the run should
// end, empty while it should not.
func (f *failures) add(seq int, rec *call.Record) (why string) {
	if f.rule.Off || rec.Retried || rec.Outcome != call.OK && rec.Outcome != call.Failed {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done++
	if rec.Outcome == call.OK {
		f.row, f.unreachable, f.mixed = 0, 0, true
		return ""
	}
	f.failed++
	f.row++
	f.unreachable++
	if rec.Fault != call.FaultConnect {
		f.unreachable = 0
	}
	f.lookAtFirst(seq, rec)
	if why := f.over(); why != "" {
		return why + ": " + rec.Err
	}
	return ""
}

// lookAtFirst counts the first requests. One that was turned away for load says nothing of the next.
func (f *failures) lookAtFirst(seq int, rec *call.Record) {
	if seq >= FirstAlike || f.mixed {
		return
	}
	kind := rec.Fault.Named(rec.Status)
	if f.first == 0 {
		f.alike = kind
	}
	f.mixed = kind != f.alike || rec.Fault == call.FaultShed
	f.first++
}

// over is the bound that is broken, in words.
func (f *failures) over() string {
	switch {
	case f.rule.Run > 0 && f.row >= f.rule.Run:
		return fmt.Sprintf("%d requests in a row failed, the last with", f.row)
	case f.rule.Share > 0 && f.done >= ShareFrom && float64(f.failed) > f.rule.Share*float64(f.done):
		return fmt.Sprintf("%d of %d requests failed, more than %g %%, the last with", f.failed, f.done, f.rule.Share*100)
	case !f.mixed && f.first == FirstAlike:
		return fmt.Sprintf("the first %d requests all failed", f.first)
	case f.unreachable >= Unreachable:
		return fmt.Sprintf("%d requests in a row could not connect", f.unreachable)
	}
	return ""
}
