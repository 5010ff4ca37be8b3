// Package recorder keeps records as requests end, so that whatever happens to the process, every
// finished request can still be read. The driver hands it Records; metrics and result read them back.
//
// Log is the crash-safe file of one JSON line per record (log.go, with encode.go for the line and
// read.go for the way back), Spill keeps records for the figures (spill.go, with pack.go for their form), Memory
// keeps a few as they are, Tee feeds several sinks.
// Read log.go first.
package recorder

import (
	"errors"
	"sync"

	"spate/internal/call"
)

// Sink takes records in the order requests end. Record may be called from many goroutines and must
// return quickly: it runs on the goroutine of the stream that just ended. The caller leaves a record
// alone once it has handed it over. An error means that the sink takes no more records; trouble with
// single records is the sink's own to count and to report from Close.
type Sink interface {
	Record(r *call.Record) error
	Close() error
}

// ErrClosed is returned for a record handed to a sink after Close.
var ErrClosed = errors.New("the record sink is closed")

// Memory keeps records in memory, in the order they came.
type Memory struct {
	mu     sync.Mutex
	recs   []call.Record
	closed bool
}

// NewMemory makes room for about n records.
func NewMemory(n int) *Memory {
	return &Memory{recs: make([]call.Record, 0, min(max(n, 0), 1<<16))}
}

// Record keeps a copy of r; slices and maps within stay shared.
func (m *Memory) Record(r *call.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.recs = append(m.recs, *r)
	return nil
}

// Records returns what was kept so far. Later records do not change the returned slice.
func (m *Memory) Records() []call.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recs[:len(m.recs):len(m.recs)]
}

// Close refuses further records; those kept stay readable.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Tee hands each record to every sink in turn. One sink's error does not keep the record from the
// others; the errors are joined.
func Tee(sinks ...Sink) Sink {
	return tee(sinks)
}

type tee []Sink

func (t tee) Record(r *call.Record) error {
	var errs error
	for _, s := range t {
		if err := s.Record(r); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func (t tee) Close() error {
	var errs error
	for _, s := range t {
		if err := s.Close(); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
