package recorder

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"spate/internal/call"
)

// Options of a Log; the zero value is good.
type Options struct {
	Text    bool          // keep the text of answers
	Queue   int           // records waiting for the writer before Record blocks; 4096 when 0
	Backlog int           // bytes kept in memory while the disk refuses them; 64 MiB when 0
	Retry   time.Duration // pause between tries while it does; 1 s when 0
}

func (o Options) withDefaults() Options {
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	if o.Backlog <= 0 {
		o.Backlog = 64 << 20
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	return o
}

// Stats counts the records of a Log. Accepted = Written + Missing + what is not written yet.
type Stats struct {
	Accepted int64         `json:"accepted"`
	Written  int64         `json:"written"`             // in the file, each by a finished write(2)
	Missing  int64         `json:"missing,omitempty"`   // given up: the disk refused them and memory was full, or the log closed
	Blocked  int64         `json:"blocked,omitempty"`   // records whose hand-over had to wait for room in the queue
	Waited   time.Duration `json:"waited_ns,omitempty"` // how long they waited, all together
	Refused  int64         `json:"refused,omitempty"`   // writes the system refused or cut short
	FirstErr string        `json:"first_error,omitempty"`
}

// Log appends each record to a file as one line by one write(2), from one goroutine that owns the
// file. Nothing finished is lost to a kill: what Written counts is in the kernel's hands.
//
// A full queue blocks the caller and is counted: memory stays bounded, and a run slowed down by its
// own disk says so. A disk that refuses writes does not stop the run: lines wait in memory up to
// Backlog bytes and are tried again; what does not fit is counted as missing.
type Log struct {
	opt   Options
	file  file
	name  string
	queue chan message
	done  chan struct{}

	gate   sync.RWMutex // held for reading while a record is handed over; Close takes it
	closed bool
	ending sync.Once
	ended  error

	accepted, written, missing, blocked, waited, refused atomic.Int64
	firstErr                                             atomic.Pointer[error]

	// Owned by the writer goroutine.
	buf     []byte
	pending [][]byte // lines, or the rest of one, the disk has refused so far
	held    int      // bytes in pending
}

// file is what a Log needs of *os.File.
type file interface {
	io.WriteCloser
	Sync() error
}

// message is a record to write, or a flush to acknowledge.
type message struct {
	rec   *call.Record
	flush chan struct{}
}

// Create starts a new log. It never touches an existing file.
func Create(path string, opt Options) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create record log: %w", err)
	}
	return newLog(f, path, opt), nil
}

func newLog(f file, name string, opt Options) *Log {
	opt = opt.withDefaults()
	l := &Log{
		opt: opt, file: f, name: name,
		queue: make(chan message, opt.Queue), done: make(chan struct{}),
		buf: make([]byte, 0, 1<<14),
	}
	go l.write() // Close waits for it
	return l
}

// Record hands r to the writer. It waits only while the queue is full.
func (l *Log) Record(r *call.Record) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return ErrClosed
	}
	l.accepted.Add(1)
	m := message{rec: r}
	select {
	case l.queue <- m:
		return nil
	default:
	}
	l.blocked.Add(1)
	from := time.Now()
	l.queue <- m
	l.waited.Add(int64(time.Since(from)))
	return nil
}

// Flush waits until everything handed over before it was tried once, and reports whether all of it
// is in the file.
func (l *Log) Flush() error {
	l.gate.RLock()
	if l.closed {
		l.gate.RUnlock()
		return ErrClosed
	}
	m := message{flush: make(chan struct{})}
	l.queue <- m
	l.gate.RUnlock()
	<-m.flush
	if s := l.Stats(); s.Written < s.Accepted {
		if err := l.firstErr.Load(); err != nil {
			return fmt.Errorf("write record log: %w", *err)
		}
	}
	return nil
}

// Stats may be called at any time, also after Close.
func (l *Log) Stats() Stats {
	// Written and missing are read before accepted, so that they never exceed it.
	s := Stats{
		Written: l.written.Load(), Missing: l.missing.Load(), Blocked: l.blocked.Load(),
		Waited: time.Duration(l.waited.Load()), Refused: l.refused.Load(),
	}
	s.Accepted = l.accepted.Load()
	if err := l.firstErr.Load(); err != nil {
		s.FirstErr = (*err).Error()
	}
	return s
}

// Close writes what is left, syncs it to the disk and closes the file. The error says how many
// records are missing and why; calling it again says the same.
func (l *Log) Close() error {
	l.gate.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.gate.Unlock()
	l.ending.Do(func() { l.ended = l.end() })
	return l.ended
}

// end waits until everything that can be is written, and closes the file.
func (l *Log) end() error {
	<-l.done
	syncErr := l.file.Sync()
	closeErr := l.file.Close()
	if s := l.Stats(); s.Missing > 0 {
		err := l.firstErr.Load()
		return fmt.Errorf("record log %s lacks %d of %d records: %w", l.name, s.Missing, s.Accepted, *err)
	}
	if syncErr != nil {
		return fmt.Errorf("sync record log: %w", syncErr)
	}
	if closeErr != nil {
		return fmt.Errorf("close record log: %w", closeErr)
	}
	return nil
}

// write owns the file until the queue is closed.
func (l *Log) write() {
	defer close(l.done)
	retry := time.NewTimer(l.opt.Retry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case m, ok := <-l.queue:
			if !ok {
				l.finish()
				return
			}
			if m.flush != nil {
				l.drain()
				close(m.flush)
				continue
			}
			if l.put(m.rec) {
				retry.Reset(l.opt.Retry)
			}
		case <-retry.C:
			if !l.drain() {
				retry.Reset(l.opt.Retry)
			}
		}
	}
}

// put writes one record, or keeps it. It reports whether this was the first line to be kept.
func (l *Log) put(r *call.Record) bool {
	l.buf = appendRecord(l.buf[:0], r, l.opt.Text)
	if len(l.pending) > 0 { // order holds: nothing passes a waiting line
		l.keep(l.buf)
		return false
	}
	n, err := l.file.Write(l.buf)
	if err == nil {
		l.written.Add(1)
		return false
	}
	l.refuse(err)
	l.keep(l.buf[n:])
	return len(l.pending) > 0
}

// keep holds a copy of a line, or of the rest of one, for a later try. The rest of a line the disk
// took in part is kept whatever its size, as the file is damaged without it.
func (l *Log) keep(line []byte) {
	if len(l.pending) > 0 && l.held+len(line) > l.opt.Backlog {
		l.missing.Add(1)
		return
	}
	l.pending = append(l.pending, append([]byte(nil), line...))
	l.held += len(line)
}

// drain tries the waiting lines again and reports whether none is left.
func (l *Log) drain() bool {
	for len(l.pending) > 0 {
		n, err := l.file.Write(l.pending[0])
		l.held -= n
		if err != nil {
			l.refuse(err)
			l.pending[0] = l.pending[0][n:]
			return false
		}
		l.pending[0] = nil
		l.pending = l.pending[1:]
		l.written.Add(1)
	}
	l.pending = nil
	return true
}

// finish makes the last try and counts what stays behind.
func (l *Log) finish() {
	l.drain()
	l.missing.Add(int64(len(l.pending)))
	l.pending, l.held = nil, 0
}

func (l *Log) refuse(err error) {
	l.refused.Add(1)
	l.firstErr.CompareAndSwap(nil, &err)
}
