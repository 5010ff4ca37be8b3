package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spate/internal/call"
	"spate/internal/call/recorder"
)

// A batch is lines of the record log, as they stand there. A line that is longer than a message travels in pieces, each
// a message of its own with a header that says which; they come in order, since each waits for its acknowledgement.

// BatchBytes is when a batch is full. It leaves room for the last line to be longer.
const BatchBytes = 256 << 10

// PieceHeader says which piece of a long line a message is, as "2/7".
const PieceHeader = "Spate-Piece"

// MaxLine bounds a line that comes in pieces.
const MaxLine = 64 << 20

// MaxChunks bounds the chunks of one record: a server that streams more has been cut off by --max-response-bytes.
const MaxChunks = 16 << 20

// Assembler puts the pieces of a part's long lines together.
type Assembler struct {
	buf   []byte
	have  int
	total int
}

// Add takes a message and returns lines that are complete; nothing while a line is not. header is its PieceHeader.
func (a *Assembler) Add(header string, data []byte) ([]byte, error) {
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("a batch of %d bytes: at most %d are read", len(data), MaxMessage)
	}
	if header == "" {
		a.reset()
		return data, nil
	}
	k, n, err := piece(header)
	switch {
	case err != nil:
		return nil, err
	case k == 1:
		a.reset()
		a.total = n
	case n != a.total || k > a.have+1:
		a.reset()
		return nil, fmt.Errorf("piece %s of a line came without those before it", header)
	case k <= a.have:
		return nil, nil // sent again
	}
	if len(a.buf)+len(data) > MaxLine {
		a.reset()
		return nil, fmt.Errorf("a line of more than %d bytes", MaxLine)
	}
	a.buf, a.have = append(a.buf, data...), k
	if k < n {
		return nil, nil
	}
	line := a.buf
	*a = Assembler{}
	return line, nil
}

func (a *Assembler) reset() { *a = Assembler{} }

func piece(header string) (k, n int, err error) {
	first, second, ok := strings.Cut(header, "/")
	k, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	if !ok || err1 != nil || err2 != nil || k < 1 || n < k || n > MaxLine/1024 {
		return 0, 0, fmt.Errorf("%s: %.40q is no piece", PieceHeader, header)
	}
	return k, n, nil
}

// Pieces cuts a line that is longer than most bytes. header is that of each piece.
func Pieces(line []byte, most int) (pieces [][]byte, header func(i int) string) {
	for from := 0; from < len(line); from += most {
		pieces = append(pieces, line[from:min(from+most, len(line))])
	}
	return pieces, func(i int) string { return fmt.Sprintf("%d/%d", i+1, len(pieces)) }
}

// Lines reads the records of complete lines and hands each to visit. A line that is no record is an error after the
// others were visited: what came well is kept.
func Lines(data []byte, worker string, visit func(*call.Record) error) error {
	var bad error
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(line) == 0 {
			continue
		}
		r, err := recorder.Decode(line)
		switch {
		case err != nil:
			bad = errors.Join(bad, fmt.Errorf("a record cannot be read: %w", err))
			continue
		case r.Worker != worker:
			bad = errors.Join(bad, fmt.Errorf("a record of worker %.80q came from worker %q", r.Worker, worker))
			continue
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return bad
}
