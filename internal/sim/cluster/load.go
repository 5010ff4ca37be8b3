package cluster

import (
	"iter"
	"slices"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/kv"
)

// Call is one request of a load.
type Call struct {
	At        time.Duration // when it is due; with a cap on requests in flight it may have to wait
	Prompt    []kv.Segment
	Out       int
	Stops     bool // ends by itself rather than at its limit
	MaxOut    int  // limit on its output, 0: Out
	OutStream uint64
	Adapter   int
	Group     uint64        // several calls that are answers to one prompt; 0: alone
	GiveUp    time.Duration // the client leaves after this long; 0: never
	Caller    Caller        // of a live run
}

// Load is what a client sends in one run.
type Load struct {
	Calls iter.Seq[Call] // in order of At
	Slots int            // requests in flight at most; 0: no cap
	Gap   time.Duration  // client's time to send one request of several due at once
	Hold  bool           // requests due at once reach the server only when the last of them is sent
	Sink  func(*Request) // takes requests as they end; nil: they are kept in Result.Requests

	Until  time.Duration // nothing is sent at or after this time; 0: no bound
	Cancel time.Duration // requests still under way then are given up; 0: never

	// Beside are loads of other clients, which start with this one. Each has its own calls, cap and bounds; Sink and
	// Trace are this one's.
	Beside []Load

	// Trace gets every batch that computes when it starts, with its duration; nil: nobody does. Items are
	// valid during the call only.
	Trace func(engine int, b *sim.Batch, took time.Duration)
}

// Calls is a list of calls as a sequence.
func Calls(list []Call) iter.Seq[Call] { return slices.Values(list) }

// client sends a load.
type client struct {
	load    Load
	next    func() (Call, bool)
	stop    func()
	ahead   Call // the next call, if any
	more    bool
	sending bool // a send event is in the queue
	count   int
	live    int
}

func newClient(l Load) client {
	c := client{load: l, stop: func() {}}
	if l.Calls != nil {
		c.next, c.stop = iter.Pull(l.Calls)
		c.ahead, c.more = c.next()
	}
	return c
}

func (c *client) take() Call {
	call := c.ahead
	c.ahead, c.more = c.next()
	return call
}

func (c *client) done() bool { return !c.more }

// free is the number of requests that may be sent now.
func (c *client) free() int {
	if c.load.Slots == 0 {
		return 1 << 30
	}
	return c.load.Slots - c.live
}

// dispatch sends what is due from a client and can be sent.
func (c *Cluster) dispatch(k int32) {
	cl := &c.clients[k]
	cl.sending = false
	if cl.load.Until > 0 && c.now >= cl.load.Until {
		cl.more = false // whatever there is more comes too late
	}
	var group []int32
	at := c.now
	for cl.more && cl.ahead.At <= c.now && cl.free() > 0 {
		due := cl.ahead.At
		burst := len(group) > 0 && due == c.slots[group[0]].due
		if cl.load.Gap > 0 && len(group) > 0 {
			if !burst {
				break
			}
			at += cl.load.Gap
		}
		id := c.place()
		c.open(k, id, cl.take(), at)
		group = append(group, id)
	}
	c.ingest(cl, group, at)
	c.wakeClient(k, at)
}

// wakeClient makes sure that the next call of a client is sent when it is due.
func (c *Cluster) wakeClient(k int32, after time.Duration) {
	cl := &c.clients[k]
	if cl.more && !cl.sending && cl.free() > 0 {
		cl.sending = true
		c.at(max(after, c.now, cl.ahead.At), sends, k)
	}
}

// place is a slot for a call.
func (c *Cluster) place() int32 {
	if n := len(c.vacant); n > 0 {
		id := c.vacant[n-1]
		c.vacant = c.vacant[:n-1]
		return id
	}
	c.slots = append(c.slots, slot{})
	return int32(len(c.slots) - 1)
}

// open puts a client's call into its slot.
func (c *Cluster) open(k, id int32, call Call, sent time.Duration) {
	s, cl := &c.slots[id], &c.clients[k]
	*s = slot{due: max(call.At, 0), call: call, runs: s.runs[:0], node: -1, lastStep: -2}
	s.req = Request{
		Client: int(k), Index: cl.count, Due: call.At, Sent: sent, In: kv.Length(call.Prompt), Out: call.Out,
		Queued: unset, Scheduled: unset, First: unset, Last: unset,
	}
	if cl.load.Slots > 0 {
		s.req.Due = sent
	}
	cl.count++
	cl.live++
	c.live++
	if last := cl.load.Cancel - sent; cl.load.Cancel > 0 && (call.GiveUp == 0 || last < call.GiveUp) {
		call.GiveUp = max(last, 1)
		s.call.GiveUp = call.GiveUp
	}
	if call.GiveUp > 0 {
		s.aborts = true
		c.at(sent+call.GiveUp, aborts, id)
	}
}
