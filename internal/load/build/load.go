// Package build translates settings (package config) into what is sent and when: a workload's
// configuration and a schedule. bench sends the result to a server, predict to a simulated one, so both
// mean the same by the same flags. It opens nothing and computes no prompt.
package build

import (
	"fmt"
	"math"
	"time"

	"spate/internal/load/media"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
)

// Arrivals are when requests are due.
type Arrivals struct {
	Plan schedule.Plan
	Ramp *schedule.Ramp // of a ramp-up, nil without
	Text string         // one line for people
}

// NewArrivals plans n requests; 0 are as many as the time allows.
func NewArrivals(c *config.Load, n int) (*Arrivals, error) {
	a := &Arrivals{}
	seed, rate, burst := uint32(c.Seed), float64(c.RequestRate), float64(c.Burstiness)
	var err error
	switch {
	case c.RampUp != "":
		a.Ramp = &schedule.Ramp{Exponential: c.RampUp == config.RampExponential, From: float64(*c.RampStart), To: float64(*c.RampEnd)}
		a.Plan, err = schedule.Ramped(n, *a.Ramp, burst, seed)
		a.Text = fmt.Sprintf("%d requests, %s ramp from %d to %d per second", n, c.RampUp, *c.RampStart, *c.RampEnd)
	case len(c.Stages) > 0:
		stages := schedule.Stages(c.Stages)
		a.Plan, err = stages.Plan(burst, seed)
		a.Plan = a.Plan.First(n)
		a.Text = "stages " + stages.String()
	case math.IsInf(rate, 1) && c.MaxConcurrency != nil:
		a.Plan, err = schedule.Closed(*c.MaxConcurrency, n)
		a.Text = fmt.Sprintf("closed loop, %d at a time", *c.MaxConcurrency)
	case math.IsInf(rate, 1):
		a.Plan, err = schedule.Burst(n)
		a.Text = fmt.Sprintf("%d requests at once", n)
	case c.Pacing == config.PacingSlept:
		a.Plan, err = slept(n, rate, burst, seed)
		a.Text = rated(n, rate) + ", each gap slept after the request before"
	case n > 0:
		a.Plan, err = schedule.VLLM(n, rate, burst, seed)
		a.Text = rated(n, rate)
	default:
		a.Plan, err = schedule.Gamma(rate, burst, seed)
		a.Text = rated(n, rate)
	}
	if err != nil {
		return nil, err
	}
	if c.MaxConcurrency != nil {
		a.Plan = a.Plan.Capped(*c.MaxConcurrency)
	}
	if c.Duration > 0 {
		a.Plan = a.Plan.For(c.Duration)
		a.Text += fmt.Sprintf(", for %v", c.Duration)
	}
	return a, nil
}

// Planned are the arrivals of a run whose dataset gives n requests: at the dataset's own times where the settings say
// so, else at those the load asks for.
func Planned(c *config.Bench, n int, times func() ([]time.Duration, error)) (*Arrivals, error) {
	if !c.SelfTimed() {
		return NewArrivals(&c.Load, n)
	}
	list, err := times()
	if err != nil {
		return nil, fmt.Errorf("follow the trace: %w", err)
	}
	return Timed(&c.Load, list)
}

// Timed plans requests at the dataset's own times.
func Timed(c *config.Load, times []time.Duration) (*Arrivals, error) {
	p, err := schedule.Trace(times)
	if err != nil {
		return nil, err
	}
	a := &Arrivals{Plan: p, Text: fmt.Sprintf("%d requests at the times of the trace, over %v", len(times), times[len(times)-1].Round(time.Millisecond))}
	if c.MaxConcurrency != nil {
		a.Plan = a.Plan.Capped(*c.MaxConcurrency)
		a.Text += fmt.Sprintf(", %d at a time", *c.MaxConcurrency)
	}
	if c.Duration > 0 {
		a.Plan = a.Plan.For(c.Duration)
		a.Text += fmt.Sprintf(", for %v", c.Duration)
	}
	return a, nil
}

// slept is schedule.Slept, without end where n is 0.
func slept(n int, rate, burst float64, seed uint32) (schedule.Plan, error) {
	if n > 0 {
		return schedule.Slept(n, rate, burst, seed)
	}
	p, err := schedule.Slept(math.MaxInt, rate, burst, seed)
	p.N = 0
	return p, err
}

func rated(n int, rate float64) string {
	if n > 0 {
		return fmt.Sprintf("%d requests at %g per second", n, rate)
	}
	return fmt.Sprintf("%g requests per second", rate)
}

// Workload translates the dataset's settings. open opens its file; untokenized behaves as vLLM without a
// tokenizer.
func Workload(c *config.Bench, open func(path string) (workload.File, error), untokenized bool) workload.Config {
	d, p := &c.Dataset, c.Target.Backend.Protocol()
	w := workload.Config{
		Dataset: d.Name, N: c.Load.NumPrompts, Seed: uint64(c.Load.Seed), Path: d.Path, Open: open,
		IDs: c.Body.PromptTokenIDs, TakesIDs: p.IDs, Chat: c.Target.Backend.Chat(), Speech: p.Family == protocol.Audio,
		SkipTemplate: d.SkipChatTemplate, SkipTokenizer: untokenized, NoOversample: d.NoOversample, NoShuffle: d.DisableShuffle,
		Salt: d.Salt, NamePrefix: c.Load.RequestIDPrefix, Era: workload.Head, SelfTimed: c.SelfTimed(),
	}
	if w.N == 0 && !d.Kind().AllRows {
		w.N, w.Endless = 1000, true // bounded by time
	}
	w.Endless = w.Endless || c.Load.NumPrompts == 0 && (c.Load.Duration > 0 || len(c.Load.Stages) > 0)
	w.InDist, _ = workload.ParseDist(d.InputDist) // validated before; none for an empty one
	w.OutDist, _ = workload.ParseDist(d.OutputDist)
	if d.Joint != "" {
		w.Joint, _ = workload.ParseBuckets(d.Joint)
	}
	c.Fill(&w)
	w.HF.Whole = d.NoStream
	if w.Era == workload.V6 && c.Output.CutsConversations() {
		w.Least, w.LessSpecials = 1, c.Output.Compat == "sglang"
	}
	folders := media.New(d.Path, d.MediaPath)
	w.Media.Open = func(name string) (workload.File, error) {
		f, err := folders.Open(name)
		if err != nil {
			return nil, err // a nil *os.File would be a File
		}
		return f, nil
	}
	return w
}
