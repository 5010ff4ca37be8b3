// Package call is the vocabulary every stage shares: what spate asks a server for (Request) and
// what it saw come back (Record). workload makes Requests, client turns them into Records,
// recorder keeps them and metrics computes from them. It depends on the standard library only.
//
// All times are offsets from the run's start on one monotonic clock. A stamp that was never taken is
// Unset, so that "at the very start" and "never" differ.
package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Causes of a canceled request, for context.Cause.
var (
	ErrCutoff      = errors.New("still running when the grace period ended")
	ErrInterrupted = errors.New("interrupted")
	ErrTimeout     = errors.New("request timed out")
	ErrIdle        = errors.New("the stream stood still")
	ErrAborted     = errors.New("given up because too many requests had failed")
)

// Unset marks a stamp that was never taken.
const Unset time.Duration = -1

// Phase says which part of the run a request belongs to. Only Measure counts in the metrics.
type Phase string

// The phases of a run.
const (
	Warmup  Phase = "warmup"
	Measure Phase = "measure"
	Probe   Phase = "probe" // --probe-request-rate: one-token requests beside the load
)

// Outcome is the fate of a request. Every due request ends in exactly one of them.
type Outcome string

// The four fates; Tally.Check holds their sum.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"   // sent (or tried), and the server or the network did not deliver
	Dropped  Outcome = "dropped"  // was due, but never left the client
	Canceled Outcome = "canceled" // sent, then given up by us: interrupt or end of the grace period
)

// Fault says why a request did not end OK.
type Fault string

// Faults, from the socket upwards.
const (
	NoFault      Fault = ""
	FaultConnect Fault = "connect"      // no connection: refused, unreachable, no such host
	FaultTLS     Fault = "tls"          // handshake or certificate
	FaultReset   Fault = "reset"        // connection lost before or while answering
	FaultTimeout Fault = "timeout"      // per-request timeout ran out
	FaultIdle    Fault = "idle_timeout" // nothing came for too long after the first token
	FaultStatus  Fault = "http_status"  // answer other than 200
	FaultShed    Fault = "rate_limited" // 429, 503 with Retry-After, or 529
	FaultHTTP    Fault = "bad_http"     // bytes that are not HTTP
	FaultEvent   Fault = "error_event"  // an error object inside a 200 stream
	FaultJSON    Fault = "bad_json"     // an event that is not the JSON the protocol promises
	FaultUTF8    Fault = "bad_utf8"     // text that is not UTF-8
	FaultCut     Fault = "truncated"    // the stream ended before its end marker
	FaultEmpty   Fault = "empty"        // a complete stream without one token
	FaultLarge   Fault = "too_large"    // more bytes than one answer may have
	FaultCutoff  Fault = "cutoff"       // still running when the grace period ended
	FaultStopped Fault = "interrupted"  // the run was stopped: given up, or never sent
	FaultLocal   Fault = "client"       // spate itself could not send it
	FaultLost    Fault = "worker_lost"  // was due from a worker that is gone: whether it was sent is not known
)

// Named is what people call a failure: the status of an answer that has one, else the fault.
func (f Fault) Named(status int) string {
	if f == FaultStatus && status != 0 {
		return fmt.Sprintf("HTTP %d", status)
	}
	return string(f)
}

// From says where a count comes from.
type From string

// Provenance of token counts.
const (
	FromNone      From = ""
	FromServer    From = "server"    // usage in the response
	FromTokenizer From = "tokenizer" // counted here, on the text
	FromRequested From = "requested" // what was asked for
	FromChunks    From = "chunks"    // one per chunk, nothing better known
)

// Count is a number of tokens and where it was taken from.
type Count struct {
	N    int  `json:"n"`
	From From `json:"from,omitempty"`
}

// Prompt is what to send: exactly one of the fields is set.
type Prompt struct {
	Text     string          `json:"text,omitempty"`
	IDs      []int32         `json:"ids,omitempty"`
	Messages json.RawMessage `json:"messages,omitempty"` // a chat messages array, verbatim

	// Texts are several inputs of one request: a batch to embed, or a query and the documents to rank.
	Texts []string `json:"texts,omitempty"`
	// Audio is speech to write down; Text may go with it.
	Audio *Audio `json:"-"`
}

// Audio is a sound file.
type Audio struct {
	Name    string // of the file, for its ending
	Data    []byte
	Seconds float64
}

// Inputs is how many inputs a request carries: the documents of a ranking, the texts of a batch.
func (p *Prompt) Inputs(ranked bool) int {
	switch {
	case len(p.Texts) == 0:
		return 1
	case ranked:
		return len(p.Texts) - 1
	}
	return len(p.Texts)
}

// RepeatLabel marks a request whose prompt was sent before in the same run: a prefix cache may
// answer it sooner.
const RepeatLabel = "repeat"

// Request is one call to make.
type Request struct {
	ID      int    // position in the run's order, from 0
	Number  int    // its place among what its source hands out, from 0; turns that follow answers have none
	Name    string // sent as x-request-id
	Attempt int    // 0 for the first try
	Phase   Phase
	Session string // requests of one session share a connection target when sticky
	Turn    int
	Model   string // overrides the client's model (LoRA mixes); empty means the client's
	Prompt  Prompt
	In      Count // prompt length as the workload knows it
	MaxOut  int   // output tokens asked for
	Extra   json.RawMessage
	Labels  map[string]string

	// Body is the encoded request, built by client.Prepare ahead of the due time so that nothing
	// but a write happens when the request is due.
	Body []byte
}

