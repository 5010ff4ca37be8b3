package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
)

// This file holds the checks on the client and the load it made; server.go those on the server and
// its answers. Lags are judged against what was measured: 2 ms of lag ruins an inter-token latency
// of 5 ms and does nothing to a first token after 800 ms.

// A lag bends a figure when it is above this share of it, and ruins it above the other.
const (
	lagBends = 0.10
	lagRuins = 0.50
)

// grain is the shortest time the figures of this run resolve, in ms: the median gap between chunks, or the median TTFT
// where every answer was one chunk. A median gap of 0 means that most chunks were read together with the one before.
// A client that reads late does that, so TTFT must not excuse it; the mean gap is the same however late it reads.
func grain(s *metrics.Summary) float64 {
	gaps := &s.Streaming.ITLNoRole
	switch {
	case gaps.N == 0:
		return s.TTFT.Median
	case gaps.Median == 0:
		return gaps.Mean
	}
	return gaps.Median
}

// What is said of a percentile must hold of what was sampled from, not of the sample: the p99 of 30 requests is the
// latest of them, and one late request in 30 is no sign that one in a hundred is late. So lags are judged by what their
// p99 is above, in 97.5 of 100 cases for requests and 99 of 100 for lags sampled beside them, and late requests by the
// lower end of their share's interval.
func sureP99(d metrics.Dist) float64 {
	q, _ := d.At(99)
	if q.Low != nil {
		return *q.Low
	}
	return q.Value
}

// A gap bends a run when it is longer than this, and longer than a thousandth of the run up to a second; it ruins it
// above the other, or a tenth of the run.
const (
	gapBends = 100.0 // ms
	gapRuins = 1000.0
)

// clientGap judges the longest time in which the client did nothing at all: stopped, frozen, or without a processor.
func clientGap(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("Pauses of the whole client were not measured.")
	}
	gap, run := call.Millis(in.Self.Gap), 1000*in.Summary.DurationS
	bound := math.Min(gapRuins, math.Max(gapBends, 0.001*run))
	return graded(gap, "ms", bound, math.Max(gapRuins, 0.1*run),
		fmt.Sprintf("The client was never paused for long: %.0f ms at most.", gap),
		fmt.Sprintf("the whole client was paused for %.0f ms: it sent and read nothing in that time.", gap),
		"find out what stopped it (a signal, a frozen container, a host that sleeps, other work on its cores), and repeat the run")
}

// sendLag judges how late requests left: in an open loop p99, against the latency they were to measure. In a closed
// loop no moment was promised: a late request only leaves its slot empty, and latency is counted from its sending.
func sendLag(in *Input) Finding {
	s := &in.Summary
	if s.Clocks.DispatchLag.N == 0 {
		return unmeasured("No request was dispatched, so there is no send lag.")
	}
	if !in.Settings.OpenLoop {
		return emptySlots(s)
	}
	lag := math.Max(sureP99(s.Clocks.DispatchLag), sureP99(s.Clocks.SendLag))
	bound := math.Max(1, lagBends*s.TTFT.Median)
	limit := math.Max(10, lagRuins*s.TTFT.Median)
	return graded(lag, "ms", bound, limit,
		fmt.Sprintf("Requests left on time: p99 send lag %.2f ms.", lag),
		fmt.Sprintf("requests left late: p99 send lag of at least %.2f ms against a median TTFT of %.2f ms.", lag, s.TTFT.Median),
		"lower the rate or concurrency, or give the client more or quieter cores")
}

// Slots that stand empty for more than these shares of an answer's time make the load lighter than it was meant to be.
const (
	emptyBends = 0.05
	emptyRuins = 0.20
)

// emptySlots judges how long the slots of a closed loop waited for their next request.
func emptySlots(s *metrics.Summary) Finding {
	if s.E2EL.Mean <= 0 {
		return unmeasured("No answer came, so there is nothing to compare the send lag with.")
	}
	lag := s.Clocks.DispatchLag.Mean + s.Clocks.SendLag.Mean
	share := lag / s.E2EL.Mean
	return graded(share, "of mean E2EL", emptyBends, emptyRuins,
		fmt.Sprintf("Slots were filled at once: the next request left %.2f ms after the last one ended, on average.", lag),
		fmt.Sprintf("slots were empty for too long: the next request left %.2f ms after the last one ended, on average, %s of an answer's time, so the load was lighter than requested.", lag, percent(share)),
		"lower the concurrency, or give the client more or quieter cores")
}

