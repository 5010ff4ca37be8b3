package proxy

import (
	"sort"
	"time"
)

// maxBody is how much of a body is kept for a look at it; the rest is handed on all the same.
const maxBody = 64 << 20

// The fates of a request.
const (
	fateOK          = "ok"          // answered to the end, whatever the status
	fateClientGone  = "client_gone" // the client left before the end of the answer
	fateServerGone  = "server_gone" // the server closed before the end of the answer
	fateUnreachable = "unreachable" // there was no connection to the server
	fateStopped     = "stopped"     // the recording was ended in the middle
	fateOpaque      = "opaque"      // no HTTP/1.1 that could be followed; handed on as it came
)

// exchange is one request and its answer as they pass. Its connection owns it until it has ended.
type exchange struct {
	begun        time.Duration // when the first byte of the request came
	method, path string
	session      string // what the headers say of it
	asked        []byte
	askedAll     bool // the request has come to its end

	status   int
	form     string // content type
	encoding string // of the answer's body
	answer   []byte
	marks    []mark
	answered bool // the answer has come to its end
	end      time.Duration
	fate     string
}

// mark says when the bytes of an answer from a place on were read.
type mark struct {
	from int
	at   time.Duration
}

// take keeps bytes of the answer that were read at a time.
func (x *exchange) take(b []byte, at time.Duration) {
	if len(b) == 0 {
		return
	}
	if n := len(x.marks); n == 0 || x.marks[n-1].at != at {
		x.marks = append(x.marks, mark{len(x.answer), at})
	}
	x.answer = append(x.answer, b[:min(len(b), maxBody-len(x.answer))]...)
}

func (x *exchange) takeAsked(b []byte) {
	x.asked = append(x.asked, b[:min(len(b), maxBody-len(x.asked))]...)
}

// when is the time at which the byte at a place of the answer was read.
func (x *exchange) when(place int) time.Duration {
	i := sort.Search(len(x.marks), func(i int) bool { return x.marks[i].from > place })
	if i == 0 {
		return x.end
	}
	return x.marks[i-1].at
}
