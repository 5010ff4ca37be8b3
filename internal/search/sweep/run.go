package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/result"
	"spate/internal/result/runs"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

// Task is one measurement to make.
type Task struct {
	Step
	Args      []string // of bench
	Dir       string   // the run folder
	Labels    []config.KeyValue
	Salt      string // what to make a salt for the prompts from; empty for none
	Reset     bool   // the server's prefix cache is to be emptied first
	URL       string // of the server started for it; empty: as the flags say
	ServerLog string // what that server prints
}

// Measure makes a measurement and leaves its result in the run folder.
type Measure func(ctx context.Context, t *Task) (*result.Run, error)

// Options of Run.
type Options struct {
	Measure Measure
	Start   Starter         // nil: servers are not started, whatever the plan says
	Stop    <-chan struct{} // closed to end after what is running
	Row     func(Row)       // told of every measurement, as it ends or is found
}

// Row is how one measurement went.
type Row struct {
	Step
	N, Of   int           // which of how many
	Run     *result.Run   // nil when there is no result
	Err     error         // why
	Earlier bool          // an earlier sitting made it
	Left    time.Duration // what the rest may take, judging by this sitting; 0: unknown
}

// Outcome is what a sitting came to.
type Outcome struct {
	Entries []runs.Entry // every result of the sweep, in the order of the plan's points
	Failed  []Row
	Stopped bool // by the user
	GaveUp  bool // after too many failures in a row
}

// maxInARow is how many failures in a row end a sweep: the rest would fare no better.
const maxInARow = 3

// sitting is one Run.
type sitting struct {
	*Folder
	Options
	out      Outcome
	n, of    int
	measured int
	began    time.Time
	inARow   int
}

// Run makes the measurements that the folder does not have yet.
func Run(ctx context.Context, f *Folder, o Options) (*Outcome, error) {
	s := &sitting{Folder: f, Options: o, began: time.Now()}
	groups := f.Plan.Steps()
	for _, g := range groups {
		s.of += len(g)
	}
	for _, g := range groups {
		if err := s.group(ctx, g); err != nil {
			return &s.out, err
		}
		if s.over(ctx) {
			break
		}
	}
	s.collect()
	return &s.out, nil
}

// over reports whether nothing more is to be measured.
func (s *sitting) over(ctx context.Context) bool {
	select {
	case <-s.Stop:
		s.out.Stopped = true
	case <-ctx.Done():
		s.out.Stopped = true
	default:
	}
	return s.out.Stopped || s.out.GaveUp
}

// group makes the measurements of one server start.
func (s *sitting) group(ctx context.Context, steps []Step) error {
	var left []Step
	for _, st := range steps {
		if run := s.Finished(s.Plan.Key(st)); run != nil {
			s.n++
			s.tell(Row{Step: st, Run: run, Earlier: true})
			continue
		}
		left = append(left, st)
	}
	if len(left) == 0 || s.over(ctx) {
		return nil
	}
	server, err := s.start(ctx, s.Plan.Server(left[0].Point.Server))
	if err != nil {
		return s.failGroup(ctx, left, err)
	}
	for _, st := range left {
		if s.over(ctx) {
			break
		}
		if err := s.step(ctx, st, server); err != nil {
			return errors.Join(err, stop(server))
		}
	}
	return stop(server)
}

func stop(r Running) error {
	if r == nil {
		return nil
	}
	return r.Stop()
}

// start starts the group's server, if it has one to start.
func (s *sitting) start(ctx context.Context, sv *Server) (Running, error) {
	if sv == nil || sv.Launch == nil || s.Start == nil {
		return nil, nil
	}
	if err := s.Note(Entry{Event: "launch", Key: sv.Name}); err != nil {
		return nil, err
	}
	log := filepath.Join(s.Dir, serversDir, slug(sv.Name)+".log")
	ctx, cancel := s.untilStopped(ctx)
	defer cancel()
	r, err := s.Start(ctx, sv.Launch, log)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", sv.Name, err)
	}
	return r, nil
}

