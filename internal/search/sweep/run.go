package sweep

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/trial"
)

// Options of Run.
type Options struct {
	Executor trial.Executor
	Resolve  Resolve
	UsedOK   string          // GPU memory that others may use when a server is started, as typed
	Stop     <-chan struct{} // closed to end after what is running
	Row      func(Row)       // told of every measurement, as it ends or is found
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

// Outcome is what one call of Run did.
type Outcome struct {
	Entries []result.Entry // every result of the sweep, in the order of the plan's points
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
	launched bool // the journal knows that the group has a server to start
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
	s.out.Stopped = s.out.Stopped || trial.Stopped(ctx, s.Stop)
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
	s.launched = false
	return errors.Join(s.steps(ctx, left), s.Executor.Close(context.WithoutCancel(ctx)))
}

// steps makes measurements until one finds that their server does not start.
func (s *sitting) steps(ctx context.Context, left []Step) error {
	for i, st := range left {
		if s.over(ctx) {
			break
		}
		err := s.step(ctx, st)
		if start, ok := errors.AsType[*trial.StartError](err); ok {
			return s.failGroup(ctx, left[i:], start)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
func (s *sitting) step(ctx context.Context, st Step) error {
	if s.measured > 0 {
		trial.Pause(ctx, s.Stop, s.Plan.Cooldown)
		if s.over(ctx) {
			return nil
		}
	}
	key := s.Plan.Key(st)
	run, err := s.try(ctx, st, key)
	if _, ok := errors.AsType[*trial.StartError](err); ok {
		return err
	}
	s.measured++
	if s.over(ctx) {
		return s.Note(trial.Entry{Event: "stopped", Key: key})
	}
	s.n++
	if err == nil && !s.Done(key) {
		err = errors.New("the run left no complete result")
	}
	if err != nil {
		return s.failed(st, err)
	}
	s.inARow = 0
	if err := s.Note(trial.Entry{Event: "done", Key: key}); err != nil {
		return err
	}
	s.tell(Row{Step: st, Run: run, Left: s.rest()})
	return nil
}

// try makes the run of a step.
func (s *sitting) try(ctx context.Context, st Step, key string) (*result.Run, error) {
	p, err := s.point(st, key)
	if err != nil {
		return nil, err
	}
	if p.Server != nil && !s.launched {
		s.launched = true
		if err := s.Note(trial.Entry{Event: "launch", Key: p.Server.Key}); err != nil {
			return nil, err
		}
	}
	if err := s.Note(trial.Entry{Event: "start", Key: key}); err != nil {
		return nil, err
	}
	res, err := s.Executor.Try(ctx, p)
	if start, ok := errors.AsType[*trial.StartError](err); ok {
		return nil, &trial.StartError{Err: fmt.Errorf("server %s: %w", p.Server.Key, explain(start, p.Server.Spec.Command[0]))}
	}
	if res == nil {
		return nil, err
	}
	return res.Run, err
}

// point is the run of a step: its settings, its place and the server to start for it.
func (s *sitting) point(st Step, key string) (*trial.Point, error) {
	args := s.Plan.Args(st.Point)
	cfg, err := s.Resolve(args)
	if err != nil {
		return nil, err
	}
	cfg.Output.Metadata = append(cfg.Output.Metadata, s.Plan.Labels(st)...)
	if cfg.Output.Label == "" {
		cfg.Output.Label = st.Point.Server
	}
	if err := s.Place(key, cfg, s.Plan.Cache); err != nil {
		return nil, err
	}
	p := &trial.Point{Config: cfg, Command: append([]string{"spate", "bench"}, secret.Args(args)...), Reset: s.Plan.Cache == trial.Reset}
	sv := s.Plan.Server(st.Point.Server)
	if sv == nil || sv.Launch == nil || cfg.Sim.Enabled || s.Plan.Predict != "" {
		return p, nil
	}
	p.Server = &trial.Server{Key: sv.Name, Spec: sv.Launch.Spec(filepath.Join(s.Dir, serversDir, slug(sv.Name)+".log"))}
	if err := p.Server.Spec.Choose("--launch-", sv.Launch.GPUs, s.UsedOK); err != nil {
		return nil, &trial.StartError{Err: fmt.Errorf("server %s: %w", sv.Name, err)}
	}
	return p, nil
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
	return s.Note(trial.Entry{Event: "failed", Key: s.Plan.Key(st), Error: secret.Text(first)})
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

// collect lists the results, those of earlier sittings too, point by point.
func (s *sitting) collect() { s.out.Entries = s.Entries() }

// Entries are the results of the sweep so far, in the order of its points.
func (f *Folder) Entries() []result.Entry {
	var out []result.Entry
	for i := range f.Plan.Points {
		for r := 1; r <= f.Plan.Repeat; r++ {
			if run := f.Finished(f.Plan.Key(Step{Point: &f.Plan.Points[i], Repeat: r})); run != nil {
				out = append(out, result.FromRun(run))
			}
		}
	}
	return out
}
