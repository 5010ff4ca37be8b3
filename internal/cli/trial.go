package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"spate/internal/console"
	"spate/internal/fleet/coordinator"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/launch"
	"spate/internal/settings/config"
	"spate/internal/trial"
	"spate/internal/trial/executor"
	"spate/internal/trial/series"
)

// This file chooses who makes the runs of a command, and what is said of them.

// settleFor is how long what an earlier sitting left behind may take to be gone: a killed spate's guard ends its
// server, and the driver frees its memory, within seconds.
const settleFor = 20 * time.Second

// measured makes runs on servers, each as `spate bench` does; stop ends them.
func measured(p Process, stop <-chan struct{}) *executor.Measured {
	m := &executor.Measured{
		Version: Version, Getenv: p.Getenv, Home: p.Home(), ReadFile: p.ReadFile, Stderr: p.Stderr, View: p.View, Stop: stop,
		Note: p.Note, Show: series.Printer(p),
	}
	m.Fleet = func(ctx context.Context, cfg *config.Bench) (executor.Drive, func(), error) {
		return coordinator.OpenFor(ctx, p, cfg, func(format string, args ...any) { m.Note("fleet: "+format, args...) })
	}
	return m
}

// launched makes runs on servers that it starts. What protects them is said once.
func launched(p Process, m *executor.Measured) (*executor.Launched, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	said := false
	return &executor.Launched{Measured: m, Guard: []string{self, guardName}, Ready: func(srv *launch.Server) {
		if !said {
			said = true
			sayGuarded(p, srv)
		}
	}}, nil
}

// predicted makes runs in virtual time. Notes would come again for each of them, and are left out.
func predicted(p Process, prof *profile.Profile) trial.Executor {
	local := predict.On(p)
	local.Note = nil
	return &executor.Predicted{Profile: prof, Tool: versionText(), Local: local}
}

// executors choose who makes the runs of `spate bench`.
type executors struct{ Process }

// Measured implements series.Executors.
func (p executors) Measured(s series.Sitting) series.Runner { return p.measured(s) }

func (p executors) measured(s series.Sitting) *executor.Measured {
	m := measured(p.Process, s.Stop)
	m.Stdout, m.Stderr, m.View, m.Show, m.Hold = s.Stdout, s.Stderr, s.View, s.Show, s.Hold
	m.Note = func(format string, args ...any) { console.Say(s.Stderr, format+"\n", args...) }
	return m
}

// Launched implements series.Executors.
func (p executors) Launched(s series.Sitting, ready func()) (trial.Executor, error) {
	l, err := announced(p.Process, p.measured(s))
	if err != nil {
		return nil, err
	}
	told := l.Ready
	l.Ready = func(srv *launch.Server) { ready(); told(srv) }
	return l, nil
}
