package serve

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// twice is an engine that gives every stream a token now and another a moment later.
type twice struct {
	*Timetable // for what nobody asks it

	out    []Stream
	due    []int64
	second chan struct{} // closed when the second tokens are handed over
}

func (e *twice) Submit(_ int64, _ *Request, out Stream) { e.out = append(e.out, out) }
func (e *twice) Burst() int                             { return len(e.out) }

func (e *twice) Next() int64 {
	if len(e.due) == 0 {
		return Never
	}
	return e.due[0]
}

func (e *twice) Advance(int64) {
	for _, s := range e.out {
		s.Emit(Output{Due: e.due[0], Tokens: 1})
	}
	if e.due = e.due[1:]; len(e.due) == 0 {
		close(e.second)
	}
}

// slowWire keeps its writer waiting until the engine has gone on.
type slowWire struct {
	nowhere
	until <-chan struct{}
	wrote func()
}

func (w *slowWire) sendNow(b []byte) (int, error) {
	select {
	case <-w.until:
	case <-time.After(30 * time.Second):
	}
	w.wrote()
	return len(b), nil
}

// TestDeadlineInBurst: the engine meets its next deadline while others are
// still writing the step before, and nobody's outputs change their order.
func TestDeadlineInBurst(t *testing.T) {
	if procs := runtime.GOMAXPROCS(0); procs < 2 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(procs)
	}
	const streams = 2 * sharedBurst
	s, err := newServer(Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := &twice{Timetable: NewTimetable(TimetableConfig{}), second: make(chan struct{})}
	p := newPacer(e)
	s.pacer = p
	var mu sync.Mutex
	var late []int
	for range streams {
		st := s.open(&genCall{stream: true, model: "m", promptTokens: 1, maxTokens: 10}, "", 0)
		st.wire, st.direct, st.chunked = &nowhere{}, true, true
		if st.req.Index%min(runtime.GOMAXPROCS(0), maxScribes) == 1 { // a helper's
			st.wire = &slowWire{until: e.second, wrote: func() {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, st.n)
			}}
		}
		e.Submit(0, st.req, st)
	}
	now := Mono()
	e.due = []int64{now, now + int64(time.Millisecond)}
	go p.run()
	select {
	case <-e.second:
	case <-time.After(20 * time.Second):
		t.Fatal("the second deadline waits for the first burst")
	}
	await(t, "all tokens are written", func() bool {
		count := 0
		p.ask(func(Engine) {
			for _, out := range e.out {
				count += out.(*stream).n
			}
		})
		return count == 2*streams
	})
	p.send(order{stop: true})
	<-p.done
	first := len(late) / 2
	if len(late) == 0 || slices.Max(late[:first]) != 1 || slices.Min(late[first:]) != 2 {
		t.Errorf("the helper wrote tokens %v, want every first before any second", late)
	}
}
