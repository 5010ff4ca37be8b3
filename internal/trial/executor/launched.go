package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"spate/internal/call"
	"spate/internal/host/launch"
	"spate/internal/trial"
)

// NoGPU is why the GPUs are not looked at for a simulated server.
const NoGPU = "a simulated server uses none"

// Launched makes runs on servers it starts: one for all points in a row that share a key. A point without a server
// is measured as Measured does.
type Launched struct {
	*Measured
	Guard    []string      // command that ends a server should spate be killed
	Patience time.Duration // how long what an earlier sitting left behind may take to be gone
	Starting func(*launch.Spec)
	Ready    func(*launch.Server)

	srv *launch.Server // running now; nil: none
	key string
}

var _ trial.Executor = (*Launched)(nil)

// Try implements trial.Executor.
func (l *Launched) Try(ctx context.Context, p *trial.Point) (*trial.Result, error) {
	if p.Server == nil {
		return l.Measured.Try(ctx, p)
	}
	began := time.Now()
	srv, started, err := l.Start(ctx, p.Server)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	cfg := p.Config
	cfg.Target.BaseURLs = []string{srv.URL}
	if cfg.Launch.Command != "" {
		cfg.Launch.Protection = srv.Protection
	}
	if cfg.Observe.ServerLog == "" && !cfg.Observe.Off {
		cfg.Observe.ServerLog = srv.Log
	}
	res, err := l.try(ctx, p, srv.Ended())
	if died := srv.Died(); died != nil {
		died.UnderLoad = true
		err = errors.Join(died, err)
		if left := l.Close(context.WithoutCancel(ctx)); left != nil {
			return res, left
		}
	}
	if res != nil {
		res.Server, res.Started, res.Start = srv, started, took
	}
	return res, err
}

// Start makes sure that the server runs, and reports whether it had to start it.
func (l *Launched) Start(ctx context.Context, s *trial.Server) (_ *launch.Server, started bool, err error) {
	if l.srv != nil && l.key == s.Key && !s.Fresh && l.srv.Died() == nil {
		return l.srv, false, nil
	}
	if err := l.Close(context.WithoutCancel(ctx)); err != nil {
		return nil, false, err
	}
	s.Spec.Guard, s.Spec.Patience = l.Guard, l.Patience
	if s.Spec.GPU.Skip == "" && Simulated(s.Spec.Command) {
		s.Spec.GPU.Skip = NoGPU
	}
	if l.Starting != nil {
		l.Starting(&s.Spec)
	}
	ctx, cancel := l.untilStopped(ctx)
	defer cancel()
	srv, err := s.Start(ctx)
	if err != nil {
		return nil, false, err
	}
	l.srv, l.key = srv, s.Key
	if l.Ready != nil {
		l.Ready(srv)
	}
	return srv, true, nil
}

// untilStopped is a context that the user's word ends, too: a start goes on for minutes.
func (l *Launched) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case <-l.Stop:
			cancel(call.ErrInterrupted)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		listening.Wait()
	}
}

// Close ends the server that runs, if any: by asking, and by force when the context ends.
func (l *Launched) Close(ctx context.Context) error {
	if l.srv == nil {
		return nil
	}
	err := l.srv.Stop(ctx)
	l.srv = nil
	if err != nil {
		return fmt.Errorf("end the server: %w", err)
	}
	return nil
}

// Simulated reports whether a command is this program's own server.
func Simulated(command []string) bool {
	name := strings.TrimSuffix(filepath.Base(command[0]), ".exe")
	return len(command) > 1 && command[1] == "sim" && (name == "spate" || strings.HasPrefix(name, "spate-"))
}
