package cluster

import (
	"time"

	"spate/internal/rng"
)

// Link is a network that KV moves over. Transfers under way share its bandwidth equally.
type Link struct {
	SetupNS      float64 `json:"setup_ns"`                // every transfer, before its first byte
	TokenNS      float64 `json:"token_ns"`                // per token at full bandwidth
	DescriptorNS float64 `json:"descriptor_ns,omitempty"` // per descriptor, at full bandwidth
	Descriptor   int     `json:"tokens_per_descriptor,omitempty"`
	FailureRate  float64 `json:"failure_rate,omitempty"`
	Retries      int     `json:"retries,omitempty"`
	RetryNS      float64 `json:"retry_ns,omitempty"`
}

// work is the time a transfer takes alone, after its set-up.
func (l *Link) work(tokens int) float64 {
	w := l.TokenNS * float64(tokens)
	if l.Descriptor > 0 {
		w += l.DescriptorNS * float64((tokens+l.Descriptor-1)/l.Descriptor)
	}
	return w
}

// transfer is one request's KV under way.
type transfer struct {
	id   int32
	left float64 // ns at full bandwidth
	from time.Duration
}

// link shares its bandwidth among transfers.
type link struct {
	cfg    Link
	active []transfer
	since  time.Duration // progress is known up to here
	next   time.Duration // time of the event in the queue, if any
	draw   interface{ Float64() float64 }

	moved, lost int64 // transfers that arrived, and that did not
}

func newLink(cfg Link, seed uint64) link {
	return link{cfg: cfg, draw: rng.New(seed, "sim.link")}
}

func (l *link) begin() {
	l.active, l.since, l.next = l.active[:0], 0, unset
}

// progress moves the transfers that are past their set-up on to now.
func (l *link) progress(now time.Duration) {
	for l.since < now && len(l.active) > 0 {
		sharing, until := 0, now
		for i := range l.active {
			if t := &l.active[i]; t.from <= l.since {
				sharing++
			} else {
				until = min(until, t.from)
			}
		}
		for i := range l.active {
			if t := &l.active[i]; t.from <= l.since {
				t.left -= float64(until-l.since) / float64(sharing)
			}
		}
		l.since = until
	}
	l.since = now
}

// due is the time at which the next thing happens on the link.
func (l *link) due() time.Duration {
	sharing := 0
	for i := range l.active {
		if l.active[i].from <= l.since {
			sharing++
		}
	}
	next := time.Duration(1<<62 - 1)
	for i := range l.active {
		t := &l.active[i]
		if t.from > l.since {
			next = min(next, t.from)
			continue
		}
		next = min(next, l.since+max(0, time.Duration(t.left*float64(sharing)+0.999)))
	}
	return next
}