// untilStopped is a context that the user's word ends, too.
func (s *sitting) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-s.Stop:
			cancel(call.ErrInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// failGroup gives up on points whose server did not start; other servers may.
func (s *sitting) failGroup(ctx context.Context, left []Step, err error) error {
	if s.over(ctx) {
		return nil
	}
	for _, st := range left {
		s.n++
		if err := s.failed(st, err); err != nil {
			return err
		}
	}
	s.inARow = 0
	s.out.GaveUp = false
	return nil
}

// step makes one measurement.
func (s *sitting) step(ctx context.Context, st Step, server Running) error {
	if s.measured > 0 {
		s.pause(ctx, s.Plan.Cooldown)
		if s.over(ctx) {
			return nil
		}
	}
	key := s.Plan.Key(st)
	t, err := s.task(st, key, server)
	if err != nil {
		return err
	}
	if err := s.Note(Entry{Event: "start", Key: key}); err != nil {
		return err
	}
	run, err := s.Measure(ctx, t)
	s.measured++
	if s.over(ctx) {
		return s.Note(Entry{Event: "stopped", Key: key})
	}
	s.n++
	if err == nil && !s.done(key) {
		err = errors.New("the run left no complete result")
	}
	if err != nil {
		return s.failed(st, err)
	}
	s.inARow = 0
	if err := s.Note(Entry{Event: "done", Key: key}); err != nil {
		return err
	}
	s.tell(Row{Step: st, Run: run, Left: s.rest()})
	return nil
}

// task prepares the measurement of a step.
func (s *sitting) task(st Step, key string, server Running) (*Task, error) {
	dir, before, err := s.Claim(key)
	if err != nil {
		return nil, err
	}
	t := &Task{Step: st, Args: s.Plan.Args(st.Point), Dir: dir, Labels: s.Plan.Labels(st), Reset: s.Plan.Cache == Reset}
	if s.Plan.Cache == Salt {
		t.Salt = fmt.Sprintf("%s.%d", key, before) // an attempt before left its prompts in the cache
	}
	if server != nil {
		t.URL, t.ServerLog = server.URL(), server.Log()
	}
	return t, nil
}

// Salted makes the prompts of a run begin as no other's do, if the prefix cache is treated that way and
// the user gave no salt. Salts are of one length, so that prompts are, too.
func Salted(cfg *config.Bench, how, name string) {
	if Cache(how) != Salt || cfg.Has("salt") && cfg.Dataset.Salt != "auto" {
		return
	}
	sum := sha256.Sum256([]byte(name))
	cfg.Dataset.Salt = hex.EncodeToString(sum[:4])
}

// failed notes a measurement without a result. It is tried again in the next sitting.
func (s *sitting) failed(st Step, err error) error {
	row := Row{Step: st, Err: err}
	s.out.Failed = append(s.out.Failed, row)
	s.tell(row)
	if s.inARow++; s.inARow >= maxInARow {
		s.out.GaveUp = true
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return s.Note(Entry{Event: "failed", Key: s.Plan.Key(st), Error: secret.Text(first)})
}

func (s *sitting) tell(r Row) {
	r.N, r.Of = s.n, s.of
	if s.Row != nil {
		s.Row(r)
	}
}

// rest is what remains, judging by what was measured so far.
func (s *sitting) rest() time.Duration {
	each := time.Since(s.began) / time.Duration(max(1, s.measured))
	return (each * time.Duration(s.of-s.n)).Round(time.Second)
}

// pause waits; the user's word ends it.
func (s *sitting) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.Stop:
	}
}

// collect lists the results, those of earlier sittings too, point by point.
func (s *sitting) collect() { s.out.Entries = s.Entries() }

// Entries are the results of the sweep so far, in the order of its points.
func (f *Folder) Entries() []runs.Entry {
	var out []runs.Entry
	for i := range f.Plan.Points {
		for r := 1; r <= f.Plan.Repeat; r++ {
			if run := f.Finished(f.Plan.Key(Step{Point: &f.Plan.Points[i], Repeat: r})); run != nil {
				out = append(out, runs.FromRun(run))
			}
		}
	}
	return out
}
