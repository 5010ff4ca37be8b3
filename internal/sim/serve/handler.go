package serve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Handler returns the same API as an http.Handler on the same engine, for servers of another kind:
// HTTP/2, a test server, a mux. Its streams go through net/http, so they cost more and are stamped
// before net/http's own buffering.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.handle) }

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r.Body, r.ContentLength)
	if err != nil {
		http.Error(w, "reading the body", http.StatusBadRequest)
		return
	}
	arrived := Mono()
	hw := &httpWire{w: w, rc: http.NewResponseController(w), ctx: r.Context(), srv: s}
	call, a := s.route(r, body)
	if call == nil {
		_ = hw.answer(*a) // the client may have left
		return
	}
	st := s.open(call, requestID(r.Header), arrived)
	st.wire, st.keep = hw, true
	if !st.refused() {
		if call.stream {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			_ = hw.rc.Flush() // a dead client shows at the first write
		}
		defer context.AfterFunc(r.Context(), st.hangUp)()
		s.pacer.send(order{submit: st})
		st.pump()
	}
	if hw.killed.Load() && st.truth.Status != "ok" {
		panic(http.ErrAbortHandler)
	}
}

// httpWire writes a stream through net/http.
type httpWire struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context
	srv    *Server
	killed atomic.Bool
}

// Write implements wire.
func (h *httpWire) Write(b []byte) (int, error) {
	if h.killed.Load() {
		return 0, http.ErrAbortHandler
	}
	n, err := h.w.Write(b)
	if err == nil {
		err = h.rc.Flush()
	}
	return n, err
}

// sendNow implements wire; streams through net/http are never direct.
func (h *httpWire) sendNow([]byte) (int, error) {
	return 0, errors.New("a stream through net/http cannot be written without blocking")
}

// answer implements wire.
func (h *httpWire) answer(a answer) error {
	if len(a.body) > 0 {
		h.w.Header().Set("Content-Type", a.contentType())
	}
	if a.retryAfter > 0 {
		h.w.Header().Set("Retry-After", strconv.Itoa(a.retryAfter))
	}
	h.w.WriteHeader(a.status)
	_, err := h.Write(a.body)
	return err
}

// pause implements wire.
func (h *httpWire) pause(d time.Duration) bool {
	if d < 0 {
		d = 1<<63 - 1
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.ctx.Done():
	case <-h.srv.dying:
	}
	return false
}

// kill implements wire: the handler panics when its pump has returned.
func (h *httpWire) kill(bool) { h.killed.Store(true) }
