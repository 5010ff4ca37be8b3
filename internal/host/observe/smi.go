package observe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"spate/internal/host/probe"
)

// follow reads from one nvidia-smi that repeats itself: starting one for each look would take a good part of a core.
func (w *Watch) follow(ctx context.Context) {
	fate := w.fate(gpu)
	w.sources.Go(func() {
		if err := w.smi(ctx, fate); ctx.Err() == nil { // else it was ended
			w.keep(fate, nil, err)
		}
	})
}

// smi reads until the program ends, and says why it did.
func (w *Watch) smi(ctx context.Context, fate *Fate) error {
	gap := max(w.opt.Interval, 100*time.Millisecond) // the driver's own figures are no newer than that
	args := []string{"--query-gpu=" + probe.SMIQuery(), "--format=csv,noheader,nounits", "--loop-ms=" + strconv.FormatInt(gap.Milliseconds(), 10)}
	cmd := exec.CommandContext(ctx, w.opt.SMI, args...) //nolint:gosec // the user's own nvidia-smi, found on the path
	cmd.WaitDelay = timeout
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start nvidia-smi: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start nvidia-smi: %w", err)
	}
	paces := map[string]*pace{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		g, err := probe.ParseSMI(lines.Text())
		if err != nil {
			w.keep(fate, nil, err)
			continue
		}
		p := paces[g.Index]
		if p == nil {
			p = &pace{step: gap}
			paces[g.Index] = p
		}
		if at := w.opt.Clock(); p.due(at) {
			samples := gpuSamples([]probe.GPU{g})
			for i := range samples {
				samples[i].At = at
			}
			w.keep(fate, samples, nil)
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		return fmt.Errorf("nvidia-smi ended: %w %s", err, strings.TrimSpace(complaint.String()))
	}
	return errors.New("nvidia-smi ended")
}
