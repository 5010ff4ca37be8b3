// Package leftover is what a worker has on disk of the runs it works on, until all of it was delivered: the job, the run
// folder with its log, and the end once there is one. What a cut connection or a killed process left over is sent from
// the log; who receives it knows what it has already.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/result"
	"spate/internal/safe/infile"
)

const (
	runsDir    = "runs"
	recordsDir = "run"
	jobFile    = "job.json"
	doneFile   = "done.json"
	lockFile   = "lock" // held by the worker for as long as it works on the run
	maxNote    = 4 << 20

	deliverWithin = 10 * time.Minute
	endsWithin    = time.Minute // of a worker that still writes its last records
)

// Run is one run's folder on a worker.
type Run struct {
	Dir  string
	job  *wire.Job
	held *os.File
}

// Keep makes the folder of a job, within that of a worker.
func Keep(dir string, j *wire.Job) (*Run, error) {
	r := &Run{Dir: filepath.Join(dir, runsDir, j.Run+"-"+wire.Part(j.Part)), job: j}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the run: %w", err)
	}
	var err error
	if r.held, err = hold(r.Dir); err != nil {
		return nil, err
	}
	return r, r.write(jobFile, &wire.Job{ // without settings, which nobody needs any more
		Run: j.Run, Version: j.Version, Protocol: j.Protocol, Part: j.Part, Of: j.Of, Worker: j.Worker,
	})
}

// hold takes the folder for this process. The system lets go of it however the process ends.
func hold(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the run: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("the folder of the run is in use: %w", err), f.Close())
	}
	return f, nil
}

// Release lets others deliver what is left.
func (r *Run) Release() { _ = r.held.Close() } // nothing was written to it

// awaitEnd waits until nobody works on the run: a worker that lost its coordinator still writes its last records.
func (r *Run) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	for {
		f, err := hold(r.Dir)
		if err == nil {
			return f.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("worker %s still works on it: %w", r.job.Worker, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Output is the run folder, with the log in it.
func (r *Run) Output() string { return filepath.Join(r.Dir, recordsDir) }

// End keeps the end of the part.
func (r *Run) End(d *wire.Done) error { return r.write(doneFile, d) }

func (r *Run) write(name string, m wire.Message) error {
	data, err := wire.Encode(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Dir, name), data, 0o600); err != nil {
		return fmt.Errorf("write what the run is: %w", err)
	}
	return nil
}

// Remove removes the folder: everything was delivered, or nobody wants it.
func (r *Run) Remove() { _ = os.RemoveAll(r.Dir) } // the next job has a folder of its own

// SendLog sends the whole log, as far as it is readable. sender is a word that no other sender of the part has.
func (r *Run) SendLog(ctx context.Context, l *link.Link, sender string) (records int64, err error) {
	f, err := infile.Open(filepath.Join(r.Output(), result.RecordsFile), infile.Unbounded)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // it ended before anything did
	}
	if err != nil {
		return 0, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	return l.SendLog(ctx, r.job.Run, wire.Part(r.job.Part), sender, f)
}

// Done sends the end of the part: one message, however often it is sent.
func (r *Run) Done(ctx context.Context, l *link.Link, d *wire.Done) error {
	part := wire.Part(r.job.Part)
	return l.Keep(ctx, wire.Dones(r.job.Run, part), r.job.Run+".done."+part, d)
}

// Deliver sends what lies in a worker's folder, and returns how many runs still wait. skip, where set, names runs that
// are under way.
func Deliver(ctx context.Context, l *link.Link, dir string, skip func(run string) bool) (waiting int, err error) {
	found, err := filepath.Glob(filepath.Join(dir, runsDir, "*", jobFile))
	if err != nil || !l.NC.IsConnected() {
		return len(found), err
	}
	for _, path := range found {
		r := &Run{Dir: filepath.Dir(path), job: &wire.Job{}}
		data, rerr := infile.ReadFile(path, maxNote)
		if rerr == nil {
			rerr = wire.Decode(data, r.job)
		}
		switch {
		case rerr != nil:
			err = errors.Join(err, fmt.Errorf("%s: %w", path, rerr))
		case skip != nil && skip(r.job.Run):
		default:
			if derr := r.deliver(ctx, l); derr != nil {
				waiting++
				err = errors.Join(err, derr)
			}
		}
	}
	return waiting, err
}

// deliver sends the log and the end of a part that nobody works on any more, and removes its folder.
func (r *Run) deliver(ctx context.Context, l *link.Link) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	if err := r.awaitEnd(ctx); err != nil {
		return fmt.Errorf("run %s, part %d: %w", r.job.Run, r.job.Part, err)
	}
	n, err := r.SendLog(ctx, l, fmt.Sprintf("again-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err == nil {
		d := wire.Done{Worker: r.job.Worker, Records: n, Alone: true, Why: "its process ended in the middle of the run"}
		if data, rerr := infile.ReadFile(filepath.Join(r.Dir, doneFile), maxNote); rerr == nil {
			if derr := wire.Decode(data, &d); derr != nil {
				return derr
			}
		}
		err = r.Done(ctx, l, &d)
	}
	if err != nil && !errors.Is(err, link.ErrGone) {
		return fmt.Errorf("run %s, part %d: %w", r.job.Run, r.job.Part, err)
	}
	return os.RemoveAll(r.Dir)
}
