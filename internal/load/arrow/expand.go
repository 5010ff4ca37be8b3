package arrow

import (
	"encoding/binary"
	"fmt"
)

// What a file may come to. Its bytes may be pointed at more than once: by views that overlap, and by many columns that
// share a buffer, packed or not. Writers do so a little, to say the same once; without a bound a few bytes would ask for
// all memory.
const (
	fileFine   = 1 << 30 // bytes that any file may come to
	textRatio  = 64      // bytes of text for each byte of the file; an unpacked byte counts for a sixteenth of one
	valueBytes = 16      // what a value takes besides
	valueRatio = 16      // values for each byte; switches are eight
)

// expansion counts what has come of a file so far.
type expansion struct {
	fine     int64 // bytes that any file may come to
	read     int64 // of the file
	unpacked int64 // that compressed buffers came to
	texts    int64 // bytes of texts handed out
	values   int64 // handed out
}

// unpacks counts a compressed buffer, which begins with its length, before it is unpacked.
func (e *expansion) unpacks(data []byte) error {
	if len(data) < 8 {
		return nil // no buffer, as unpacking it says
	}
	size := int64(binary.LittleEndian.Uint64(data))
	if size <= 0 || size > maxBuffer {
		return nil
	}
	if most := e.fine + maxRatio*e.read; size > most-e.unpacked {
		return fmt.Errorf("damaged Arrow data: %d bytes of the file unpack to more than %d", e.read, most)
	}
	e.unpacked += size
	return nil
}

// text is a copy of a text's bytes; none when there were too many already.
func (e *expansion) text(b []byte) any {
	e.texts += int64(len(b))
	if e.over() != nil {
		return nil
	}
	return string(b)
}

// over says when more has come of the file than may.
func (e *expansion) over() error {
	if most := e.fine + textRatio*(e.read+e.unpacked/16); e.texts > most {
		return fmt.Errorf("damaged Arrow data: %d bytes of the file hold texts of more than %d bytes", e.read, most)
	}
	if most := e.fine/valueBytes + valueRatio*(e.read+e.unpacked); e.values > most {
		return fmt.Errorf("damaged Arrow data: %d bytes of the file hold more than %d values", e.read, most)
	}
	return nil
}
