package trial

import (
	"context"
	"errors"
	"strings"

	"spate/internal/host/launch"
)

// StartError says that a server did not start, so that nothing was sent.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap is why: a *launch.Failure, a *launch.BusyError or a *launch.LeftError.
func (e *StartError) Unwrap() error { return e.Err }

// portTries is how often a free port is looked for: another process may take it before the server does.
const portTries = 3

// Start starts the server and returns when it answers. The error is a *StartError.
func (s *Server) Start(ctx context.Context) (*launch.Server, error) {
	for try := 1; ; try++ {
		srv, err := launch.Start(ctx, s.Spec)
		if err == nil {
			return srv, nil
		}
		f, ok := errors.AsType[*launch.Failure](err)
		if !ok || f.Kind != launch.Port || try == portTries || s.Spec.URL != "" && !strings.Contains(s.Spec.URL, "{port}") {
			return nil, &StartError{err}
		}
	}
}
