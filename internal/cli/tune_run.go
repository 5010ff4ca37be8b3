package cli

import (
	"context"
	"errors"

	"spate/internal/console"
	"spate/internal/search/tune"
	"spate/internal/trial/executor"
	"spate/internal/trial/series"
)

// measured searches with real servers.
func (h *hunted) measured(ctx context.Context) error {
	sig := h.p.Draining(ctx)
	defer sig.Done()
	ctx, stop := sig.Context, sig.Stop
	exec, err := launched(h.p, measured(h.p, stop))
	if err != nil {
		return err
	}
	exec.Patience = settleFor
	d, err := h.open(h.folder())
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // everything in it is on disk
	h.p.Say("search in %s\n", d.Dir)
	r := &tune.Live{
		File: h.f, Folder: d, Executor: exec, Resolve: series.Resolver(h.p), Self: exec.Guard[0], GPUs: h.o.gpus, UsedOK: h.o.usedOK, NoGPU: executor.NoGPU,
	}
	stopped, err := tune.Run(ctx, d, h.tuner, r, tune.Options{Prior: h.prior(ctx), Show: h.view().Show, Stop: stop})
	err = errors.Join(err, exec.Close(context.WithoutCancel(ctx)))
	if stopped || sig.Was() {
		h.p.Say("%d steps are kept; go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		return console.Exit(ExitInterrupted)
	}
	if err != nil {
		if len(d.History) > 0 {
			h.p.Say("%d steps are kept; once that is set right, go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		}
		return err
	}
	return h.conclude(ctx, d, "")
}

// view shows the search on standard error.
func (h *hunted) view() *tune.View {
	return &tune.View{File: h.f, W: h.p.Stderr, TTY: h.p.View("").TTY}
}

// conclude prints what the search came to, and writes its files into the folder.
func (h *hunted) conclude(ctx context.Context, d *tune.Folder, predicted string) error {
	r, err := tune.NewReport(h.tuner, d, predicted)
	if err != nil {
		return err
	}
	if h.o.dir != "" || predicted == "" {
		winner, err := r.SaveAll(d.Dir)
		if err != nil {
			return err
		}
		h.p.Say("reports are in %s; the winner as a command, a systemd unit, a compose file and Helm values in %s\n", d.Dir, winner)
	}
	for _, path := range h.o.outputs {
		if err := r.Save(path); err != nil {
			return err
		}
		h.p.Say("wrote %s\n", path)
	}
	if predicted == "" && len(r.Entries()) > 0 {
		series.KeepRuns(ctx, h.p, h.o.noStore, h.f.Workloads[0].Args, r.Entries())
	}
	if h.o.json {
		return h.p.JSON(r.Outcome)
	}
	return r.WriteText(h.p.Stdout)
}
