package recorder

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"spate/internal/call"
)

// Spill keeps the records of a run for its figures without keeping them in memory. A record of a hundred chunks takes
// about 500 bytes here, against 4 KB as a call.Record. The first 64 MiB stay in memory, which is most runs; after that
// everything goes to one file without a name in the run's folder, which is gone when the process is. For each record
// 8 bytes stay in memory, so ten million of them take 80 MB and a file of about 5 GB; the log of the same run, which
// is for people and other tools, has about 20 GB.
//
// The log would do as well, but figures are computed by going through the records forty times and more, and reading JSON
// takes twenty times as long as reading this.
type Spill struct {
	dir string

	mu     sync.Mutex
	pack   packer
	buf    []byte     // one packed record
	starts [][]uint64 // where each record begins, in pieces so that growing copies nothing
	n      int
	size   uint64
	blocks [][]byte // in memory: all of them, or the last one alone where there is a file
	file   *os.File
	first  int // number of blocks that are in the file
	limit  int // bytes that may stay in memory
	full   bool
	err    error
	closed bool
}

const (
	blockSize  = 256 << 10
	startsEach = 64 << 10
	spillFrom  = 64 << 20
	cacheMost  = 128 // blocks that one reader keeps: 32 MiB hold what thousands of concurrent requests leave
)

// NewSpill makes an empty store; dir is where its file goes if it needs one, and empty means the system's temporary
// folder.
func NewSpill(dir string) *Spill { return &Spill{dir: dir, limit: spillFrom, pack: newPacker()} }

// Record implements Sink.
func (s *Spill) Record(r *call.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.buf = s.pack.record(s.buf[:0], r)
	if s.n%startsEach == 0 {
		s.starts = append(s.starts, make([]uint64, 0, min(startsEach, 1024+s.n)))
	}
	last := len(s.starts) - 1
	s.starts[last] = append(s.starts[last], s.size)
	s.n++
	s.write(s.buf)
	return nil
}

// write appends bytes to the last block and begins new ones.
func (s *Spill) write(b []byte) {
	s.size += uint64(len(b))
	for len(b) > 0 {
		if n := len(s.blocks); n == 0 || len(s.blocks[n-1]) == blockSize {
			s.makeRoom()
			s.blocks = append(s.blocks, make([]byte, 0, blockSize))
		}
		last := &s.blocks[len(s.blocks)-1]
		n := min(len(b), blockSize-len(*last))
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

// makeRoom moves full blocks to the file once there are too many. Where the disk takes no more, they stay in memory:
// no record is lost for want of space.
func (s *Spill) makeRoom() {
	if s.full || s.file == nil && len(s.blocks)*blockSize < s.limit {
		return
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, ".records-*")
		if err != nil {
			s.full = true
			return
		}
		_ = os.Remove(f.Name()) // where a file in use cannot go, Close removes it
		s.file = f
	}
	for len(s.blocks) > 0 {
		if _, err := s.file.WriteAt(s.blocks[0], int64(s.first)*blockSize); err != nil {
			s.full = true
			return
		}
		s.first++
		s.blocks = s.blocks[1:]
	}
}

// Err says why records could not be read back.
func (s *Spill) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Size is how many bytes the records take, in memory or on disk.
func (s *Spill) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.size)
}

// Close releases everything. Nothing can be read afterwards.
func (s *Spill) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.blocks, s.starts, s.n = nil, nil, 0
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if removed := os.Remove(s.file.Name()); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	s.file = nil
	return err
}

// Len implements call.Set.
func (s *Spill) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// All implements call.Set.
func (s *Spill) All() iter.Seq[*call.Record] {
	return func(yield func(*call.Record) bool) {
		c := s.reader()
		for i := range s.Len() {
			if r := c.record(i); r == nil || !yield(r) {
				return
			}
		}
	}
}

// Pick implements call.Set.
func (s *Spill) Pick(numbers []int32) iter.Seq[*call.Record] {
	return func(yield func(*call.Record) bool) {
		c := s.reader()
		for _, i := range numbers {
			if r := c.record(int(i)); r == nil || !yield(r) {
				return
			}
		}
	}
}

// List is all records in memory, for what needs them there.
func (s *Spill) List() []call.Record {
	out := make([]call.Record, 0, s.Len())
	for r := range s.All() {
		out = append(out, clone(r))
	}
	return out
}

// spillReader goes through records. Requests end nearly in the order in which they began, so most of what it wants is
// in a block that it has.
type spillReader struct {
	s     *Spill
	cache map[int][]byte
	held  []int // blocks in the cache, oldest first
	buf   []byte
	un    unpacker
}

func (s *Spill) reader() *spillReader {
	return &spillReader{s: s, cache: map[int][]byte{}, un: unpacker{words: &s.pack.words, labels: &s.pack.labels}}
}

// record reads the i-th record; nil after an error.
func (c *spillReader) record(i int) *call.Record {
	s := c.s
	s.mu.Lock()
	from, to := s.starts[i/startsEach][i%startsEach], s.size
	if i+1 < s.n {
		to = s.starts[(i+1)/startsEach][(i+1)%startsEach]
	}
	s.mu.Unlock()
	b, err := c.bytes(from, int(to-from))
	if err == nil {
		var r *call.Record
		if r, err = c.un.record(b); err == nil {
			return r
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("read records back: %w", err)
	}
	return nil
}

// bytes gives a stretch, which may lie in several blocks.
func (c *spillReader) bytes(from uint64, n int) ([]byte, error) {
	c.buf = c.buf[:0]
	for n > 0 {
		b, err := c.block(int(from / blockSize))
		if err != nil {
			return nil, err
		}
		at := int(from % blockSize)
		if at >= len(b) {
			return nil, io.ErrUnexpectedEOF
		}
		part := b[at:min(len(b), at+n)]
		if len(part) == n && len(c.buf) == 0 {
			return part, nil
		}
		c.buf = append(c.buf, part...)
		n -= len(part)
		from += uint64(len(part))
	}
	return c.buf, nil
}

func (c *spillReader) block(k int) ([]byte, error) {
	if b, ok := c.cache[k]; ok {
		return b, nil
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if k >= s.first {
		return s.blocks[k-s.first], nil
	}
	var b []byte
	if len(c.held) >= cacheMost {
		b = c.cache[c.held[0]]
		delete(c.cache, c.held[0])
		c.held = c.held[1:]
	} else {
		b = make([]byte, blockSize)
	}
	if _, err := s.file.ReadAt(b, int64(k)*blockSize); err != nil {
		return nil, err
	}
	c.cache[k] = b
	c.held = append(c.held, k)
	return b, nil
}
