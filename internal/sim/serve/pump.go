package serve

import (
	"bytes"
	"strconv"
	"time"
)

// pumping is the state of one pump: the blocking side of a stream, where faults live.
type pumping struct {
	s       *stream
	frame   frame
	held    int // outputs in frame, not yet written
	spare   []item
	replies []reply // for answers that are not streamed, by choice
}

// floodBytes is how much a flooding stream writes at once.
const floodBytes = 32 << 10

// item writes one queued output; false when the stream is over.
func (w *pumping) item(it item) bool {
	s := w.s
	if s.ended.Load() {
		return false
	}
	if !s.call.stream {
		return w.collect(it.out)
	}
	if s.fate.plain() {
		return w.plain(it)
	}
	return w.faulty(it.out)
}

func (w *pumping) plain(it item) bool {
	s := w.s
	for p := it.from; p < partEnd; p++ {
		if !s.has(p, it.out) {
			continue
		}
		w.frame.reset()
		s.fill(&w.frame, p, it.out, false)
		if !w.write(w.frame.chunk(s.chunked, p == partTail)) {
			return false
		}
	}
	if !it.out.ends() {
		return true
	}
	s.end(it.out.status())
	return false
}

// write blocks until b is written; false when the client has gone.
func (w *pumping) write(b []byte) bool {
	if _, err := w.s.wire.Write(b); err != nil {
		w.s.leave("abort")
		return false
	}
	return true
}

// faulty writes one output of a stream that misbehaves.
func (w *pumping) faulty(o Output) bool {
	s, st := w.s, &w.s.fate.style
	if w.held == 0 {
		w.frame.reset()
	}
	if st.empty {
		return w.finish(o, "empty", false)
	}
	if o.Err != nil {
		s.fill(&w.frame, partToken, o, false)
		return w.finish(o, "error", false)
	}
	strike := s.fate.at(s.n)
	if strike != nil && strike.Kind != FaultUTF8 {
		if over := w.strike(strike, o); over {
			return false
		}
	}
	if st.ping > 0 && s.n%st.ping == 0 {
		w.frame.buf = append(w.frame.buf, ": ping\n\n"...)
	}
	for p := partRole; p <= partToken; p++ {
		if s.has(p, o) {
			s.fill(&w.frame, p, o, strike != nil && strike.Kind == FaultUTF8)
		}
	}
	w.held++
	if o.ends() {
		return w.finish(o, "ok", true)
	}
	if st.flood && len(w.frame.buf) < floodBytes || w.held < st.batch {
		return true
	}
	return w.flush(false)
}

// finish writes what ends a stream, and ends it.
func (w *pumping) finish(o Output, status string, tail bool) bool {
	s := w.s
	if !o.ends() {
		s.srv.pacer.send(order{abort: s})
	}
	switch {
	case tail:
		s.fill(&w.frame, partTail, o, false)
	case !s.fate.style.noDone:
		w.frame.buf = append(w.frame.buf, doneEvent...)
		s.note(Event{At: Mono(), Due: o.Due, Kind: EventDone})
	}
	if w.flush(true) {
		s.end(status)
	}
	return false
}

// strike does what a fault does at its event; over means the stream has ended with it.
func (w *pumping) strike(ft *Fault, o Output) (over bool) {
	s := w.s
	switch ft.Kind {
	case FaultCut:
		if ft.Bytes > 0 {
			s.fill(&w.frame, partToken, o, false)
		}
		b := w.frame.chunk(s.chunked, false)
		if ft.Bytes > 0 {
			b = b[:min(ft.Bytes, len(b))]
		}
		if w.write(b) {
			s.wire.kill(ft.Reset)
			s.leave("cut")
		}
		return true
	case FaultError:
		w.frame.buf = errorEvent(w.frame.buf, ft.Text)
		s.note(Event{At: Mono(), Due: o.Due, Kind: EventError})
		o.Finish = Running
		w.finish(o, "error", false)
		return true
	case FaultGarbage:
		if ft.Where == "http" {
			if w.flush(false) && w.write([]byte(garbageText(*ft)+"\r\n")) {
				s.wire.kill(false)
				s.leave("garbage")
			}
			return true
		}
		w.frame.buf = append(w.frame.buf, "data: "+garbageText(*ft)+"\n\n"...)
		s.note(Event{At: Mono(), Due: o.Due, Kind: EventGarbage})
	}
	return false
}

// flush writes the frame in the stream's style; last ends the body.
func (w *pumping) flush(last bool) bool {
	s, st := w.s, &w.s.fate.style
	w.held = 0
	if w.frame.buf == nil || (w.frame.empty() && !last) {
		return true
	}
	if st.crlf {
		body := bytes.ReplaceAll(w.frame.buf[frameRoom:], []byte("\n"), []byte("\r\n"))
		w.frame.buf = append(w.frame.buf[:frameRoom], body...)
	}
	defer w.frame.reset()
	if st.bytes > 0 {
		return w.pieces(last)
	}
	return w.write(w.frame.chunk(s.chunked, last))
}

// pieces writes the frame a few bytes at a time, each piece an HTTP chunk of its own.
func (w *pumping) pieces(last bool) bool {
	st := &w.s.fate.style
	var f frame
	body := w.frame.buf[frameRoom:]
	for len(body) > 0 || last {
		n := min(st.bytes, len(body))
		f.reset()
		f.buf = append(f.buf, body[:n]...)
		body = body[n:]
		end := last && len(body) == 0
		if !w.write(f.chunk(w.s.chunked, end)) {
			return false
		}
		if end {
			return true
		}
		if st.pause > 0 && !w.sleep(st.pause) {
			return false
		}
	}
	return true
}

