package verdict

import (
	"fmt"
	"math"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/judge/metrics"
)

// A load that several processes send is judged by each of them: one that is late bends the figures of all, and shows in
// none of them by itself. So checks on the client are made for every worker, and the worst is named.

// Worker is what is known of one of several processes that sent the load.
type Worker struct {
	Name string
	Self *Self // nil: it did not tell
	metrics.Sender

	Gone        bool          // it was not heard of any more
	Skew        time.Duration // from when its first request was due until it let it go
	Uncertainty time.Duration // of its times on the run's clock
}

// judge makes the check, for each worker where there are several.
func (c *check) judge(in *Input) Finding {
	if !c.own || len(in.Workers) == 0 {
		return c.run(in)
	}
	worst, name := Finding{}, ""
	for i := range in.Workers {
		w := &in.Workers[i]
		one := *in
		one.Self = w.Self
		one.Summary.Clocks.DispatchLag, one.Summary.Clocks.SendLag, one.Summary.Rates.Late10ms = w.DispatchLag, w.SendLag, w.Late10ms
		if f := c.run(&one); i == 0 || worse(&f, &worst) {
			worst, name = f, w.Name
		}
	}
	switch {
	case !worst.Measured:
	case worst.Level == OK:
		worst.Sentence = strings.TrimSuffix(worst.Sentence, ".") + " (worker " + name + ", the worst of " + fmt.Sprint(len(in.Workers)) + ")."
	default:
		worst.Sentence = "worker " + name + ": " + worst.Sentence
	}
	return worst
}

// worse orders findings of one check.
func worse(a, b *Finding) bool {
	rank := map[Level]int{OK: 0, Suspect: 1, Invalid: 2}
	switch {
	case rank[a.Level] != rank[b.Level]:
		return rank[a.Level] > rank[b.Level]
	case a.Measured != b.Measured:
		return a.Measured
	}
	return a.Figure > b.Figure
}

// lostWorkers judges the requests that were due from workers that were gone.
func lostWorkers(in *Input) Finding {
	if len(in.Workers) == 0 {
		return unmeasured("One process sent the load.")
	}
	var gone []string
	for i := range in.Workers {
		if w := &in.Workers[i]; w.Gone {
			gone = append(gone, w.Name)
		}
	}
	lost, due := in.Summary.Failures.Gone, in.Summary.Tally.Due
	good := fmt.Sprintf("All %d workers were there to the end.", len(in.Workers))
	if len(gone) > 0 {
		good = fmt.Sprintf("Workers that were gone (%s) had nothing left to tell.", strings.Join(gone, ", "))
	}
	return graded(part(float64(lost), float64(due)), "share", 0, 0.10, good,
		fmt.Sprintf("%d of %d requests were lost with %s: how they ended is not known, and the load was lighter without what was still to send.", lost, due, goneNames(gone)),
		"see why it ended or was cut off (its own log has what it measured), and repeat the run")
}

// goneNames names the workers that were gone.
func goneNames(gone []string) string {
	const most = 3
	switch n := len(gone); {
	case n == 0:
		return "workers that came back too late"
	case n == 1:
		return "worker " + gone[0]
	case n > most:
		return fmt.Sprintf("workers %s and %d more", strings.Join(gone[:most], ", "), n-most)
	}
	return "workers " + strings.Join(gone, ", ")
}

// workerClocks judges how far the workers were from acting at one time: how late each began, and how well its clock was
// known. Latencies are differences on one clock and do not depend on it; the pattern of arrivals, what was in flight at
// once and the length of the run do.
func workerClocks(in *Input) Finding {
	if len(in.Workers) == 0 {
		return unmeasured("One process sent the load, on one clock.")
	}
	var off, skew, unsure float64
	name := ""
	for i := range in.Workers {
		w := &in.Workers[i]
		s, u := math.Abs(call.Millis(w.Skew)), call.Millis(w.Uncertainty)
		if s+u >= off {
			off, skew, unsure, name = s+u, s, u, w.Name
		}
	}
	run := 1000 * in.Summary.DurationS
	return graded(off, "ms", math.Max(10, 0.001*run), math.Max(1000, 0.1*run),
		fmt.Sprintf("The workers acted as one: at worst %.2f ms late at the start, on a clock known to %.2f ms (worker %s).", skew, unsure, name),
		fmt.Sprintf("worker %s began %.2f ms late, on a clock known to %.2f ms: arrivals and concurrency of all workers together are not exact to that.", name, skew, unsure),
		"use hosts with a shorter way to the coordinator, and give slow ones more or quieter cores")
}
