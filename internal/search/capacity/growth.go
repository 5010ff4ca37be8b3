package capacity

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"spate/internal/call"
)

// This file tells a queue that grows from one that does not. At a rate a server keeps up with, the requests
// in flight (N) come to a level and then wander around it; at a higher rate they grow for as long as the rate
// lasts. Two things look like growth and are none: the start, when the first answers are still being written,
// and chance. So N is compared between the middle of the time and its end, the middle has to be later than a
// request takes from start to end, and the growth has to be more than that of a walk in which every arrival
// is a step up and every answer a step down. A server that keeps up is drawn back to its level, which makes
// its growth smaller than that of the walk.

// Growth is how much N grew from the middle of a time to its end, and the variance it would have if
// arrivals and answers were steps of a walk. Growths of several probes add up.
type Growth struct {
	By       float64 `json:"by"`
	Variance float64 `json:"variance"`
}

// Significance is the growth over what chance lets it be.
func (g Growth) Significance() float64 {
	if g.Variance <= 0 {
		return 0
	}
	return g.By / math.Sqrt(g.Variance)
}

// Service is what a server did that was never idle: the first tokens it sent, in how long, and the variance of
// their number by how unevenly it works. Those of several probes add up.
type Service struct {
	Served   float64 `json:"served"`
	Seconds  float64 `json:"s"`
	Variance float64 `json:"variance"`
}

// atLeast is the lower end of the interval of the rate a server can serve; infinite where nothing is known of it.
func (s Service) atLeast() float64 {
	if s.Seconds <= 0 {
		return math.Inf(1)
	}
	return (s.Served - sure*math.Sqrt(s.Variance)) / s.Seconds
}

func (s Service) add(o Service) Service {
	return Service{s.Served + o.Served, s.Seconds + o.Seconds, s.Variance + o.Variance}
}

// What it takes to call it growth.
const (
	plainGrowth = 4.0 // to end a probe: it is looked at again and again
	someGrowth  = 3.0 // for the probes of a load, together
	anyGrowth   = 2.0 // to leave a load open

	leastFirst = 3  // ended, of those that came first: fewer say nothing
	leastDone  = 10 // ended by the middle of the time
	leastDue   = 30 // came after it
)

// sample is a count of requests at a time.
type sample struct {
	at        time.Duration
	due, done int
}

func (s sample) inFlight() float64 { return float64(s.due - s.done) }

// stay is a request that ended: when it was due, had its first token (its end where there is none) and ended.
type stay struct {
	due, first, end time.Duration
}

func stayOf(r *call.Record) stay {
	s := stay{due: r.Due, first: r.FirstToken, end: r.End}
	if s.first == call.Unset {
		s.first = s.end
	}
	return s
}

// counts makes samples of when requests were due and when they had their first token, at the times they were due.
// Once a probe is over this is known, and tells more than N: a batch of answers that grows is no queue.
func counts(ended []stay) []sample {
	due, ends := make([]time.Duration, len(ended)), make([]time.Duration, len(ended))
	for i, s := range ended {
		due[i], ends[i] = s.due, s.first
	}
	slices.Sort(due)
	slices.Sort(ends)
	out := make([]sample, len(due))
	done := 0
	for i, at := range due {
		for done < len(ends) && ends[done] <= at {
			done++
		}
		out[i] = sample{at, i + 1, done}
	}
	return out
}

// growth is that since the middle of the time, and the rate of answers since then. It is nothing while the
// start is not over.
func growth(seen []sample, ended []stay) (g Growth, perSecond float64) {
	if len(seen) < 4 || len(ended) == 0 {
		return g, 0
	}
	from, last := seen[0].at, seen[len(seen)-1]
	half := sampleAt(seen, from+(last.at-from)/2)
	came, went := float64(last.due-half.due), float64(last.done-half.done)
	if half.done < leastDone || came < leastDue || half.at-from < rampUp(ended, last.at-from) {
		return g, 0
	}
	return Growth{By: last.inFlight() - half.inFlight(), Variance: came*burstiness(seen) + went}, went / (last.at - half.at).Seconds()
}

// wholeGrowth is that of a probe that is over. A server that is never idle in the second half of it serves as
// much as it can: what the rate asks for, less that, is the growth, and chance has no part in it but for how
// unevenly the server works. Where it had time to spare, the queue itself is looked at.
func wholeGrowth(ended []stay) Growth {
	const least = 0.2
	seen := counts(ended)
	g, _ := growth(seen, ended)
	from, to := seen[0].at, seen[len(seen)-1].at
	half := from + (to-from)/2
	if g.Variance == 0 || !neverIdle(ended, half) {
		return g
	}
	went, spread := firstTokens(ended, half, to)
	asked := float64(len(ended)) / (to - from).Seconds() * (to - half).Seconds()
	return Growth{By: asked - went, Variance: went * max(least, spread)}
}