// lateWork judges the share of requests let go more than 10 ms after they were due.
func lateWork(in *Input) Finding {
	n := in.Summary.Clocks.DispatchLag.N
	if !in.Settings.OpenLoop || n == 0 {
		return unmeasured("There was no schedule, so nothing could be late.")
	}
	late := part(float64(in.Summary.Rates.Late10ms), float64(n))
	least := stats.Wilson(in.Summary.Rates.Late10ms, n, 0.98).Low
	return graded(least, "share", 0.01, 0.10,
		"The schedule was kept: "+percent(late)+" of requests left more than 10 ms late.",
		fmt.Sprintf("%d of %d requests (%s) left more than 10 ms after they were due, so the arrival pattern is not the requested one. With 99 %% confidence the share is at least %s.", in.Summary.Rates.Late10ms, n, percent(late), percent(least)),
		"the client could not keep up: lower the rate, or run it on more or quieter cores")
}

// achievedRate judges how far the rate on the wire fell below the schedule's.
func achievedRate(in *Input) Finding {
	r := in.Summary.Rates
	if !in.Settings.OpenLoop || r.Achieved == nil {
		return unmeasured("No rate was set, so there is none to achieve.")
	}
	missing := math.Max(0, 1-*r.Achieved)
	hint := "the client could not send that fast: lower the rate, or run it on more or quieter cores"
	if in.Summary.Concurrency.Cap > 0 && in.Summary.Clocks.Queue.Max > 0 {
		hint = "the concurrency cap held requests back: raise or drop --max-concurrency, or ask for a lower rate"
	}
	return graded(missing, "share", 0.05, 0.20,
		fmt.Sprintf("The requested load was sent: %.2f of %.2f requests/s.", *r.Sent, *r.Scheduled),
		fmt.Sprintf("the server saw %.2f requests/s where %.2f were scheduled.", *r.Sent, *r.Scheduled),
		hint)
}

// clientQueue judges how much waiting the concurrency cap hides from latencies that start at
// sending.
func clientQueue(in *Input) Finding {
	s := &in.Summary
	if s.Concurrency.Cap == 0 || s.Clocks.Queue.N == 0 || s.E2EL.N == 0 {
		return unmeasured("No concurrency cap was set, so nothing waited for it.")
	}
	hidden := part(s.Clocks.Queue.Mean, s.E2EL.Mean)
	return graded(hidden, "of mean E2EL", lagBends, 0,
		fmt.Sprintf("The concurrency cap hides no latency: mean wait for a slot %.2f ms.", s.Clocks.Queue.Mean),
		fmt.Sprintf("requests waited %.2f ms on average for a slot, which TTFT and E2EL leave out.", s.Clocks.Queue.Mean),
		"read the latencies from the due time, or raise --max-concurrency")
}

// concurrencyCap checks that the cap was kept.
func concurrencyCap(in *Input) Finding {
	c := in.Summary.Concurrency
	if c.Cap == 0 {
		return unmeasured("No concurrency cap was set.")
	}
	over := float64(max(0, c.Peak-c.Cap))
	return graded(over, "requests", 0, 0.5,
		fmt.Sprintf("The concurrency cap was kept: at most %d of %d at once.", c.Peak, c.Cap),
		fmt.Sprintf("%d requests were in flight at once under a cap of %d.", c.Peak, c.Cap),
		"this is a fault in spate: please report it with the run folder")
}

// droppedWork judges requests that fell due and never left, or left no trace.
func droppedWork(in *Input) Finding {
	t := in.Summary.Tally
	n := t.Dropped - in.Summary.Failures.Unsent - in.Summary.Failures.GoneUnsent + max(0, in.Summary.Failures.Lost)
	figure := part(float64(n), float64(t.Due))
	return graded(figure, "share", 0, 0.01,
		fmt.Sprintf("Every request that fell due was sent (%d).", t.Due-in.Summary.Failures.Unsent-in.Summary.Failures.GoneUnsent),
		fmt.Sprintf("%d of %d requests that fell due were never sent.", n, t.Due),
		"the client ran out of time, connections or files: see the failures by kind")
}

// KilledRun is the unit of cut_off where the run was killed: the share is not known, and the figure no more than a sign.
const KilledRun = "killed run"

