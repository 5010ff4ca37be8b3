package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	f, err := os.OpenFile(path, flags, 0o644)
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
// end. A last line that a killed process left unfinished is dropped.
func Sort(path string) error {
	lines, err := readLines(path)
	if err != nil {
		return err
	}
	sorted := slices.IsSortedFunc(lines, byTime)
	slices.SortStableFunc(lines, byTime)
	if sorted && len(lines) > 0 && !lines[len(lines)-1].last {
		return nil
	}
	var out bytes.Buffer
	for _, l := range lines {
		out.Write(l.raw)
		out.WriteByte('\n')
	}
	beside := path + ".sorting"
	if err := os.WriteFile(beside, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("sort the trace: %w", err)
	}
	if err := os.Rename(beside, path); err != nil {
		return fmt.Errorf("sort the trace: %w", err)
	}
	return nil
}

// timed is a line with its time.
type timed struct {
	at   float64
	raw  []byte
	last bool // something that is no line came after it
}

func byTime(a, b timed) int { return cmp.Compare(a.at, b.at) }

func readLines(path string) ([]timed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("sort the trace: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReaderSize(f, 1<<20)
	var lines []timed
	for number := 1; ; number++ {
		raw, err := in.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return nil, fmt.Errorf("sort the trace: %w", err)
		}
		if raw = bytes.TrimSpace(raw); len(raw) > 0 {
			var at struct {
				Timestamp *float64 `json:"timestamp"`
			}
			bad := json.Unmarshal(raw, &at)
			switch {
			case bad == nil && at.Timestamp != nil:
				lines = append(lines, timed{at: *at.Timestamp, raw: raw})
			case ended && len(lines) > 0:
				lines[len(lines)-1].last = true
			case ended && bad != nil: // all there is
			default:
				return nil, fmt.Errorf("sort the trace: line %d of %s is no line of a trace", number, path)
			}
		}
		if ended {
			return lines, nil
		}
	}
}