// service is that of the end of a probe that is over, since the last request that did not wait; nothing if that is
// less than a quarter of its time.
func service(ended []stay) Service {
	seen := counts(ended)
	from, to := seen[0].at, seen[len(seen)-1].at
	since, long := from, waitsLong(ended)
	for _, s := range ended {
		if s.first-s.due < long {
			since = max(since, s.due)
		}
	}
	if to-since < (to-from)/4 {
		return Service{}
	}
	went, spread := firstTokens(ended, since, to)
	return Service{Served: went, Seconds: (to - since).Seconds(), Variance: went * spread}
}

// waitsLong is how long a request waits for its first token at a server that is never idle: much longer than those
// that came first. It has no end while too few of those have ended.
func waitsLong(ended []stay) time.Duration {
	const longer = 3
	from, to := firstDue(ended), lastDue(ended)
	var first []time.Duration
	for _, s := range ended {
		if s.due-from <= (to-from)/10 {
			first = append(first, s.first-s.due)
		}
	}
	if len(first) < leastFirst {
		return math.MaxInt64
	}
	slices.Sort(first)
	return longer * first[len(first)/2]
}

// neverIdle reports whether all but a few of the requests since a time waited long.
func neverIdle(ended []stay, since time.Duration) bool {
	const few = 0.05
	long, later, short := waitsLong(ended), 0, 0
	for _, s := range ended {
		if s.due < since {
			continue
		}
		later++
		if s.first-s.due < long {
			short++
		}
	}
	return later >= leastDue && short <= int(few*float64(later))
}

// firstTokens counts those in a time, and how their number varies: its variance over its mean.
func firstTokens(ended []stay, from, to time.Duration) (n, spread float64) {
	const bins = 20
	var count [bins]float64
	for _, s := range ended {
		if s.first > from && s.first <= to {
			count[min(bins-1, int(bins*(s.first-from)/(to-from)))]++
			n++
		}
	}
	sum, mean := 0.0, n/bins
	for _, c := range count {
		sum += (c - mean) * (c - mean)
	}
	return n, sum / (bins - 1) / max(mean, 1)
}

func sampleAt(seen []sample, at time.Duration) sample {
	return seen[min(sort.Search(len(seen), func(i int) bool { return seen[i].at >= at }), len(seen)-1)]
}

// rampUp is how long the start takes: as long as the slowest of the requests that came in the first tenth of the
// time. It has no end while too few of those have ended.
func rampUp(ended []stay, span time.Duration) time.Duration {
	n, longest, from := 0, time.Duration(0), firstDue(ended)
	for _, s := range ended {
		if s.due-from <= span/10 {
			n++
			longest = max(longest, s.end-s.due)
		}
	}
	if n < leastFirst {
		return math.MaxInt64
	}
	return longest
}

// firstDue is where the stamps of requests begin; those of samples may begin elsewhere.
func firstDue(ended []stay) time.Duration {
	return slices.MinFunc(ended, byDue).due
}

func lastDue(ended []stay) time.Duration { return slices.MaxFunc(ended, byDue).due }

func byDue(a, b stay) int { return cmp.Compare(a.due, b.due) }

// burstiness is the variance of the number of arrivals over their mean: 1 for a Poisson process, more where
// they come in bursts. Arrivals more even than that are taken as Poisson, to be safe.
func burstiness(seen []sample) float64 {
	const bins = 50
	from, last := seen[0], seen[len(seen)-1]
	mean := float64(last.due-from.due) / bins
	if mean <= 0 {
		return 1
	}
	sum, before := 0.0, from.due
	for i := range bins {
		now := sampleAt(seen, from.at+(last.at-from.at)*time.Duration(i+1)/bins).due
		d := float64(now-before) - mean
		sum += d * d
		before = now
	}
	return max(1, sum/(bins-1)/mean)
}

// plainlyGrows reports whether a probe under way can be ended because its queue grows. Beside the growth of N
// it asks where N grows: requests that wait for their first token behind others wait longer the more there
// are, while a batch of answers that grows makes nobody wait. N grown by so many at a rate of answers lets
// the next one wait as long as they take; at least half of that has to be seen in times to the first token.
func plainlyGrows(seen []sample, ended []stay) (Growth, bool) {
	g, perSecond := growth(seen, ended)
	if g.Significance() < plainGrowth || perSecond <= 0 || len(ended) < 4*leastDone {
		return g, false
	}
	list := slices.Clone(ended)
	slices.SortFunc(list, byDue)
	part := len(list) / 4
	due1, wait1 := middle(list[:part])
	due2, wait2 := middle(list[len(list)-part:])
	shift := seen[0].at - list[0].due
	more := sampleAt(seen, due2+shift).inFlight() - sampleAt(seen, due1+shift).inFlight()
	return g, more > 0 && (wait2-wait1).Seconds() >= more/perSecond/2
}

// middle is the median due time of requests and their median wait for the first token.
func middle(list []stay) (due, wait time.Duration) {
	waits := make([]time.Duration, len(list))
	for i, s := range list {
		waits[i] = s.first - s.due
	}
	slices.Sort(waits)
	return list[len(list)/2].due, waits[len(waits)/2]
}
