package client

import "bytes"

// maxEvent bounds one event, so that a server sending garbage without line ends cannot eat the memory.
const maxEvent = 16 << 20

// sse is a push parser of the event-stream format: bytes go in as they were read, split anywhere,
// and emit gets the data of each complete event. Complete lines inside one read are not copied.
type sse struct {
	emit func(data []byte)
	// shortcut, if set, is offered what follows at the start of an event, and takes whole events
	// where it can do with less than parsing: it returns the bytes taken.
	shortcut func(b []byte) int

	line  []byte // the unfinished last line of earlier reads
	data  []byte // data lines of the current event, joined by newlines
	lines int    // data lines in it
	// direct is the event's only data line when it lies in the current read; it spares a copy in the
	// common case of one data line per event.
	direct []byte
	skipLF bool // the last byte seen was a CR: an LF next belongs to it
	begun  bool // the byte order mark, if any, has been dealt with
	full   bool // an event went over maxEvent
}

// feed parses the next bytes of the stream.
func (p *sse) feed(b []byte) {
	for len(b) > 0 {
		if p.skipLF {
			p.skipLF = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		if p.lines == 0 && len(p.line) == 0 && p.shortcut != nil {
			if n := p.shortcut(b); n > 0 {
				b = b[n:]
				continue
			}
		}
		end := lineEnd(b)
		if end < 0 {
			p.keep(b)
			break
		}
		line := b[:end]
		p.skipLF = b[end] == '\r'
		b = b[end+1:]
		if len(p.line) > 0 {
			line = append(p.line, line...)
			p.line = line[:0]
			p.take(line, false)
			continue
		}
		p.take(line, true)
	}
	p.detach()
}

// lineEnd finds the first CR or LF. Streams end lines with LF, so the LF is searched first and
// only the bytes before it are searched for a CR.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	head := b
	if lf >= 0 {
		head = b[:lf]
	}
	if cr := bytes.IndexByte(head, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (p *sse) keep(b []byte) {
	if len(p.line)+len(b) > maxEvent {
		p.full = true
		return
	}
	p.line = append(p.line, b...)
}

// take handles one complete line; stable says that the line lies in the caller's buffer and stays
// valid until the end of this feed.
func (p *sse) take(line []byte, stable bool) {
	if !p.begun {
		p.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		p.flush()
		return
	}
	if line[0] == ':' {
		return
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	if string(name) != "data" {
		return // event, id and retry mean nothing to the protocols spoken here
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	p.lines++
	if p.lines == 1 && stable {
		p.direct = value
		return
	}
	p.detach()
	if len(p.data)+1+len(value) > maxEvent {
		p.full = true
		return
	}
	if p.lines > 1 {
		p.data = append(p.data, '\n')
	}
	p.data = append(p.data, value...)
}

// detach copies a data line that still lies in the caller's buffer.
func (p *sse) detach() {
	if p.direct != nil {
		p.data = append(p.data[:0], p.direct...)
		p.direct = nil
	}
}

// flush ends the current event.
func (p *sse) flush() {
	if p.lines == 0 {
		return
	}
	data := p.data
	if p.direct != nil {
		data = p.direct
	}
	p.direct, p.lines = nil, 0
	p.data = p.data[:0]
	p.emit(data)
}

// end is the end of the stream: a last event without its blank line still counts.
func (p *sse) end() {
	if len(p.line) > 0 {
		line := p.line
		p.line = nil
		p.take(line, false)
	}
	p.flush()
}
