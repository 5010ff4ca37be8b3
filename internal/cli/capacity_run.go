package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/search/capacity"
	"spate/internal/trial"
	"spate/internal/trial/series"
)

// hunt is a search under way.
type hunt struct {
	p       Process
	o       *capacityOptions
	profile *profile.Profile // nil: measured, not predicted
	prober  *capacity.Prober
	said    bool // the head of the table was printed
}

// run makes probes until the search is over.
func (h *hunt) run(ctx context.Context) error {
	sig := h.p.Draining(ctx)
	defer sig.Done()
	ctx, stop := sig.Context, sig.Stop
	var exec trial.Executor = measured(h.p, stop)
	if h.profile != nil {
		exec = predicted(h.p, h.profile)
	}
	r := h.prober
	r.Executor, r.Stop, r.Took = exec, stop, h.take
	h.p.Say("search in %s\n", r.Work.Dir)
	stopped, err := r.Run(ctx)
	switch {
	case stopped:
		h.p.Say("%d probes are kept; go on with: spate capacity --resume %s\n", r.Search.Probes(), r.Work.Dir)
		return console.Exit(ExitInterrupted)
	case err != nil:
		h.p.Say("go on with: spate capacity --resume %s\n", r.Work.Dir)
		if isUsage(err) {
			return console.Usage("spate capacity", err)
		}
		return err
	}
	h.keep(ctx)
	return h.conclude()
}

// take tells the user of a probe.
func (h *hunt) take(obs *capacity.Observation, earlier bool) {
	w := h.p.Stdout
	if h.o.json {
		w = h.p.Stderr
	}
	if !h.said {
		h.said = true
		console.Say(w, "%s", h.prober.Search.Head())
	}
	label, remark := "", ""
	if h.profile != nil {
		label = result.PredictedLabel
	}
	if earlier {
		remark = "(earlier)"
	}
	console.Say(w, "%s", h.prober.Search.Row(obs, label, remark))
}

// conclude prints the answer.
func (h *hunt) conclude() error {
	a := h.prober.Search.Answer()
	objectives := h.o.search.Objectives
	if last := objectives[len(objectives)-1]; last.Text == capacity.DefaultErrors && !strings.Contains(strings.ToLower(h.o.slo), "error") {
		a.Notes = append(a.Notes, capacity.DefaultErrors+" is an objective, too, since --slo has none for errors; errors<0.1% in --slo sets another one")
	}
	if h.profile != nil {
		a.Notes = append(a.Notes, "predicted by the simulator with profile "+h.profile.Caption()+"; no server was measured")
	} else if n, of := capacity.Enough(objectives); n > 0 && a.Smallest() < n {
		a.Notes = append(a.Notes, fmt.Sprintf("%s is bounded by %d requests or more, and some probes had %d: --num-prompts or --probe-time makes them longer", of, n, a.Smallest()))
	}
	if h.o.json {
		if err := h.p.JSON(&a); err != nil {
			return err
		}
	} else {
		h.p.Print("%s", a.Text())
		h.p.Say("every probe is in %s\n", h.prober.Work.Dir)
	}
	switch low := float64(a.Load); {
	case low == 0:
		return console.Exit(ExitUnmet)
	case low < h.o.atLeast:
		h.p.Say("spate capacity: --at-least %g %s is not shown: %s\n", h.o.atLeast, h.o.search.By.Unit(), a.Sentence)
		return console.Exit(ExitUnmet)
	}
	return nil
}

// keep puts measured probes into the store.
func (h *hunt) keep(ctx context.Context) {
	if h.profile != nil {
		return
	}
	var entries []result.Entry
	for _, l := range h.prober.Search.Answer().Levels {
		for _, o := range slices.Concat(l.Probes, l.Left) {
			if run, err := result.Open(o.Run); err == nil {
				entries = append(entries, result.FromRun(run))
			}
		}
	}
	series.KeepRuns(ctx, h.p, h.o.noStore, h.prober.Args, entries)
}