// cutOff judges requests still running at the end: they were the slowest. A client that was killed
// cannot say how many those were.
func cutOff(in *Input) Finding {
	s := &in.Summary
	if in.Killed {
		return graded(1, KilledRun, 0, 0, "",
			"the run was killed, and requests in flight at that moment, the slowest among them, left no record.",
			"use it to see what had finished, and run again for figures to compare")
	}
	if left := s.Failures.Undone(); left > 0 && left == s.Tally.Due {
		return graded(1, "share", 0.01, 0.10, "",
			fmt.Sprintf("the run was stopped before any of its %d requests was answered.", left),
			"let the run go on until requests are answered, or ask for shorter answers")
	}
	figure := part(float64(s.Failures.CutOff), float64(s.Tally.Due))
	return graded(figure, "share", 0.01, 0.10,
		fmt.Sprintf("The run waited for its requests: %d cut off.", s.Failures.CutOff),
		fmt.Sprintf("%d of %d requests were cut off while running, so the slowest latencies are missing.", s.Failures.CutOff, s.Tally.Due),
		"allow a longer grace period, or read the error-adjusted percentiles")
}

// nothingToBend is said of the lags of a run without an answer.
const nothingToBend = "No answer came, so there is no latency that a late client could have changed."

// stampLag judges how late bytes were read after they could be.
func stampLag(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("Stamp lag was not measured.")
	}
	if in.Summary.Completed == 0 {
		return unmeasured(nothingToBend)
	}
	bound, limit := lagBounds(in)
	return lagCheck(in, call.Millis(in.Self.StampLagP99), bound, limit, "stamp lag", "arrivals were stamped late")
}

// lagBounds are the lags that bend and ruin what a run measures. Where the kernel stamps arrivals, a
// late reader changes nothing until it is a whole gap late: then two arrivals share one read and one
// stamp. At three gaps most of them do.
func lagBounds(in *Input) (bound, limit float64) {
	g := grain(&in.Summary)
	if in.Self.Arrivals {
		return math.Max(0.5, g), math.Max(5, 3*g)
	}
	return math.Max(0.5, lagBends*g), math.Max(5, lagRuins*g)
}

// schedulerLag judges how long the client's goroutines waited to run. Those that stamp are only some
// of them, so this alone never condemns a run.
func schedulerLag(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("Scheduler lag was not measured.")
	}
	if in.Summary.Completed == 0 {
		return unmeasured(nothingToBend)
	}
	bound, limit := lagBounds(in)
	if in.Self.Arrivals { // stamps do not wait for a goroutine
		bound = limit
	}
	return lagCheck(in, call.Millis(in.Self.SchedLagP99), bound, 0, "scheduler lag", "the client waited for a CPU")
}

func lagCheck(in *Input, lag, bound, limit float64, what, fault string) Finding {
	g := grain(&in.Summary)
	return graded(lag, "ms", bound, limit,
		fmt.Sprintf("p99 %s %.2f ms is small against the %.2f ms measured.", what, lag, g),
		fmt.Sprintf("%s: p99 %s %.2f ms against the %.2f ms to measure.", fault, what, lag, g),
		"lower the concurrency, or run the client on more or quieter cores; `spate calibrate-client` shows what this host can do")
}

// ownCPU judges whether the client itself was the limit.
func ownCPU(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("The client's CPU use was not measured.")
	}
	x := in.Self.CPUShare
	return graded(x, "share", 0.80, 0.95,
		"The client had CPU to spare: it used "+percent(x)+" of its cores.",
		"the client used "+percent(x)+" of its cores, so it may have been the limit.",
		"run the client on a larger or separate machine, or lower the concurrency")
}

// gcPauses judges the longest stop of the client for garbage collection.
func gcPauses(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("Garbage collection was not measured.")
	}
	if in.Summary.Completed == 0 {
		return unmeasured(nothingToBend)
	}
	pause := call.Millis(in.Self.GCPauseMax)
	bound := math.Max(1, lagRuins*grain(&in.Summary))
	if in.Self.Arrivals { // one pause bends no stamp; what pauses do to many shows in the stamp lag
		_, bound = lagBounds(in)
	}
	return graded(pause, "ms", bound, 10*bound,
		fmt.Sprintf("Garbage collection did not disturb the run: longest pause %.2f ms.", pause),
		fmt.Sprintf("garbage collection stopped the client for up to %.2f ms.", pause),
		"the tail latencies may hold these pauses: repeat with more memory (GOGC) or lower concurrency")
}

