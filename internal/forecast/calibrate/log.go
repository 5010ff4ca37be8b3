package calibrate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Step is one step of an engine, as a line of its iteration details tells it.
type Step struct {
	Line         int
	Prompts      int // requests that computed prompt tokens
	PromptTokens int
	Decodes      int // requests that generated
	DecodeTokens int
	Elapsed      time.Duration
	Usage        float64 // of the KV cache, 0 to 1; below zero where the line does not say
}

// Log is what one start of an engine printed.
type Log struct {
	Name   string // of the file, with the line the start begins at
	Line   int
	Server Server
	Steps  []Step
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
		if step, ok := parseStep(text); ok {
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
	if begins(text) && s.now != nil && (len(s.now.Steps) > 0 || s.now.Server.sized()) {
		s.done, s.now = append(s.done, s.now), nil
	}
	for _, rule := range startLines {
		if strings.Contains(text, rule.hint) {
			var got Server
			if rule.read(&got, text) {
				s.log(line).Server.merge(&got)
			}
		}
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

// parseStep reads a line of iteration details. Its parts are found by their names, so that versions that
// add to it stay readable.
func parseStep(text string) (Step, bool) {
	s := Step{Usage: -1}
	_, text, _ = strings.Cut(text, "Iteration(")
	ms, ok := readNumber(after(text, "elapsed time: "))
	if !ok || !strings.HasPrefix(strings.TrimLeft(after(text, "elapsed time: "), "0123456789."), " ms") || ms > 1e9 {
		return s, false
	}
	s.Elapsed = time.Duration(ms * float64(time.Millisecond))
	for _, p := range []struct {
		name string
		to   *int
	}{
		{" context requests", &s.Prompts},
		{" context tokens", &s.PromptTokens},
		{" generation requests", &s.Decodes},
		{" generation tokens", &s.DecodeTokens},
	} {
		n, found := before(text, p.name)
		if !found && p.to != &s.DecodeTokens {
			return s, false
		}
		*p.to = n
	}
	s.DecodeTokens = max(s.DecodeTokens, s.Decodes)
	if pct, ok := readNumber(after(text, "KV cache usage: ")); ok && pct <= 100 {
		s.Usage = pct / 100
	}
	return s, s.Elapsed > 0 && s.PromptTokens+s.DecodeTokens > 0
}

// after is what follows a mark, empty without it.
func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// number reads the number a text begins with, with commas between its digits.
func readNumber(text string) (float64, bool) {
	n := 0
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n] == '.' || text[n] == ',') {
		n++
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimRight(text[:n], ".,"), ",", ""), 64)
	return v, err == nil
}

// maxCount is more tokens or requests than any step or cache has.
const maxCount = 1 << 31

// whole reads the whole number a text begins with.
func whole(text string) (int, bool) {
	v, ok := readNumber(text)
	return int(min(v, maxCount)), ok && v == float64(int64(v)) && v < maxCount
}

// before reads the whole number that stands before a mark.
func before(text, mark string) (int, bool) {
	i := strings.Index(text, mark)
	if i < 0 {
		return 0, false
	}
	j := i
	for j > 0 && text[j-1] >= '0' && text[j-1] <= '9' {
		j--
	}
	return whole(text[j:i])
}
