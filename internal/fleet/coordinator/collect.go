package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/fleet/broker"
	"spate/internal/fleet/leftover"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/result"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
)

// TraceFile stands in a run folder while its records are with a fleet: who finishes the run in the coordinator's place
// finds it by this.
const TraceFile = "fleet.json"

// Trace says where a run's records are.
type Trace struct {
	Run string `json:"run"`
	Dir string `json:"dir,omitempty"` // of the broker and the workers on this host; empty: the fleet has a broker of its own
}

// ReadTrace reads the trace in a run folder.
func ReadTrace(dir string) (Trace, error) {
	var t Trace
	data, err := infile.ReadFile(filepath.Join(dir, TraceFile), infile.MaxSettings)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err == nil {
		err = wire.Name("run", t.Run)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("%s has no %s: its run was finished, or was not one of a fleet", dir, TraceFile)
	}
	return t, err
}

// leave writes the trace, and the plan for the broker.
func (r *run) leave() (json.RawMessage, error) {
	if r.in.Folder == "" {
		return nil, nil
	}
	data, err := json.Marshal(Trace{Run: r.id, Dir: r.Dir})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(r.in.Folder, TraceFile), data, 0o600); err != nil {
		return nil, fmt.Errorf("write the trace of the fleet: %w", err)
	}
	return infile.ReadFile(filepath.Join(r.in.Folder, result.RunFile), infile.MaxSettings)
}

// forget removes the trace: everything came.
func (r *run) forget() {
	if r.in.Folder != "" {
		_ = os.Remove(filepath.Join(r.in.Folder, TraceFile)) // one that stays leads to nothing
	}
}

// Home is the broker of a coordinator that died, started anew on what it kept. What its workers had on disk is delivered.
func Home(ctx context.Context, dir string) (*link.Link, func(), error) {
	token := broker.NewToken()
	b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "broker"), Token: token})
	if err != nil {
		return nil, nil, err
	}
	l, err := link.Dial(link.Options{Join: link.Join{URL: b.URL(), Token: secret.Value(token)}, Name: "collect"})
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	end := func() { l.Close(); b.Close() }
	workers, err := filepath.Glob(WorkerDir(dir, "*"))
	for _, w := range workers {
		if _, derr := leftover.Deliver(ctx, l, w, nil); derr != nil {
			err = errors.Join(err, derr)
		}
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return l, end, nil
}

// Collected is a run that was finished in its coordinator's place.
type Collected struct {
	Run     *result.Run
	Dir     string
	Added   int // records that the folder had not
	Refused int
	Open    []string // workers whose end the broker does not have
}

// Collect puts the records that the broker has of a run into its folder and computes the result. dir is where; empty: the
// folder the run began with, or one of its name here.
func Collect(ctx context.Context, l *link.Link, id, dir string) (*Collected, error) {
	if err := wire.Name("run", id); err != nil {
		return nil, err
	}
	plan, err := readPlan(ctx, l, id)
	if err != nil {
		return nil, err
	}
	c := &Collected{Dir: dir}
	if dir == "" {
		if c.Dir = plan.Folder; c.Dir == "" {
			return nil, errors.New("the run was made with --no-output: name a folder with --output-dir")
		}
		if _, err := os.Stat(c.Dir); err != nil { // another host's
			c.Dir = filepath.Join(result.DefaultRoot, filepath.Base(c.Dir))
		}
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the run folder: %w", err)
	}
	return c, c.fill(ctx, l, plan)
}

func readPlan(ctx context.Context, l *link.Link, id string) (*wire.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	s, err := l.JS.Stream(ctx, wire.Stream(id))
	if err != nil {
		return nil, fmt.Errorf("the broker keeps nothing of run %s: %w", id, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, wire.PlanOf(id))
	if err != nil {
		return nil, fmt.Errorf("the broker has no plan of run %s: %w", id, err)
	}
	var p wire.Plan
	return &p, wire.Decode(m.Data, &p)
}

// fill writes the folder: all records once, and no loss of what came after all.
func (c *Collected) fill(ctx context.Context, l *link.Link, plan *wire.Plan) error {
	tmp := filepath.Join(c.Dir, "collecting.jsonl")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	log, err := recorder.Create(tmp, recorder.Options{Text: true})
	if err != nil {
		return err
	}
	had := newSeen()
	all := newSeen()
	old := filepath.Join(c.Dir, result.RecordsFile)
	for r := range recorder.Each(old) {
		if r.Fault != call.FaultLost {
			had.add(r)
		}
	}
	done, err := c.receive(ctx, l, plan, func(r *call.Record) error {
		if !all.add(r) {
			return nil
		}
		if had.add(r) {
			c.Added++
		}
		return log.Record(r)
	})
	for _, lost := range []bool{false, true} { // what is known of a request first
		for r := range recorder.Each(old) {
			one := *r // the log writes it later
			isLost := r.Fault == call.FaultLost
			if isLost != lost || isLost && all.has(r.Phase, r.ID) || !all.add(r) {
				continue
			}
			err = errors.Join(err, log.Record(&one))
		}
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	return c.conclude(plan, done, tmp)
}

// receive reads what the broker has, to its end.
func (c *Collected) receive(ctx context.Context, l *link.Link, plan *wire.Plan, take func(*call.Record) error) ([]*wire.Done, error) {
	var mu sync.Mutex
	done := make([]*wire.Done, plan.Of)
	in, err := l.OpenInbox(ctx, plan.Run, link.Arrivals{
		Names:  plan.Workers,
		Record: func(_ int, r *call.Record) error { mu.Lock(); defer mu.Unlock(); return take(r) },
		Done:   func(part int, d *wire.Done) { mu.Lock(); defer mu.Unlock(); done[part] = d },
		Bad:    func(int, error) { mu.Lock(); defer mu.Unlock(); c.Refused++ },
	})
	if err != nil {
		return nil, err
	}
	reading, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	err = in.CatchUp(reading)
	in.Close()
	return done, errors.Join(err, in.Err())
}

// conclude puts the new log in the old one's place and writes the result.
func (c *Collected) conclude(plan *wire.Plan, done []*wire.Done, log string) error {
	runFile := filepath.Join(c.Dir, result.RunFile)
	data, err := infile.ReadFile(runFile, infile.MaxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = plan.Result, nil
	}
	if err != nil {
		return err
	}
	run, err := result.Decode(data)
	if err != nil {
		return fmt.Errorf("the plan of the run: %w", err)
	}
	run.Workers = nil
	for i, name := range plan.Workers {
		p := &part{done: done[i]}
		p.hello.Worker, p.index.Index, p.index.Of = name, i, plan.Of
		if p.done == nil {
			c.Open = append(c.Open, name)
		}
		run.Workers = append(run.Workers, p.report(run.Plan.Start))
	}
	if data, err = json.Marshal(run); err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(runFile, data, 0o600), os.Rename(log, filepath.Join(c.Dir, result.RecordsFile)))
	if rerr := os.Remove(filepath.Join(c.Dir, result.ResultFile)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return err
	}
	if c.Run, err = result.Open(c.Dir); err != nil {
		return err
	}
	c.Run.Notes = append(c.Run.Notes, fmt.Sprintf("%d records were collected from the fleet after the run", c.Added))
	if data, err = json.MarshalIndent(c.Run, "", " "); err != nil {
		return err
	}
	return result.Save(filepath.Join(c.Dir, result.ResultFile), data, false)
}
