package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"

	"spate/internal/bench"
	"spate/internal/console"
	"spate/internal/fleet/link"
	"spate/internal/settings/config"
	"spate/internal/token/tokenizer"
)

// Drive has a load sent by the workers of a fleet.
type Drive = func(context.Context, bench.DriveInput) (bench.Driven, error)

// OpenFor finds the workers that are to send the load of a run, or starts them here. end lets go of them.
func OpenFor(ctx context.Context, p console.Process, cfg *config.Bench, note func(format string, args ...any)) (_ Drive, end func(), err error) {
	opt := Options{
		Workers: cfg.Fleet.Workers, Version: p.Version, Host: link.HostName(), Note: note, Places: tokenizer.PlacesFrom(p.Getenv, p.Home()),
	}
	if cfg.Fleet.Join != "" {
		j, err := link.ReadJoin(cfg.Fleet.Join, p.Getenv(link.TokenVariable))
		if err != nil {
			return nil, nil, fmt.Errorf("--fleet: %w", err)
		}
		opt.Join = &j
	} else if err := fleetHere(p, &opt); err != nil {
		return nil, nil, err
	}
	f, err := Open(ctx, opt)
	if err != nil {
		if opt.Dir != "" {
			err = errors.Join(err, os.RemoveAll(opt.Dir))
		}
		return nil, nil, err
	}
	return f.Drive(cfg), func() {
		f.Close()
		if opt.Dir != "" && f.Delivered() {
			_ = os.RemoveAll(opt.Dir) // a folder in the cache
		}
	}, nil
}

// fleetHere makes a place for a broker and workers on this host.
func fleetHere(p console.Process, opt *Options) error {
	root, err := link.Folder(p.Getenv)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet: %w", err)
	}
	if opt.Dir, err = os.MkdirTemp(root, "local-"); err != nil {
		return fmt.Errorf("make the folder of the fleet: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	opt.Program, opt.Env = []string{self, "worker"}, os.Environ()
	return nil
}
