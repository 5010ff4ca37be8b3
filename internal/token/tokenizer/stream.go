package tokenizer

import "strings"

// Stream decodes ids one at a time, as a server sends them: text is held back
// while it may still change, such as the first bytes of a character.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	ids         []int32 // from the last text given out on
	shown       string  // what the first of ids decode to by themselves
	context     int     // how many of ids made shown
}

// NewStream starts a stream.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Next takes one id and returns the text that is certain now, often none. The
// ids since the last text are decoded together with a few before them, because
// decoders look at what comes before, for instance to drop a leading space.
func (s *Stream) Next(id int32) string {
	s.ids = append(s.ids, id)
	text := s.t.Decode(s.ids, s.skipSpecial)
	if len(text) <= len(s.shown) || strings.HasSuffix(text, "\uFFFD") {
		return ""
	}
	out := text[len(s.shown):]
	s.ids = append(s.ids[:0], s.ids[s.context:]...)
	s.context = len(s.ids)
	s.shown = s.t.Decode(s.ids, s.skipSpecial)
	return out
}

// Rest is the text held back at the end of the stream.
func (s *Stream) Rest() string {
	text := s.t.Decode(s.ids, s.skipSpecial)
	return text[min(len(s.shown), len(text)):]
}
