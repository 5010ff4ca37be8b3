package report

import (
	"fmt"
	"strings"

	"spate/internal/figure"
	"spate/internal/host/observe"
	"spate/internal/judge/explain"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// observed shows what the server, its GPUs and this host did during the measured part.
func observed(s *sheet, run *result.Run) {
	o := run.Observed
	if o == nil {
		return
	}
	serverLevels(s, "Server during the run", o.Server)
	if f := o.FrontEnd; f != nil {
		s.fact("mean TTFT", firstToken(f))
	}
	serverLevels(s, "Server during the run, by its log", o.Log)
	gpus(s, o)
	money(s, o)
	failing := false
	for _, f := range o.Sources {
		if f.Failed == 0 {
			continue
		}
		if !failing {
			s.section("Looks that failed")
		}
		failing = true
		s.fact(f.Source, fmt.Sprintf("%d of %d: %s", f.Failed, f.Failed+f.Samples, escape.Clip(harmless(f.Error), 2*maxColumns)))
	}
}

// firstToken is the client's mean TTFT beside the server's parts of it.
func firstToken(f *observe.FrontEnd) string {
	client, queue, prefill := figure.Rounded(f.ClientMS), figure.Rounded(f.QueueMS), figure.Rounded(f.PrefillMS)
	rest := f.Rest()
	if rest == nil {
		return fmt.Sprintf("%s ms; the server's means are over other requests: queue %s, prefill %s", client, queue, prefill)
	}
	return fmt.Sprintf("%s ms: queue %s, prefill %s, network and front end %s", client, queue, prefill, figure.Rounded(*rest))
}

func serverLevels(s *sheet, title string, v *observe.ServerSide) {
	if v == nil || v.Running == nil {
		return
	}
	s.section(title, "mean", "min", "max")
	level := func(label string, l *observe.Level, show func(float64) string) {
		if l != nil {
			s.row(label, show(l.Mean), show(l.Min), show(l.Max))
		}
	}
	level("running requests", v.Running, figure.Rounded)
	level("waiting requests", v.Waiting, figure.Rounded)
	level("KV cache used", v.KVUsage, percent)
	level("prompt tokens/s", v.PromptRate, figure.Rounded)
	level("output tokens/s", v.GenerationRate, figure.Rounded)
	if v.FullShare != nil && *v.FullShare > 0 {
		s.fact("cache full, requests waiting", percent(*v.FullShare)+" of the samples")
	}
}

func gpus(s *sheet, o *observe.Summary) {
	if len(o.GPUs) == 0 {
		return
	}
	s.section("GPUs", "power W", "max", "in use", "memory GB", "degrees")
	for i := range o.GPUs {
		g := &o.GPUs[i]
		cells := make([]string, 5)
		put := func(at int, l *observe.Level, scale float64) {
			if l != nil {
				cells[at] = figure.Rounded(l.Mean * scale)
			}
		}
		put(0, g.Power, 1)
		if g.Power != nil {
			cells[1] = figure.Rounded(g.Power.Max)
		}
		if g.Utilization != nil {
			cells[2] = percent(g.Utilization.Mean)
		}
		put(3, g.MemoryUsed, 1e-9)
		put(4, g.Temperature, 1)
		s.row(g.Name, cells...)
	}
	if e := o.Energy; e != nil {
		s.fact("energy", fmt.Sprintf("%s J by %d of %d GPUs: %s J per output token, %s kJ per million tokens",
			figure.Rounded(e.Joules), e.GPUs, len(o.GPUs), figure.Rounded(e.PerOutputToken), figure.Rounded(e.PerMillion/1000)))
	}
}

func money(s *sheet, o *observe.Summary) {
	c := o.Cost
	if c == nil {
		return
	}
	s.section("Cost")
	s.fact("at "+figure.Rounded(c.PerHour)+" per hour", fmt.Sprintf("%s per million tokens, %s per million output tokens", figure.Rounded(c.PerMillion), figure.Rounded(c.PerMillionOutput)))
}

// shownCauses is how many explanations stand in a report; the command tells all, with evidence.
const shownCauses = 3

// limits says in a few lines what limited the run.
func limits(s *sheet, run *result.Run, shown int) {
	if run.Summary.Completed == 0 || run.Summary.Pooling != nil { // explanations are of generating
		return
	}
	r := result.FromRun(run)
	s.section("What limited it")
	for i, c := range explain.Brief(&r) {
		if i == shown {
			break
		}
		words := c.Sentence
		if c.Confidence != "" {
			words = strings.ToUpper(string(c.Confidence[:1])) + string(c.Confidence[1:]) + " confidence. " + words
		}
		s.fact(c.Name, words)
	}
}