// sleep returns false when the stream ended meanwhile.
func (w *pumping) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.s.cancel:
	case <-w.s.srv.dying:
	}
	w.s.leave("abort")
	return false
}

// reply gathers an answer that is sent whole.
type reply struct {
	text, reasoning, tool []byte
	ids                   []byte
	finish                Finish
}

// reply is the answer so far of one choice.
func (w *pumping) reply(choice int32) *reply {
	for len(w.replies) <= int(choice) {
		w.replies = append(w.replies, reply{})
	}
	return &w.replies[choice]
}

func (w *pumping) collect(o Output) bool {
	s := w.s
	if o.Err != nil {
		return w.refuse(o)
	}
	at, r := Mono(), w.reply(o.Choice)
	s.enc.speak(o.Choice)
	if o.Finish != Running {
		r.finish = o.Finish
	}
	if s.call.returnIDs {
		if len(r.ids) > 0 {
			r.ids = append(r.ids, ',')
		}
		ids := s.enc.ids(nil, s.enc.word, o.Tokens)
		r.ids = append(r.ids, ids[1:len(ids)-1]...)
	}
	switch o.Kind {
	case Reasoning:
		r.reasoning = s.enc.words(r.reasoning, o.Tokens, false)
		s.enc.reasoned += int(o.Tokens)
	case Tool:
		r.tool = s.enc.words(r.tool, o.Tokens, false)
	default:
		r.text = s.enc.words(r.text, o.Tokens, false)
	}
	s.enc.tokens += int(o.Tokens)
	s.token(at, o)
	if !o.ends() {
		return true
	}
	s.truth.Finish = o.Finish.String()
	s.note(Event{At: Mono(), Due: o.Due, Tokens: int32(s.enc.total()), Kind: EventToken})
	body := w.body
	if s.call.native {
		body = w.nativeBody
	}
	if err := s.wire.answer(answer{status: 200, body: body(o.Finish)}); err != nil {
		s.leave("abort")
		return false
	}
	s.end("ok")
	return false
}

// refuse answers a call that is not streamed with the engine's error.
func (w *pumping) refuse(o Output) bool {
	s := w.s
	s.note(Event{At: Mono(), Due: o.Due, Kind: EventError})
	s.truth.Finish = o.Finish.String()
	if err := s.wire.answer(failure(o.Err.api())); err != nil {
		s.leave("abort")
		return false
	}
	s.end("error")
	return false
}

// body renders the whole answer.
func (w *pumping) body(Finish) []byte {
	s := w.s
	b := []byte(`{"id":`)
	prefix, object := "cmpl-", "text_completion"
	if s.call.chat {
		prefix, object = "chatcmpl-", "chat.completion"
	}
	b = append(b, quote(prefix+s.req.ID)...)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, s.srv.created(), 10)
	b = append(b, `,"model":`...)
	b = append(b, quote(s.call.model)...)
	b = append(b, `,"choices":[`...)
	for i := range w.replies {
		b = w.choice(comma(b, i), int32(i))
	}
	b = append(b, `],"usage":`...)
	b = s.enc.appendUsage(b)
	if m := s.metrics(); m != nil {
		b = append(b, `,"metrics":`...)
		b = append(b, m...)
	}
	if s.enc.stampKey {
		b = append(b, `,"spate_ns":`...)
		b = strconv.AppendInt(b, Mono(), 10)
	}
	return append(b, '}')
}

// choice renders one answer of a whole response.
func (w *pumping) choice(b []byte, i int32) []byte {
	s, r := w.s, &w.replies[i]
	s.enc.speak(i)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(i), 10)
	if s.call.chat {
		b = w.message(append(b, `,"message":`...), r)
	} else {
		b = append(b, `,"text":`...)
		b = append(b, quote(string(r.text))...)
	}
	b = append(b, `,"logprobs":`...)
	b = s.enc.logprobs(b, s.enc.begin, int32(s.enc.tokens), 0)
	b = append(b, `,"finish_reason":`...)
	b = appendFinish(b, r.finish, s.fate.style.noFinish)
	b = append(b, `,"stop_reason":null`...)
	if s.call.returnIDs {
		b = append(b, `,"token_ids":[`...)
		b = append(b, r.ids...)
		b = append(b, `],"prompt_token_ids":`...)
		b = appendIDs(b, s.req.Prompt)
	}
	return append(b, '}')
}

// message renders a chat answer.
func (w *pumping) message(b []byte, r *reply) []byte {
	b = append(b, `{"role":"assistant","content":`...)
	b = append(b, quote(string(r.text))...)
	if r.reasoning != nil {
		b = append(b, `,"`+w.s.enc.reasoning+`":`...)
		b = append(b, quote(string(r.reasoning))...)
	}
	if r.tool != nil {
		b = append(b, `,"tool_calls":[{"id":"call-0","type":"function","function":{"name":"look_up","arguments":`...)
		b = append(b, quote(string(r.tool))...)
		b = append(b, `}}]`...)
	}
	return append(b, '}')
}

func appendTimings(b []byte, ttft, gen, queue, itl, rate float64) []byte {
	for i, f := range [...]struct {
		key string
		v   float64
	}{
		{"time_to_first_token_ms", ttft},
		{"generation_time_ms", gen},
		{"queue_time_ms", queue},
		{"mean_itl_ms", itl},
		{"tokens_per_second", rate},
	} {
		if i == 0 {
			b = append(b, `{`...)
		} else {
			b = append(b, `,`...)
		}
		b = append(b, '"')
		b = append(b, f.key...)
		b = append(b, `":`...)
		b = strconv.AppendFloat(b, f.v, 'f', 6, 64)
	}
	return append(b, '}')
}
