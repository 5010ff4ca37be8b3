package explain

import "fmt"

// belowCapacity: the server did all it was asked to, at once; its limit was not reached.
func belowCapacity(in *Input) *Cause {
	if in.RequestRate <= 0 || in.waits() || in.Growth >= 2 {
		return nil
	}
	if in.Rate > 0 {
		return rateKept(in)
	}
	return capReached(in)
}

// rateKept is for an open loop. The last request's latency is part of the duration, not of the rate.
func rateKept(in *Input) *Cause {
	kept := in.RequestRate / in.Rate
	if in.Prompts > 0 {
		kept *= 1 + in.E2EL.Mean/1000*in.Rate/float64(in.Prompts)
	}
	if kept < 0.93 {
		return nil
	}
	c := &Cause{
		Name: BelowCapacity, Kind: Headroom, Confidence: Low,
		Sentence: fmt.Sprintf("The server kept up with the %.4g requests per second that were sent; it can serve more, and the throughput shows the load, not the server's limit.", in.Rate),
		Try:      []string{"spate capacity, or a higher --request-rate, to find the rate at which latency begins to rise"},
	}
	if in.Varies {
		c.Sentence = fmt.Sprintf("The server kept up with the changing rate, %.4g requests per second on average; it can serve more, and the throughput shows the load, not the server's limit.", in.Rate)
		c.Try = []string{"spate capacity, or higher rates, to find the rate at which latency begins to rise"}
	}
	seen := len(in.Looks) > 0 || in.Server != nil && in.Server.Queue != nil
	// Growth compares the ends of a run; a rate that changed may have been too high in between.
	steady := in.Growth > 0 && !in.Varies || in.TTFT.Median > 0 && in.TTFT.P99 < 5*in.TTFT.Median
	switch {
	case seen && steady:
		c.Confidence = High
	case seen || steady:
		c.Confidence = Medium
	}
	c.say("finished per second over asked for, less the tail", kept, "", in.Source)
	if in.Growth > 0 {
		c.say("median TTFT of the last third over the first", in.Growth, "", in.Source)
	}
	in.sayWaiting(c)
	return c
}

// nearlyFull is the used share of the cache from which on there is little room for more requests.
const nearlyFull = 0.85

// capReached is for a closed loop or a burst: everything offered ran at once.
func capReached(in *Input) *Cause {
	offered := float64(in.Cap)
	if in.Burst {
		offered = float64(in.Prompts)
	}
	if offered == 0 || len(in.Looks) == 0 || in.running() < 0.5*offered {
		return nil
	}
	for _, l := range in.Looks {
		if l.KV >= nearlyFull {
			return nil // a few more would have waited
		}
	}
	c := &Cause{
		Name: BelowCapacity, Kind: Headroom, Confidence: Medium,
		Sentence: fmt.Sprintf("All %.0f requests the client kept in flight ran at once, without a queue: more of them would raise the throughput.", offered),
		Try:      []string{"spate capacity, or a higher --max-concurrency, to find where throughput stops growing"},
	}
	if in.Burst {
		c.Sentence = fmt.Sprintf("All %.0f requests that were sent at once ran at once, without a queue: more of them would raise the throughput.", offered)
	}
	c.say("running, mean", in.running(), "requests", in.runningFrom())
	in.sayWaiting(c)
	return c
}

// waits reports whether requests queued at the server to an extent that matters.
func (in *Input) waits() bool {
	if s := in.Server; s != nil && s.Queue != nil && in.TTFT.Mean > 0 && s.Queue.MeanMS > 0.5*in.TTFT.Mean && s.Queue.MeanMS > 0.05*in.E2EL.Mean {
		return true
	}
	if len(in.Looks) > 0 {
		return in.meanWaiting() >= max(1, 0.05*in.running())
	}
	if in.Server != nil && in.Server.Queue != nil {
		return false
	}
	// Nobody looked at the queue. One shows in figures when requests spend most of their time before a token.
	return in.E2EL.Mean > 0 && in.TTFT.Mean > 0.5*in.E2EL.Mean && in.MeanOut >= 16
}

func (in *Input) meanWaiting() float64 {
	sum := 0.0
	for _, l := range in.Looks {
		sum += l.Waiting
	}
	return over(sum, float64(len(in.Looks)))
}

// running is how many requests the server worked on, or else how many the client had in flight.
func (in *Input) running() float64 {
	if len(in.Looks) == 0 {
		return in.InFlight
	}
	sum := 0.0
	for _, l := range in.Looks {
		sum += l.Running
	}
	return sum / float64(len(in.Looks))
}

func (in *Input) runningFrom() string {
	if len(in.Looks) == 0 {
		return in.Source + ", by Little's law"
	}
	return in.LooksFrom
}

func (in *Input) sayWaiting(c *Cause) {
	if len(in.Looks) > 0 {
		c.say("waiting, mean", in.meanWaiting(), "requests", in.LooksFrom)
	}
}

func (in *Input) sayQueue(c *Cause) {
	if in.Server != nil && in.Server.Queue != nil {
		c.say("mean time in the server's queue", in.Server.Queue.MeanMS, "ms", in.ServerFrom)
	}
}

func (c *Cause) say(what string, value float64, unit, from string) {
	c.Evidence = append(c.Evidence, Evidence{What: what, Value: value, Unit: unit, From: from})
}

// over is a/b, 0 of nothing.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
