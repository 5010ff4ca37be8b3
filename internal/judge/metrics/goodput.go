package metrics

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"spate/internal/call"
)

// Objective is one bound a good request keeps: at most Bound milliseconds, or, for a speed, at
// least Bound tokens per second.
type Objective struct {
	Metric string
	Bound  float64
}

// each is a figure that every request has one of. of is in seconds (or tokens/s for a speed); false means that the
// request has none: then it misses an objective, unless spared.
type each struct {
	name   string
	speed  bool
	spared bool // one token has no time per further token: vLLM counts it as 0
	of     func(r *call.Record, run *Run) (float64, bool)
}

// perRequest are vLLM's three, then ours.
var perRequest = []each{
	{name: "ttft", of: byStamps(TTFT)},
	{name: "tpot", spared: true, of: func(r *call.Record, run *Run) (float64, bool) { return TPOT(r, run.EndRule, run.Tokenizer) }},
	{name: "e2el", of: func(r *call.Record, run *Run) (float64, bool) { return inSeconds(Latency(r, run.EndRule)) }},
	{name: "itl", spared: true, of: func(r *call.Record, _ *Run) (float64, bool) { return meanITL(r.Chunks) }},
	{name: "max_itl", spared: true, of: func(r *call.Record, _ *Run) (float64, bool) { return maxITL(r.Chunks) }},
	{name: "ttft_due", of: byStamps(TTFTDue)},
	{name: "e2el_due", of: func(r *call.Record, run *Run) (float64, bool) { return inSeconds(LatencyDue(r, run.EndRule)) }},
	{name: "first_byte", of: byStamps(FirstByte)},
	{name: "first_token", of: byStamps(FirstToken)},
	{name: "first_text", of: byStamps(FirstText)},
	{name: "e2el_last_token", of: byStamps(LastToken)},
	{name: "e2el_close", of: byStamps(Closed)},
	{name: "user_tokens_per_s", speed: true, of: userSpeed},
	{name: "decode_tokens_per_s", speed: true, spared: true, of: decodeSpeed},
}

// byStamps is a figure made of stamps alone.
func byStamps(f func(*call.Record) (time.Duration, bool)) func(*call.Record, *Run) (float64, bool) {
	return func(r *call.Record, _ *Run) (float64, bool) { return inSeconds(f(r)) }
}

// ObjectiveMetrics lists the names an objective may use: the figures that every request has one of.
func ObjectiveMetrics() []string {
	names := make([]string, len(perRequest))
	for i, m := range perRequest {
		names[i] = m.name
	}
	return names
}

// Each is the formula of a figure that every request has one of, in milliseconds (or tokens per second for a speed);
// nil for any other name. The formula says false of a request that has none.
func (run Run) Each(name string) func(*call.Record) (float64, bool) {
	m, ok := findEach(name)
	if !ok {
		return nil
	}
	run.EndRule = cmp.Or(run.EndRule, LastChunk)
	scale := float64(milli)
	if m.speed {
		scale = 1
	}
	return func(r *call.Record) (float64, bool) {
		v, ok := m.of(r, &run)
		return v * scale, ok
	}
}

// ParseObjective reads "ttft:200". The bound is in milliseconds, for speeds in tokens per second.
func ParseObjective(s string) (Objective, error) {
	name, num, ok := strings.Cut(s, ":")
	if !ok {
		return Objective{}, fmt.Errorf("objective %q has no bound: write METRIC:MILLISECONDS, such as ttft:200", s)
	}
	if _, ok := findEach(name); !ok {
		return Objective{}, fmt.Errorf("objective %q is on no known metric: use one of %s",
			s, strings.Join(ObjectiveMetrics(), ", "))
	}
	bound, err := strconv.ParseFloat(num, 64)
	if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) || bound < 0 {
		return Objective{}, fmt.Errorf("objective %q: %q is not a bound: write a number of milliseconds not below 0", s, num)
	}
	return Objective{Metric: name, Bound: bound}, nil
}

func findEach(name string) (each, bool) {
	for _, m := range perRequest {
		if m.name == name {
			return m, true
		}
	}
	return each{}, false
}

// Met reports whether the request keeps the objective.
func (o Objective) Met(r *call.Record, run Run) bool {
	run.EndRule = cmp.Or(run.EndRule, LastChunk)
	return o.met(r, &run)
}

// met reports whether the request keeps the objective. The comparison is vLLM's: in seconds, with
// the bound divided rather than the value multiplied.
func (o Objective) met(r *call.Record, run *Run) bool {
	m, known := findEach(o.Metric)
	if !known {
		return false
	}
	v, ok := m.of(r, run)
	switch {
	case !ok:
		return m.spared
	case m.speed:
		return v >= o.Bound
	}
	return v <= o.Bound/milli
}

// goodput counts the successes that keep every objective; nothing else ever does.
func (z *summarizer) goodput() {
	if len(z.run.Objectives) == 0 {
		return
	}
	g := &Goodput{Objectives: make([]Attainment, len(z.run.Objectives))}
	for i, o := range z.run.Objectives {
		g.Objectives[i] = Attainment{Metric: o.Metric, Bound: o.Bound}
	}
	for r := range z.ok {
		good := true
		for i, o := range z.run.Objectives {
			if o.met(r, &z.run) {
				g.Objectives[i].Met++
			} else {
				good = false
			}
		}
		if good {
			g.Good++
		}
	}
	judged := z.oks + z.misses
	for i := range g.Objectives {
		g.Objectives[i].Share = share(g.Objectives[i].Met, judged)
	}
	g.Share = share(g.Good, judged)
	g.PerSecond = per(float64(g.Good), z.run.duration())
	z.s.Goodput, z.s.RequestGoodput = g, &g.PerSecond
}

// meanITL is the mean gap between two chunks of one answer, in seconds. The gaps add up to the time
// between the ends, which loses no digit to a sum.
func meanITL(chunks []call.Chunk) (float64, bool) {
	n := len(chunks)
	if n < 2 {
		return 0, false
	}
	return seconds(chunks[n-1].At-chunks[0].At) / float64(n-1), true
}

// maxITL is the longest gap between two chunks, in seconds.
func maxITL(chunks []call.Chunk) (float64, bool) {
	most := 0.0
	for i := 1; i < len(chunks); i++ {
		most = max(most, seconds(chunks[i].At-chunks[i-1].At))
	}
	return most, len(chunks) > 1
}
