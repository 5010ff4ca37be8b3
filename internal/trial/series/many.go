package series

import (
	"context"

	"spate/internal/console"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/trial"
)

// This file is what commands that make many runs share with `spate bench`.

// Resolver reads flags of bench as `spate bench` would.
func Resolver(p console.Process) func(args []string) (*config.Bench, error) {
	return func(args []string) (*config.Bench, error) {
		r, err := flags.ParseOne(args, flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "bench-" + trial.NewID() + "-"}, "this command")
		if err != nil {
			return nil, err
		}
		return r.Bench, nil
	}
}

// KeepRuns puts runs into the store, unless the user or the settings of their flags want none. Those that are there
// already stay as they are.
func KeepRuns(ctx context.Context, p console.Process, no bool, args []string, entries []result.Entry) {
	if cfg, err := Resolver(p)(args); err == nil && !no {
		store.KeepRuns(ctx, p, cfg, entries)
	}
}