// hostSteal judges CPU time the hypervisor took from this host. What it does to the client shows in the lags; what it
// does to a server on the same host shows nowhere else.
func hostSteal(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("Stolen CPU time was not measured.")
	}
	x := in.Self.StealShare
	return graded(x, "share", 0.10, 0.30,
		"The host was quiet: "+percent(x)+" of CPU time stolen.",
		"other machines on this host took "+percent(x)+" of its CPU time.",
		"repeat on a quieter or dedicated host")
}

// cpuQuota judges the time a container's CPU quota held the client back: whole slices of 100 ms.
func cpuQuota(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("The CPU quota was not measured.")
	}
	x := in.Self.Throttled
	return graded(x, "share", 0.01, 0.10,
		"No CPU quota held the client back ("+percent(x)+" of the run).",
		"a CPU quota held the client back for "+percent(x)+" of the run.",
		"raise the container's CPU limit, or lower the concurrency")
}

// clockTrouble judges how far the wall clock moved against the monotonic one. Small differences are
// the clock being disciplined; large ones are a jump, or the host asleep.
func clockTrouble(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("The clock was not checked.")
	}
	jump := math.Abs(call.Millis(in.Self.ClockJump))
	return graded(jump, "ms", 100, 5000,
		fmt.Sprintf("The clock ran evenly: %.2f ms off over the run.", jump),
		fmt.Sprintf("the wall clock moved %.0f ms against the monotonic one during the run.", jump),
		"do not line this run up with server logs by time, and check that the host did not sleep")
}

// recordLog judges records that never reached the log.
func recordLog(in *Input) Finding {
	if in.Self == nil {
		return unmeasured("The record log was not checked.")
	}
	figure := part(float64(in.Self.LogDropped), float64(max(1, in.Summary.Tally.Attempts)))
	return graded(figure, "share", 0, 0.01,
		"Every record was written.",
		fmt.Sprintf("%d records are not on disk, which refused %d writes: whatever reads records.jsonl later lacks these requests.", in.Self.LogDropped, in.Self.DiskErrors),
		"check space and speed of the output folder's disk")
}

// RefusedFields are the fields that a server does not want in a request, by its error; none when the
// error is about something else. Only fields that spate puts there by itself are looked for.
func RefusedFields(message string) []string {
	low := strings.ToLower(message)
	known := []string{"unexpected field", "unrecognized request argument", "extra inputs are not permitted", "extra_forbidden", "unknown field", "unknown parameter", "unsupported parameter", "unsupported value"}
	if !slices.ContainsFunc(known, func(w string) bool { return strings.Contains(low, w) }) {
		return nil
	}
	fields := []string{"ignore_eos", "repetition_penalty", "stream_options", "max_completion_tokens", "logprobs"}
	return slices.DeleteFunc(fields, func(f string) bool { return !strings.Contains(low, f) })
}

// failures judges the share of requests the server or the network did not serve.
func failures(in *Input) Finding {
	s := &in.Summary
	if s.Tally.Due == 0 {
		f := graded(1, "share", 0.01, 0.10, "", "no request fell due.", "check the number of requests and the duration")
		return f
	}
	none := s.Completed == 0 && s.Failures.Undone() < s.Tally.Due // where a stop left them all undone, cutOff says so
	bad := fmt.Sprintf("%d of %d requests failed, and latencies count only the others.", s.Tally.Failed, s.Tally.Due)
	if none {
		bad = fmt.Sprintf("none of %d requests succeeded.", s.Tally.Due-s.Failures.Undone())
	}
	hint := "read the error-adjusted percentiles"
	if len(s.Failures.Kinds) > 0 {
		k := s.Failures.Kinds[0]
		hint = fmt.Sprintf("most frequent: %s (%d): %s", k.Name(), k.Count, k.Example)
		if f := RefusedFields(k.Example); len(f) > 0 {
			hint += "; to leave that out: --extra-body." + strings.Join(f, " null --extra-body.") + " null"
		}
	}
	figure := s.Failures.Share
	if none {
		figure = 1
	}
	return graded(figure, "share", 0.01, 0.10,
		fmt.Sprintf("%d of %d requests failed.", s.Tally.Failed, s.Tally.Due), bad, hint)
}
