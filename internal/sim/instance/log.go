package instance

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
)

// Started prints what the engine prints when it starts.
func (in *Instance) Started(w io.Writer, pid int) error {
	p := in.Conf.Prefix(time.Now(), pid, "")
	for _, l := range in.Lines {
		if _, err := fmt.Fprintln(w, p+l); err != nil {
			return fmt.Errorf("printing the log: %w", err)
		}
	}
	return nil
}

// Watch prints the engine's periodic lines until ctx ends or nobody reads them. Like the real one it
// is silent while nothing happens.
func (in *Instance) Watch(ctx context.Context, srv *serve.Server, w io.Writer, pid int) {
	tick := time.NewTicker(in.every)
	defer tick.Stop()
	flush := time.NewTicker(200 * time.Millisecond)
	defer flush.Stop()
	before, at := in.look(srv), time.Now()
	busy := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
			if !in.details.flush(w, in.Conf.Prefix(time.Now(), pid, "")) {
				return
			}
			continue
		case <-tick.C:
		}
		after := in.look(srv)
		if after.engines == nil {
			return
		}
		active := work(before.engines, after.engines)
		if active || busy {
			for _, l := range in.periodic(before, after, time.Since(at)) {
				if _, err := fmt.Fprintln(w, in.Conf.Prefix(time.Now(), pid, in.Conf.Engine.LogSource)+l); err != nil {
					return
				}
			}
		}
		before, at, busy = after, time.Now(), active
	}
}

// glance is what the periodic lines are made of.
type glance struct {
	engines []sim.State
	all     serve.EngineState
}

// look asks the engine on its own thread; without engines when the server has stopped.
func (in *Instance) look(srv *serve.Server) (g glance) {
	srv.Do(func(serve.Engine) { g = glance{in.Engine.States(), in.Engine.State()} })
	return g
}

// periodic words what happened between two glances.
func (in *Instance) periodic(before, after glance, elapsed time.Duration) []string {
	lines := []string{in.Conf.StatsLine(before.engines, after.engines, elapsed)}
	a, b := &after.all, &before.all
	for _, l := range []string{
		in.Conf.PrefixLine(after.engines),
		in.Conf.SpecLine(a.Drafted-b.Drafted, a.Accepted-b.Accepted, a.Drafts-b.Drafts, elapsed),
	} {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// work reports whether anything happened between two snapshots or is under way.
func work(before, after []sim.State) bool {
	for i, a := range after {
		if a.Running+a.Waiting > 0 || a.Stats.Tokens != before[i].Stats.Tokens {
			return true
		}
	}
	return false
}

// details collects a line per step on the engine's thread, for printing on another.
type details struct {
	mu    sync.Mutex
	lines []string
	lost  int

	states func() []sim.State // of the engines, on their thread
	ended  map[int]time.Duration
}

// maxLines bounds what waits to be printed.
const maxLines = 1 << 14

// add words a step. One that was planned while another ran took the time since that one's end.
func (d *details) add(engine int, b *sim.Batch, start, end time.Duration) {
	elapsed := end - max(start, d.ended[engine])
	d.ended[engine] = end
	usage := 0.0
	if list := d.states(); engine < len(list) {
		usage = list[engine].Usage()
	}
	line := engineconf.IterationLine(b, elapsed, usage)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) >= maxLines {
		d.lost++
		return
	}
	d.lines = append(d.lines, line)
}

// flush prints what was collected; false when nobody reads it. Nothing is collected by nil.
func (d *details) flush(w io.Writer, prefix string) bool {
	if d == nil {
		return true
	}
	d.mu.Lock()
	lines, lost := d.lines, d.lost
	d.lines, d.lost = nil, 0
	d.mu.Unlock()
	if len(lines) == 0 {
		return true
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(prefix)
		b.WriteString(l)
		b.WriteByte('\n')
	}
	if lost > 0 {
		fmt.Fprintf(&b, "%s%d more steps not printed\n", prefix, lost)
	}
	_, err := io.WriteString(w, b.String())
	return err == nil
}
