package workload

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strconv"
	"sync"

	"spate/internal/call"
)

const (
	defaultWindow = 1024
	defaultHeld   = 64 << 20
)

var errClosed = errors.New("workload: stream is closed")

// state is a dataset's answer to "what comes next?".
type state int

const (
	issue state = iota // here is a job
	wait               // ask again when the jobs under way are settled
	done               // there is nothing more
)

// job is a drawn but unmade request. Drawing is sequential and cheap; making is neither.
type job struct {
	index   int        // request number (random), place in the file's index (sharegpt, custom)
	in, out int        // lengths, where they are known when drawing
	offset  int        // where random starts in the vocabulary
	lines   []int      // verses drawn by sonnet
	text    string     // to be cut to length (random from a file)
	again   bool       // a row that was accepted before; in and out hold its lengths
	row     *candidate // what was read (hf)
	thread  *thread    // a conversation that begins (multi-turn, agentic)
	parts   []job      // prompts of one request (random with a batch, random-rerank)
}

// dataset is what differs between datasets. Stream calls next, settle and notes under its lock,
// settle in the order of next; build runs in several goroutines at once.
type dataset interface {
	next() (job, state, error)
	build(s *scratch, j job) (req call.Request, keep bool, err error)
	settle(j job, req *call.Request, keep bool) error
	notes() []string
	close() error
}

// scratch is what one worker owns.
type scratch struct {
	enc  Encoder // nil without a tokenizer
	ids  []int32
	text []byte
}

// slot holds a made request until those before it are made.
type slot struct {
	job  job
	req  call.Request
	keep bool
	full bool
	err  error

	unsure bool // until it is made, nobody knows whether it is kept
}

// Stream makes requests ahead of their use. At most Window of them (or Held bytes of prompts) wait
// to be taken; then the workers sleep until Next takes one.
type Stream struct {
	ds      dataset
	tok     Tokenizer
	workers int
	limit   int // requests to hand out
	window  int
	heldMax int64
	prefix  string
	endless bool
	has     func(number int) bool // which requests to hand out

	mu       sync.Mutex
	wake     *sync.Cond // workers wait here for room
	slots    []slot     // jobs head..issued-1, by number modulo window
	head     int        // first job not settled
	issued   int        // jobs drawn
	accepted int        // requests passed to ready
	held     int64      // bytes made and not taken
	unsure   int        // of the jobs under way, those that may not be kept
	waiting  bool       // a worker waits for jobs to settle
	dry      bool       // the dataset has nothing more
	ended    bool       // ready is closed: all made, or err
	stopped  bool       // closed or canceled
	err      error

	ready  chan call.Request // holds at most window, so sends never block
	stop   chan struct{}     // closed by halt
	filled chan struct{}     // closed when the look-ahead is full for the first time
	once   sync.Once         // guards filled
	begin  sync.Once         // guards the start of the workers
	undo   func() bool       // unhooks from the starting context
	wg     sync.WaitGroup
}

func newStream(cfg Config, ds dataset, n int, tok Tokenizer) *Stream {
	s := &Stream{
		ds: ds, tok: tok, limit: n, prefix: cfg.NamePrefix,
		workers: cfg.Workers, window: cfg.Window, heldMax: cfg.Held, has: cfg.Has,
		stop: make(chan struct{}), filled: make(chan struct{}),
	}
	if s.endless = cfg.Endless; s.endless {
		s.limit = int(^uint(0) >> 1)
	}
	if s.workers <= 0 {
		s.workers = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if s.window <= 0 {
		s.window = defaultWindow
	}
	if s.heldMax <= 0 {
		s.heldMax = defaultHeld
	}
	s.wake = sync.NewCond(&s.mu)
	s.slots = make([]slot, s.window)
	s.ready = make(chan call.Request, s.window)
	return s
}

// Start begins making requests, so that they wait when the run begins. It returns at once; the end
// of ctx stops the workers as Close does. Calls after the first do nothing.
func (s *Stream) Start(ctx context.Context) {
	s.begin.Do(func() {
		undo := context.AfterFunc(ctx, s.halt)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.undo = undo
		if s.stopped {
			return
		}
		for range s.workers {
			s.wg.Go(s.work)
		}
	})
}

// Fill starts the workers and waits until the look-ahead is full or everything is made.
func (s *Stream) Fill(ctx context.Context) error {
	s.Start(ctx)
	select {
	case <-s.stop: // also when it was full before
		return s.why(ctx)
	default:
	}
	select {
	case <-s.filled:
		return nil
	case <-s.stop:
		return s.why(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next returns the next request; io.EOF follows the last. It starts the workers, under its own
// ctx, if Start has not.
func (s *Stream) Next(ctx context.Context) (call.Request, error) {
	s.Start(ctx)
	select {
	case <-s.stop:
		return call.Request{}, s.why(ctx)
	default:
	}
	select {
	case r, ok := <-s.ready:
		if !ok {
			return call.Request{}, s.end()
		}
		s.taken(&r)
		return r, nil
	case <-s.stop:
		return call.Request{}, s.why(ctx)
	case <-ctx.Done():
		return call.Request{}, ctx.Err()
	}
}

func (s *Stream) why(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return errClosed
}

func (s *Stream) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

func (s *Stream) taken(r *call.Request) {
	s.mu.Lock()
	s.held -= size(r)
	s.mu.Unlock()
	s.wake.Signal()
}

// Close stops the workers, waits for them and closes the dataset.
func (s *Stream) Close() error {
	s.halt()
	s.begin.Do(func() {}) // a later Start must not find a closed file
	s.wg.Wait()
	s.mu.Lock()
	undo := s.undo
	s.mu.Unlock()
	if undo != nil {
		undo()
	}
	return s.ds.close()
}

// Notes says, in sentences for people, what was done differently from what was asked so far.
func (s *Stream) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ds.notes()
}

func (s *Stream) halt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
		s.wake.Broadcast()
	}
}

// work is one worker. It gives up its processor between requests: a busy processor delays the
// timers and stamps of the requests in flight.
func (s *Stream) work() {
	w := &scratch{}
	if s.tok != nil {
		w.enc = s.tok.NewEncoder()
	}
	for {
		number, made, ok := s.take()
		if !ok {
			return
		}
		if !made.full {
			s.make(w, &made)
		}
		s.settle(number, made)
		runtime.Gosched()
	}
}

func (s *Stream) make(w *scratch, at *slot) {
	at.req, at.keep, at.err = s.ds.build(w, at.job)
	at.full = true
	if at.err == nil {
		at.err = s.unusable()
	}
}

// unusable says why the tokenizer can no longer be trusted with prompts.
func (s *Stream) unusable() error {
	if t, ok := s.tok.(interface{ Err() error }); ok {
		return t.Err()
	}
	return nil
}

// take waits for room and draws the next job; false means there is no more work. What others hand out comes full: there
// is nothing to make.
func (s *Stream) take() (number int, drawn slot, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.stopped || s.ended || s.dry {
			return 0, slot{}, false
		}
		if s.room() {
			j, st, err := s.ds.next()
			switch {
			case err != nil:
				s.finish(err)
				return 0, slot{}, false
			case st == issue:
				drawn = s.drawn(j)
				s.issued++
				if s.room() { // one wakes the next, so that a taken request does not wake them all
					s.wake.Signal()
				}
				return s.issued - 1, drawn, true
			case st == done:
				s.dry = true
				s.finishIfDone()
				s.wake.Broadcast()
				return 0, slot{}, false
			}
			s.waiting = true
		} else if s.issued == s.head {
			s.full()
		}
		s.wake.Wait()
	}
}

