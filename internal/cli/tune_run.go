package cli

import (
	"context"
	"errors"

	"spate/internal/search/tune"
	"spate/internal/trial/executor"
)

// measured searches with real servers.
func (h *hunted) measured(ctx context.Context) error {
	ctx, stop, interrupted, done := interrupts(ctx, h.p)
	defer done()
	exec, err := h.p.launched(h.p.measured(stop))
	if err != nil {
		return err
	}
	exec.Patience = settleFor
	d, err := h.open(h.folder())
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // everything in it is on disk
	say(h.p.Stderr, "search in %s\n", d.Dir)
	r := &tune.Live{
		File: h.f, Folder: d, Executor: exec, Resolve: h.p.resolve, Self: exec.Guard[0], GPUs: h.o.gpus, UsedOK: h.o.usedOK, NoGPU: executor.NoGPU,
	}
	view := h.view()
	stopped, err := tune.Run(ctx, d, h.tuner, r, tune.Options{Prior: h.prior(ctx), Show: view.show, Stop: stop})
	err = errors.Join(err, exec.Close(context.WithoutCancel(ctx)))
	if stopped || interrupted() {
		say(h.p.Stderr, "%d steps are kept; go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		return exit{ExitInterrupted}
	}
	if err != nil {
		if len(d.History) > 0 {
			say(h.p.Stderr, "%d steps are kept; once that is set right, go on with: spate tune %s --output-dir %s\n", len(d.History), h.path, d.Dir)
		}
		return err
	}
	return h.conclude(ctx, d, "")
}
