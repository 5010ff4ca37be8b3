// Package trial is what every command that makes many runs shares: a Point is one run to make, an Executor makes it,
// and a Result is what comes back. Package executor has the executors: measured, launched and measured, predicted.
// Work is the folder in which the runs are kept, with a journal from which an interrupted command goes on.
//
// search/sweep, search/capacity and search/tune decide which point is next; the command line chooses the executor.
// Read this file, then work.go.
package trial

import (
	"context"
	"time"

	"spate/internal/call"
	"spate/internal/host/launch"
	"spate/internal/result"
	"spate/internal/settings/config"
)

// Point is one run to make: the settings of the load and of the server.
type Point struct {
	Config  *config.Bench // its output folder is where the run is kept
	Command []string      // as the run folder keeps it, without secrets
	Reset   bool          // the server's prefix cache is emptied first
	Watch   Watch         // nil: nobody looks at the run while it goes
	Server  *Server       // to start for it; nil: one that runs, or the embedded one
}

// Server is a server to start.
type Server struct {
	Spec  launch.Spec
	Key   string // points with the same key share a start
	Fresh bool   // unless this one wants a start of its own
}

// Watch looks at a run while it runs, and says when it need not go on.
type Watch interface {
	// Record is told of every request that ended.
	Record(r *call.Record) error
	// Sample is told how many requests were due and done at a time since the first was due.
	Sample(at time.Duration, due, done int)
	// Hopeless is why the run should end now, empty while it should not; full says that its queue grows.
	Hopeless() (why string, full bool)
}

// How often a run is looked at while it goes, and how long what is in flight may still take once a watch ends it.
const (
	LookEvery = 100 * time.Millisecond
	LastGrace = 2 * time.Second
)

// Result is a run that was made.
type Result struct {
	Run   *result.Run
	Early string   // why the watch ended it; empty: it did not
	Unmet []string // objectives asked for and not met, as sentences

	Server  *launch.Server // that was started; nil: none was
	Started bool           // for this point, not for one before it
	Start   time.Duration  // what that took, the end of the server before included
}

// Executor makes runs. A failed request is part of a result. An error beside a result says that the run is no
// measurement: it was aborted, nothing succeeded, or its server died. A server that does not start or dies is a
// *launch.Failure.
type Executor interface {
	Try(ctx context.Context, p *Point) (*Result, error)
	// Close ends what was started for the points so far. The executor can be used again.
	Close(ctx context.Context) error
}
