package serve

import "time"

// Engine decides which tokens come when. It is a state machine with neither goroutine nor clock:
// the pacer calls it from one thread, with times that never go back, and it answers by emitting
// outputs into the streams it was given. All times are Mono nanoseconds.
//
// This is the seam at which an engine model takes the timetable's place.
type Engine interface {
	// Submit hands over a request. Outputs go to out, now or in any later call.
	Submit(now int64, req *Request, out Stream)
	// Abort forgets a request whose client has gone. Nothing may be emitted for it afterwards.
	// Unknown requests are ignored.
	Abort(now int64, req *Request)
	// Next says when Advance has to be called, or Never.
	Next() int64
	// Advance does everything due at or before now.
	Advance(now int64)
	// ResetPrefixCache forgets cached prompts; false when it cannot be done now.
	ResetPrefixCache() bool
	// State reports the engine's gauges and counters.
	State() EngineState
}

// Stream takes what an engine does with one request. Neither method blocks.
type Stream interface {
	// Start says that the request left the queue, and how many tokens of its prompt were in the
	// prefix cache. It comes before the first output.
	Start(at int64, cached int)
	// Emit gives one output.
	Emit(o Output)
}

// Output is what one engine step produced for one request.
type Output struct {
	Due    int64    // when it should have been written
	Tokens int32    // tokens it carries
	Kind   Kind     // what they are
	Choice int32    // which of several answers they belong to, from 0
	Finish Finish   // set on the last output of an answer
	More   bool     // with Finish: other answers of the request go on
	Err    *Failure // why the request failed; with FinishError only, and then without tokens
}

// ends reports whether the request is over with this output.
func (o *Output) ends() bool { return o.Finish != Running && !o.More }

// Chooser is an engine that can give several answers to one prompt.
type Chooser interface {
	// Choices is the most answers of one request.
	Choices() int
}

// Failure is an error in the shape vLLM gives it.
type Failure struct {
	Status  int    // HTTP status; 500 when 0
	Type    string // InternalServerError when empty
	Message string
}

// Mortal is an engine that can die, or be made to. Its methods are called on the pacer's thread.
type Mortal interface {
	// Dead returns why the engine is dead, or nil. A dead engine gets no more requests.
	Dead() *Failure
	// Harm does something to the engine.
	Harm(now int64, h Harm) error
}

// Preparer is an engine that looks at a request before its turn, on whatever goroutine has read it,
// so that the pacer's thread need not. What it finds goes into Request.Prepared.
type Preparer interface {
	Prepare(req *Request)
}

// Harm is what can be done to a running engine.
type Harm struct {
	Kind string        `json:"action"`  // die, oom, stall, lose, revive
	For  time.Duration `json:"-"`       // stall: how long
	Rate float64       `json:"rate"`    // lose: share of KV transfers that fail from now on
	Text string        `json:"message"` // what it says when it dies
}

// Kind says what the tokens of an output are.
type Kind uint8

// Kinds of tokens.
const (
	Text Kind = iota
	Reasoning
	Tool
)

// Finish says why a request ended.
type Finish uint8

// Reasons to end.
const (
	Running Finish = iota
	FinishLength
	FinishStop
	FinishTool
	FinishError
)

// String returns the reason as the API spells it.
func (f Finish) String() string {
	switch f {
	case FinishLength:
		return "length"
	case FinishStop:
		return "stop"
	case FinishTool:
		return "tool_calls"
	case FinishError:
		return "error"
	default:
		return ""
	}
}

// Request is what an engine gets to know of a call.
type Request struct {
	Index        int    // order of arrival at the server, from 0
	ID           string // x-request-id, or one made up
	Arrived      int64  // when its last byte had been read
	Prompt       []int32
	PromptTokens int // == len(Prompt) unless the prompt's ids are not needed
	MaxTokens    int
	MinTokens    int
	IgnoreEOS    bool
	Chat         bool    // reasoning and tool calls exist only here
	Timing       *Timing // the script's wishes for this request; nil for none
	Adapter      int     // the LoRA adapter asked for, from 1; 0 for none
	N            int     // answers asked for; 0 is one
	Prepared     any     // what a Preparer left here

	word, stride int // the answer's words
}

// Answer appends the first n token ids of the answer, which are known before it is written.
func (r *Request) Answer(dst []int32, n int) []int32 {
	w := r.word
	for range n {
		dst = append(dst, outIDs[w])
		w = (w + r.stride) % len(outWords)
	}
	return dst
}

// EngineState is a snapshot of an engine's gauges and counters.
type EngineState struct {
	Running, Waiting           int
	CacheQueries, CacheHits    int64 // prompt tokens looked up, and found
	CacheBlocks, CacheCapacity int

	// What engines with a model of the hardware know besides.
	Deferred    int     // of Waiting, those that wait for KV from elsewhere
	Swapped     int     // requests whose KV lies in the host's memory
	HostUsage   float64 // share of that memory in use
	Preemptions int64
	Computed    int64 // prompt tokens computed, recomputed ones included
	Steps       int64
	Transfers   int64 // of KV between engines: that arrived ...
	LostKV      int64 // ... and that did not
	Drafts      int64 // speculative decoding: rounds, drafted and accepted tokens
	Drafted     int64
	Accepted    int64
	BlockSize   int
	PrefixCache bool
	StepTokens  *Buckets // tokens per step
	Adapters    []string // LoRA adapters in use
}

// Buckets is a histogram: Counts[i] values were at most Bounds[i], the last ones above all.
type Buckets struct {
	Bounds []float64
	Counts []int64
	Sum    float64
}

// Add counts a value.
func (b *Buckets) Add(v float64) {
	i := 0
	for i < len(b.Bounds) && v > b.Bounds[i] {
		i++
	}
	b.Counts[i]++
	b.Sum += v
}