// Kind says what a chunk carried; a chunk may carry several.
type Kind uint8

// Kinds of content in a chunk. Zero is an empty delta, such as chat's role message.
const (
	Visible Kind = 1 << iota
	Reasoning
	Tool
)

// Chunk is one streamed message that carried choices.
type Chunk struct {
	At     time.Duration // when the read that completed it returned
	Tokens int32         // tokens it carried when the stream says so (continuous usage, token ids); 0 when unknown
	Kind   Kind
}

// ServerTimes are the server's own figures for one request, where it sends them.
type ServerTimes struct {
	Queue      time.Duration `json:"queue_ns"`
	FirstToken time.Duration `json:"first_token_ns"` // scheduled to first token
	Generation time.Duration `json:"generation_ns"`  // first to last token
	MeanITL    time.Duration `json:"mean_itl_ns"`
}

// Record is what was seen of one attempt at a request.
//
// The order of stamps on a good run is
// Due <= Dispatched <= Started <= Sent <= Headers <= Chunks... <= LastEvent <= End.
type Record struct {
	ID      int
	Name    string
	Attempt int
	Retried bool // another attempt follows; this record is not the request's fate
	Phase   Phase
	Session string
	Turn    int
	Model   string
	Target  int    // index of the base URL it went to
	Worker  string // who sent it, where several share a load
	Labels  map[string]string

	Due        time.Duration // when the schedule wanted it sent; in a closed loop, when its slot became free
	Dispatched time.Duration // when the dispatcher let it go; Dispatched-Due is the tool's lateness
	Started    time.Duration // when it had a concurrency slot; Started-Dispatched is client queueing
	Sent       time.Duration // just before its first byte was written; vLLM's clock starts here
	FirstByte  time.Duration // first byte of the response
	Headers    time.Duration // response headers complete
	FirstToken time.Duration // first non-empty content of any kind
	FirstText  time.Duration // first visible (not reasoning, not tool) content
	LastToken  time.Duration // last non-empty content
	LastEvent  time.Duration // last event before the end marker, usage included
	End        time.Duration // end of the response, or of the attempt

	Dial      time.Duration // time the connection took to open, whenever that was
	Handshake time.Duration // time TLS took on it
	InBand    bool          // the connection was opened inside this request's latency
	Reused    bool          // the connection had carried a request before

	Chunks []Chunk

	Asked     Count         // prompt tokens the workload meant to send
	AskedOut  int           // output tokens asked for
	Inputs    int           // texts to embed or documents to rank that it carried; 0 where answers are generated
	Audio     time.Duration // length of the speech it carried
	In        Count
	Out       Count
	Cached    Count // prompt tokens the server took from its prefix cache
	Reason    Count // reasoning tokens within Out
	ToolOut   Count // tool-call tokens within Out
	Claimed   int   // output tokens the server claimed and the answer contradicts; 0 where it does not, see Doubt
	BytesIn   int64 // response bytes read
	Finish    string
	Text      string // visible text, kept while it is needed
	Thoughts  string // reasoning text, likewise
	ToolText  string // tool-call arguments, likewise
	Server    *ServerTimes
	Status    int // HTTP status, 0 when none came
	Outcome   Outcome
	Fault     Fault
	Err       string        // one line for people, secrets removed, bounded
	RetryWait time.Duration // Retry-After of a shed request
}

// NewRecord is the record of an attempt that has not begun: every stamp is Unset.
func NewRecord(r *Request) Record {
	rec := Record{
		ID: r.ID, Name: r.Name, Attempt: r.Attempt, Phase: r.Phase, Session: r.Session, Turn: r.Turn,
		Model: r.Model, Labels: r.Labels, Asked: r.In, AskedOut: r.MaxOut,
		Due: Unset, Dispatched: Unset, Started: Unset, Sent: Unset, FirstByte: Unset, Headers: Unset,
		FirstToken: Unset, FirstText: Unset, LastToken: Unset, LastEvent: Unset, End: Unset,
	}
	if a := r.Prompt.Audio; a != nil {
		rec.Audio = time.Duration(a.Seconds * float64(time.Second))
	}
	return rec
}

// Tally counts the fates of requests.
type Tally struct {
	Due      int `json:"due"`
	OK       int `json:"ok"`
	Failed   int `json:"failed"`
	Dropped  int `json:"dropped"`
	Canceled int `json:"canceled"`
	Attempts int `json:"attempts"` // records, retried ones included
}

// Add counts one record.
func (t *Tally) Add(r *Record) {
	t.Attempts++
	if r.Retried {
		return
	}
	switch r.Outcome {
	case OK:
		t.OK++
	case Failed:
		t.Failed++
	case Dropped:
		t.Dropped++
	case Canceled:
		t.Canceled++
	}
}

// Balanced reports whether every due request has exactly one fate.
func (t Tally) Balanced() bool {
	return t.Due == t.OK+t.Failed+t.Dropped+t.Canceled
}
