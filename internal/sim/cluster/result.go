package cluster

import (
	"time"

	"spate/internal/sim"
)

// unset marks a time that never came.
const unset time.Duration = -1

// Run is a row of steps of one engine, each of which gave a request one chunk.
type Run struct {
	First int32 // step, counted from the start of the run
	Steps int32
}

// Request is what became of one call. Times are offsets from the start of the run.
type Request struct {
	Client    int // whose load it is of: 0, or one more than the place in Load.Beside
	Index     int // position in that load
	Due       time.Duration
	Sent      time.Duration
	Queued    time.Duration // reached an engine
	Scheduled time.Duration // left its queue for the first time
	First     time.Duration // first token at the client
	Last      time.Duration // last token at the client
	In, Out   int
	Got       int // tokens received
	Cached    int // prompt tokens from the prefix cache
	Preempted int
	Engine    int
	Failed    bool // gave up, or could not be served
	Err       string

	runs  []Run
	log   *stepLog
	delay time.Duration
	multi bool // some chunk carried several tokens
}

// stepLog is the end times of an engine's steps.
type stepLog struct {
	base int32 // steps dropped from the front
	ends []time.Duration
}

func (l *stepLog) at(step int32) time.Duration { return l.ends[step-l.base] }

// Times appends the arrival time of every chunk at the client. Within Load.Sink it may only be called
// before the sink returns.
func (r *Request) Times(dst []time.Duration) []time.Duration {
	for _, run := range r.runs {
		for i := range run.Steps {
			dst = append(dst, r.log.at(run.First+i)+r.delay)
		}
	}
	return dst
}

// Gap is a time between two chunks of one request, and how often it occurred.
type Gap struct {
	D time.Duration
	N int
}

// Sample is one line of an engine's log.
type Sample struct {
	At           time.Duration
	Engine       int
	Running      int
	Waiting      int
	KVUsage      float64
	HitRate      float64 // of the last thousand prefix-cache queries
	PromptTokenS float64
	TokenS       float64
}

// Result is what a run showed.
type Result struct {
	Requests []Request // in the order in which they ended; empty when a sink took them
	Duration time.Duration
	Gaps     []Gap // every inter-token latency of the run; empty with a sink
	Samples  []Sample
	Engines  []sim.Stats // counters of each engine, over all its runs
	Digest   uint64      // of all batches of all engines, over all runs
	OK       int
	Failed   int
	Tokens   int
	Prompt   int

	clients int // that sent
}