// drawn is a job to make, unless it is kept for certain and another worker's: then its number is known now, since all
// that are under way before it are kept too.
func (s *Stream) drawn(j job) slot {
	d, ok := s.ds.(certain)
	if !ok || !d.sure(j) {
		s.unsure++
		return slot{job: j, unsure: true}
	}
	if s.unsure > 0 || s.own(s.accepted+s.issued-s.head) {
		return slot{job: j}
	}
	if d, ok := s.ds.(skipper); ok {
		d.skip(j)
	}
	return slot{job: j, keep: true, full: true}
}

// own reports whether a request is to be handed out. The first one is, whoever sends it: what is learned from it before
// a run, and copies of it, are the same for every worker.
func (s *Stream) own(number int) bool { return s.has == nil || number == 0 || s.has(number) }

// room reports whether another request may be made: never more than are still wanted, so that a
// dataset which rejects candidates is not drawn from beyond the last request.
func (s *Stream) room() bool {
	flying := s.issued - s.head
	return flying+len(s.ready) < s.window && flying+s.accepted < s.limit && s.held < s.heldMax
}

// settle files a made request and passes on those that are now next in order.
func (s *Stream) settle(number int, made slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[number%s.window] = made
	if made.keep {
		s.held += size(&made.req)
	}
	for at := &s.slots[s.head%s.window]; at.full && !s.ended; at = &s.slots[s.head%s.window] {
		s.head++
		s.pass(at)
		*at = slot{}
	}
	s.finishIfDone()
	if s.waiting {
		s.waiting = false
		s.wake.Broadcast()
	}
}

func (s *Stream) pass(at *slot) {
	if at.err != nil {
		s.finish(at.err)
		return
	}
	if at.unsure {
		s.unsure--
	}
	if at.keep {
		at.req.ID, at.req.Number = s.accepted, s.accepted
		at.req.Name = s.prefix + strconv.Itoa(s.accepted)
		at.req.Phase = call.Measure
	}
	if err := s.ds.settle(at.job, &at.req, at.keep); err != nil {
		s.finish(err)
		return
	}
	if !at.keep {
		return
	}
	if s.own(s.accepted) {
		s.ready <- at.req
	} else {
		s.held -= size(&at.req)
	}
	s.accepted++
}

func (s *Stream) finishIfDone() {
	if s.accepted == s.limit || s.dry && s.issued == s.head {
		s.finish(nil)
	}
}

func (s *Stream) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	close(s.ready)
	s.full()
	s.wake.Broadcast()
}

func (s *Stream) full() { s.once.Do(func() { close(s.filled) }) }

// size is what a request's prompt takes in memory.
func size(r *call.Request) int64 {
	n := len(r.Prompt.Text) + 4*len(r.Prompt.IDs) + len(r.Prompt.Messages)
	for _, t := range r.Prompt.Texts {
		n += len(t)
	}
	if r.Prompt.Audio != nil {
		n += len(r.Prompt.Audio.Data)
	}
	return int64(n)
}
