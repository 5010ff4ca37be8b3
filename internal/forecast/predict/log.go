package predict

import (
	"fmt"
	"io"
	"time"

	"spate/internal/forecast/profile"
	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
)

// Log writes what the simulated engine would log while it serves the load: its start, where model and GPU
// are known, and one line for every step as vLLM words them.
func (l *Load) Log(p *profile.Profile, seed uint64, w io.Writer) error {
	if p.Engine.Known() {
		s := p.Engine.Settings()
		s.Blocks = p.Cost.Blocks
		conf, err := s.Resolve()
		if err != nil {
			return fmt.Errorf("starting the server of profile %s: %w", p.Name, err)
		}
		for _, line := range conf.StartLines() {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return fmt.Errorf("writing the log: %w", err)
			}
		}
	}
	server, err := cluster.New(p.Cluster(&p.Cost, seed))
	if err != nil {
		return err
	}
	var failed error
	to := l.to(&p.Cost)
	to.Trace = func(engine int, b *sim.Batch, took time.Duration) {
		if failed == nil {
			_, failed = fmt.Fprintln(w, engineconf.IterationLine(b, took, server.Engine(engine).State().Usage()))
		}
	}
	if _, err := server.Run(to); err != nil {
		return fmt.Errorf("predicting with profile %s: %w", p.Name, err)
	}
	if failed != nil {
		return fmt.Errorf("writing the log: %w", failed)
	}
	return nil
}
