package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

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
	if len(s.Config.Tenants) > 0 {
		return s.dryRunTenants(ctx)
	}
	ctx, prepared := s.preparing(ctx)
	defer prepared()
	lengths, err := s.rehearse(ctx)
	if err != nil {
		return err
	}
	return s.printPlan(s.Stdout, "Plan (nothing was sent)", lengths)
}

// rehearse finds out what would be sent.
func (s *session) rehearse(ctx context.Context) (lengths workload.Plan, err error) {
	if s.target, err = newTarget(s.Config, s.Getenv); err != nil {
		return lengths, err
	}
	if s.control, err = client.NewControl(s.target.client); err != nil {
		return lengths, err
	}
	if s.Config.Model.ID == "" {
		if err := s.discover(ctx); err != nil && ctx.Err() != nil {
			return lengths, err
		} else if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			s.note("the model is unknown (%s): the plan is made without its tokenizer; --model or --tokenizer names one", why)
		}
	}
	s.target.choose()
	if s.tokens, err = s.planTokens(ctx); err != nil {
		return lengths, err
	}
	wcfg := s.workloadConfig()
	if _, err = s.serverWords(ctx, &wcfg); err != nil {
		return lengths, err
	}
	looking, enough := context.WithTimeout(ctx, previewFor)
	defer enough()
	lengths, err = workload.Preview(ctx, wcfg, s.tokens.workload(), s.tokens.tmpl, looking.Done())
	if err != nil {
		return lengths, err
	}
	stream, err := workload.New(wcfg, s.tokens.workload(), s.tokens.tmpl)
	if err != nil {
		return lengths, err
	}
	s.load = &load{source: &requests{Stream: stream}, expect: s.Config.Load.NumPrompts}
	return lengths, s.plan(s.load)
}

// planTokens is the tokenizer of a plan: a model that nobody named has none.
func (s *session) planTokens(ctx context.Context) (*tokens, error) {
	if s.target.model == "" && s.Config.Model.Tokenizer == "" {
		return &tokens{skipped: s.Config.Model.SkipTokenizerInit}, nil
	}
	return s.loadTokens(ctx)
}

func (s *session) printPlan(w io.Writer, title string, p workload.Plan) error {
	var b strings.Builder
	c := s.Config
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-18s %s\n", label, fmt.Sprintf(format, args...))
	}
	b.WriteString(title + "\n")
	row("target", "%s%s, backend %s, model %s", hostOf(s.target.client.BaseURLs[0]), c.Target.Endpoint, s.target.backend, cmp.Or(s.target.served, "unknown"))
	row("dataset", "%s, seed %d", c.Dataset.Name, c.Load.Seed)
	row("load", "%s", s.load.text)
	if s.load.expect > 0 && p.Sampled {
		all := func(l workload.Lengths) float64 { return l.Mean() * float64(s.load.expect) }
		row("requests", "%d", s.load.expect)
		row("input tokens", "about %.4g in all; of the first %d: %s", all(p.In), p.Requests, spread(p.In))
		row("output tokens", "about %.4g in all; of the first %d: %s", all(p.Out), p.Requests, spread(p.Out))
	} else if s.load.expect > 0 {
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
	s.printSchedule(row)
	for _, n := range append(s.notes, p.Notes...) {
		row("note", "%s", n)
	}
	_, err := io.WriteString(w, c.Scrub(b.String()))
	return err
}

func spread(l workload.Lengths) string {
	return fmt.Sprintf("shortest %d, mean %.1f, median %d, p99 %d, longest %d", l.At(0), l.Mean(), l.At(0.5), l.At(0.99), l.At(1))
}

// printSchedule shows when requests are due, as a bar per second or wider.
func (s *session) printSchedule(row func(string, string, ...any)) {
	sum := s.load.plan.Summary()
	switch {
	case sum.Closed && s.load.plan.Until > 0:
		row("expected time", "%v and what the last requests take", s.load.plan.Until)
		return
	case sum.Closed:
		row("expected time", "until %d requests are done, %d at a time", sum.Count, s.load.plan.Slots)
		return
	}
	if sum.Sampled {
		row("note", "the schedule is extended from its first requests")
	}
	row("first due", "%v", sum.First.Round(time.Millisecond))
	row("last due", "%v (%d requests, %.2f per second)", sum.Last.Round(time.Millisecond), sum.Count, sum.MeanRate)
	row("expected time", "%v and what the last requests take", max(sum.Last, s.load.plan.Until).Round(time.Millisecond))
	most := 0
	for _, n := range sum.PerBar {
		most = max(most, n)
	}
	for i, n := range sum.PerBar {
		row(fmt.Sprintf("  from %v", (time.Duration(i)*sum.Bucket).Round(time.Second/10)), "%-40s %d", strings.Repeat("#", (n*40+most-1)/max(most, 1)), n)
	}
}
