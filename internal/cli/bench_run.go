package cli

import (
	"context"

	"spate/internal/config"
)

// runBench measures one server with the given settings and returns the exit code.
func runBench(_ context.Context, p Process, cfg *config.Bench) int {
	say(p.Stderr, "spate bench: not wired yet (%s, dataset %s)\n", cfg.Target.Backend, cfg.Dataset.Name)
	return ExitFailed
}
