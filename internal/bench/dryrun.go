package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"spate/internal/load/lengths"
	"spate/internal/load/workload"
	"spate/internal/send/client"
)

// previewFor bounds how long a dry run makes prompts to see their lengths.
const previewFor = 3 * time.Second

// DryRun prints what Run would do: requests, tokens, arrival schedule and the least time it takes. It
// asks the server for its model and tokenizer where the settings leave them open, and sends no
// request.
func DryRun(ctx context.Context, job Job) error {
	s := &session{Job: job}
	defer s.close()
	ctx, prepared := s.preparing(ctx)
	defer prepared()
	s.newTenants()
	if _, err := io.WriteString(s.Stdout, s.heading); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	for _, t := range s.tenants {
		lengths, err := t.rehearse(ctx)
		if err != nil {
			return t.err(err)
		}
		if err := t.printPlan(s.Stdout, lengths); err != nil {
			return err
		}
		s.notes = nil // shown
	}
	return nil
}

// rehearse finds out what would be sent.
func (t *tenant) rehearse(ctx context.Context) (lengths workload.Plan, err error) {
	if t.target, err = newTarget(t.Config, t.Getenv); err != nil {
		return lengths, err
	}
	if t.control, err = client.NewControl(t.target.client); err != nil {
		return lengths, err
	}
	if t.Config.Model.ID == "" {
		if err := t.discover(ctx); err != nil && ctx.Err() != nil {
			return lengths, err
		} else if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			t.note("the model is unknown (%s): the plan is made without its tokenizer; --model or --tokenizer names one", why)
		}
	}
	t.target.choose()
	if t.tokens, err = t.planTokens(ctx); err != nil {
		return lengths, err
	}
	wcfg := t.workloadConfig()
	if _, err = t.serverWords(ctx, &wcfg); err != nil {
		return lengths, err
	}
	looking, enough := context.WithTimeout(ctx, previewFor)
	defer enough()
	lengths, err = workload.Preview(ctx, wcfg, t.tokens.workload(), t.tokens.tmpl, looking.Done())
	if err != nil {
		return lengths, err
	}
	stream, err := workload.New(wcfg, t.tokens.workload(), t.tokens.tmpl)
	if err != nil {
		return lengths, err
	}
	t.load = &load{source: t.requests(stream, t.Config.Load.Seed), expect: t.Config.Load.NumPrompts}
	return lengths, t.plan(t.load)
}

// planTokens is the tokenizer of a plan: a model that nobody named has none.
func (t *tenant) planTokens(ctx context.Context) (*tokens, error) {
	if t.target.model == "" && t.Config.Model.Tokenizer == "" {
		return &tokens{skipped: t.Config.Model.SkipTokenizerInit}, nil
	}
	return t.loadTokens(ctx)
}

func (t *tenant) printPlan(w io.Writer, p workload.Plan) error {
	var b strings.Builder
	c := t.Config
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s %s\n", label, fmt.Sprintf(format, args...))
	}
	b.WriteString(t.title + "\n")
	row("target", "%s%s, backend %s, model %s", hostOf(t.target.client.BaseURLs[0]), c.Target.Endpoint, t.target.backend, cmp.Or(t.target.served, "unknown"))
	row("dataset", "%s, seed %d", c.Dataset.Name, c.Load.Seed)
	row("load", "%s", t.load.text)
	if t.load.expect > 0 && p.Sampled {
		all := func(l lengths.List) float64 { return l.Mean() * float64(t.load.expect) }
		row("requests", "%d", t.load.expect)
		row("input tokens", "about %.4g in all; of the first %d: %s", all(p.In), p.Requests, spread(p.In))
		row("output tokens", "about %.4g in all; of the first %d: %s", all(p.Out), p.Requests, spread(p.Out))
	} else if t.load.expect > 0 {
		row("requests", "%d", p.Requests)
		row("input tokens", "%d in all; %s", p.In.Total(), spread(p.In))
		row("output tokens", "%d in all; %s", p.Out.Total(), spread(p.Out))
	} else {
		row("requests", "as many as the time allows")
		row("input tokens", "of the first %d: %s", p.Requests, spread(p.In))
		row("output tokens", "of the first %d: %s", p.Requests, spread(p.Out))
	}
	if n := c.Load.NumWarmups; n > 0 {
		row("warm-up", "%d requests before", n)
	} else if d := c.Load.WarmupDuration; d > 0 {
		row("warm-up", "%v before", d)
	}
	t.printSchedule(row)
	for _, n := range append(t.notes, p.Notes...) {
		row("note", "%s", n)
	}
	_, err := io.WriteString(w, c.Scrub(b.String()))
	return err
}

func spread(l lengths.List) string {
	return fmt.Sprintf("shortest %d, mean %.1f, median %d, p99 %d, longest %d", l.At(0), l.Mean(), l.At(0.5), l.At(0.99), l.At(1))
}

// printSchedule shows when requests are due, as a bar per second or wider.
func (t *tenant) printSchedule(row func(string, string, ...any)) {
	sum := t.load.plan.Summary()
	switch {
	case sum.Closed && t.load.plan.Until > 0:
		row("expected time", "%v and the time of the last requests", t.load.plan.Until)
		return
	case sum.Closed:
		row("expected time", "until %d requests are done, %d at a time", sum.Count, t.load.plan.Slots)
		return
	}
	if sum.Sampled {
		row("note", "the schedule is extended from its first requests")
	}
	row("first due", "%v", sum.First.Round(time.Millisecond))
	rate := ""
	if sum.MeanRate > 0 { // all at once have none
		rate = fmt.Sprintf(", %.2f per second", sum.MeanRate)
	}
	row("last due", "%v (%d requests%s)", sum.Last.Round(time.Millisecond), sum.Count, rate)
	row("expected time", "%v and the time of the last requests", max(sum.Last, t.load.plan.Until).Round(time.Millisecond))
	most := 0
	for _, n := range sum.PerBar {
		most = max(most, n)
	}
	for i, n := range sum.PerBar {
		row(fmt.Sprintf("  from %v", (time.Duration(i)*sum.Bucket).Round(time.Second/10)), "%-40s %d", strings.Repeat("#", (n*40+most-1)/max(most, 1)), n)
	}
}
