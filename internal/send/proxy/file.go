package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// file is the trace as it is written: each line with one write, so that a process that is killed leaves whole
// lines and loses none that was written.
type file struct {
	mu   sync.Mutex
	f    *os.File
	torn bool // the last write left part of a line
}

func create(path string, overwrite bool) (*file, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND | os.O_EXCL
	if overwrite {
		flags = flags&^os.O_EXCL | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s exists; name another file, or --overwrite it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("create the trace: %w", err)
	}
	return &file{f: f}, nil
}

func (f *file) append(line *Line) error {
	raw, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.torn {
		raw = append([]byte{'\n'}, raw...)
	}
	n, err := f.f.Write(append(raw, '\n'))
	f.torn = err != nil && (n > 0 || f.torn)
	if err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return nil
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.f.Close(); err != nil {
		return fmt.Errorf("close the trace: %w", err)
	}
	return nil
}

// Sort puts the lines of a recording in the order in which its requests came: they are written as requests
// end. Lines that a killed process or a full disk left unfinished are dropped, and counted.
func Sort(path string) (dropped int, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("sort the trace: %w", err)
	}
	lines, dropped, err := timedLines(raw)
	if err != nil {
		return 0, fmt.Errorf("sort the trace: %s: %w", path, err)
	}
	if dropped == 0 && slices.IsSortedFunc(lines, byTime) {
		return 0, nil
	}
	slices.SortStableFunc(lines, byTime)
	var out bytes.Buffer
	for _, l := range lines {
		out.Write(l.raw)
		out.WriteByte('\n')
	}
	beside := path + ".sorting"
	if err := os.WriteFile(beside, out.Bytes(), 0o600); err != nil {
		return 0, fmt.Errorf("sort the trace: %w", err)
	}
	if err := os.Rename(beside, path); err != nil {
		return 0, fmt.Errorf("sort the trace: %w", err)
	}
	return dropped, nil
}

// timed is a line with its time.
type timed struct {
	at  float64
	raw []byte
}

func byTime(a, b timed) int { return cmp.Compare(a.at, b.at) }

func timedLines(raw []byte) (lines []timed, torn int, err error) {
	number := 0
	for line := range bytes.Lines(raw) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var at struct {
			Timestamp *float64 `json:"timestamp"`
		}
		switch {
		case json.Unmarshal(line, &at) != nil:
			torn++
		case at.Timestamp == nil:
			return nil, 0, fmt.Errorf("line %d has no timestamp", number)
		default:
			lines = append(lines, timed{*at.Timestamp, line})
		}
	}
	if torn > 1 && torn >= len(lines) {
		return nil, 0, fmt.Errorf("%d of %d lines are not lines of a trace", torn, torn+len(lines))
	}
	return lines, torn, nil
}
