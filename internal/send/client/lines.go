package client

import "bytes"

// lines is a push parser of streams with one JSON object on each line: bytes go in as they were read,
// split anywhere, and emit gets each line that is not blank.
type lines struct {
	emit func(line []byte)
	rest []byte // the unfinished last line of earlier reads
	full bool   // a line went over maxEvent
}

// feed parses the next bytes of the stream.
func (p *lines) feed(b []byte) {
	if p.full {
		return
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		line := b[:i]
		if len(p.rest) > 0 {
			line = append(p.rest, line...)
			p.rest = p.rest[:0]
		}
		p.put(line)
		b = b[i+1:]
	}
	if p.full = len(p.rest)+len(b) > maxEvent; !p.full {
		p.rest = append(p.rest, b...)
	}
}

// end takes a last line without its line end.
func (p *lines) end() {
	p.put(p.rest)
	p.rest = nil
}

func (p *lines) put(line []byte) {
	if line = bytes.TrimSpace(line); len(line) > 0 {
		p.emit(line)
	}
}
