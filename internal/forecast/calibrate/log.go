package calibrate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"spate/internal/host/enginelog"
)

// Log is what one start of an engine printed.
type Log struct {
	Name   string // of the file, with the line the start begins at
	Line   int
	Server enginelog.Start
	Steps  []enginelog.Step
	Cut    int // lines of iteration details that could not be read
}

// Limits on what is kept of a log.
const (
	maxLine  = 1 << 20
	maxSteps = 2 << 20
)

// ReadLog finds the starts of engines and their steps in a text, compressed or not. Lines of any other
// kind are passed over; a text without either gives nothing.
func ReadLog(name string, r io.Reader) ([]*Log, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", name, err)
		}
		in = bufio.NewReaderSize(z, 1<<16)
	}
	s := &logScan{name: name}
	for line := 1; ; line++ {
		text, err := readLine(in)
		s.take(text, line)
		if errors.Is(err, io.EOF) {
			return s.end(), nil
		}
		if err != nil {
			return s.end(), fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

// readLine is the next line without its end; what is too long for a log line is cut.
func readLine(in *bufio.Reader) (string, error) {
	var text []byte
	for {
		part, more, err := in.ReadLine()
		if len(text) < maxLine {
			text = append(text, part...)
		}
		if err != nil || !more {
			return string(text), err
		}
	}
}

// logScan divides a text into starts.
type logScan struct {
	name string
	done []*Log
	now  *Log
}

// take reads one line.
func (s *logScan) take(text string, line int) {
	if strings.Contains(text, "Iteration(") {
		if step, ok := enginelog.ParseStep(text); ok {
			step.Line = line
			if l := s.log(line); len(l.Steps) < maxSteps {
				l.Steps = append(l.Steps, step)
			}
			return
		}
		if s.now != nil && strings.Contains(text, "elapsed time") {
			s.now.Cut++
		}
		return
	}
	if enginelog.Begins(text) && s.now != nil && (len(s.now.Steps) > 0 || s.now.Server.Sized()) {
		s.done, s.now = append(s.done, s.now), nil
	}
	var said enginelog.Start
	if said.Read(text) {
		s.log(line).Server.Merge(&said)
	}
}

func (s *logScan) log(line int) *Log {
	if s.now == nil {
		s.now = &Log{Name: s.name, Line: line}
	}
	return s.now
}

func (s *logScan) end() []*Log {
	if s.now != nil {
		s.done = append(s.done, s.now)
	}
	return s.done
}
