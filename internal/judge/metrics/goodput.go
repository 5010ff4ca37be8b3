package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/call"
)

// Objective is one bound a good request keeps: at most Bound milliseconds, or, for a speed, at
// least Bound tokens per second.
type Objective struct {
	Metric string
	Bound  float64
}

// objectiveMetric is something an objective can be set on. value is in seconds (or tokens/s for a
// speed); false means the request has none and misses the objective.
type objectiveMetric struct {
	name  string
	speed bool
	value func(r *call.Record, run *Run) (float64, bool)
}

// objectiveMetrics are vLLM's three, then ours.
var objectiveMetrics = []objectiveMetric{
	{name: "ttft", value: func(r *call.Record, _ *Run) (float64, bool) { return inSeconds(TTFT(r)) }},
	{name: "tpot", value: func(r *call.Record, run *Run) (float64, bool) {
		v, _ := TPOT(r, run.EndRule, run.Tokenizer)
		return v, true // one token has no time per further token: vLLM counts it as 0
	}},
	{name: "e2el", value: func(r *call.Record, run *Run) (float64, bool) { return inSeconds(Latency(r, run.EndRule)) }},
	{name: "itl", value: func(r *call.Record, _ *Run) (float64, bool) {
		return meanITL(r.Chunks), true
	}},
	{name: "max_itl", value: func(r *call.Record, _ *Run) (float64, bool) { return maxITL(r.Chunks), true }},
	{name: "ttft_due", value: func(r *call.Record, _ *Run) (float64, bool) { return inSeconds(TTFTDue(r)) }},
	{name: "e2el_due", value: func(r *call.Record, run *Run) (float64, bool) {
		return inSeconds(LatencyDue(r, run.EndRule))
	}},
	{name: "first_token", value: func(r *call.Record, _ *Run) (float64, bool) { return inSeconds(FirstToken(r)) }},
	{name: "first_text", value: func(r *call.Record, _ *Run) (float64, bool) { return inSeconds(FirstText(r)) }},
	{name: "user_tokens_per_s", speed: true, value: func(r *call.Record, run *Run) (float64, bool) {
		return userSpeed(r, run)
	}},
}

// ObjectiveMetrics lists the names an objective may use.
func ObjectiveMetrics() []string {
	names := make([]string, len(objectiveMetrics))
	for i, m := range objectiveMetrics {
		names[i] = m.name
	}
	return names
}

// ParseObjective reads "ttft:200". The bound is in milliseconds, for speeds in tokens per second.
func ParseObjective(s string) (Objective, error) {
	name, num, ok := strings.Cut(s, ":")
	if !ok {
		return Objective{}, fmt.Errorf("objective %q has no bound: write METRIC:MILLISECONDS, such as ttft:200", s)
	}
	if _, ok := findObjective(name); !ok {
		return Objective{}, fmt.Errorf("objective %q is on no known metric: use one of %s",
			s, strings.Join(ObjectiveMetrics(), ", "))
	}
	bound, err := strconv.ParseFloat(num, 64)
	if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) || bound < 0 {
		return Objective{}, fmt.Errorf("objective %q: %q is not a bound: write a number of milliseconds not below 0", s, num)
	}
	return Objective{Metric: name, Bound: bound}, nil
}

func findObjective(name string) (objectiveMetric, bool) {
	for _, m := range objectiveMetrics {
		if m.name == name {
			return m, true
		}
	}
	return objectiveMetric{}, false
}

// met reports whether the request keeps the objective. The comparison is vLLM's: in seconds, with
// the bound divided rather than the value multiplied.
func (o Objective) met(r *call.Record, run *Run) bool {
	m, known := findObjective(o.Metric)
	if !known {
		return false
	}
	v, ok := m.value(r, run)
	if m.speed {
		return ok && v >= o.Bound
	}
	return ok && v <= o.Bound/milli
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
func meanITL(chunks []call.Chunk) float64 {
	n := len(chunks)
	if n < 2 {
		return 0
	}
	return seconds(chunks[n-1].At-chunks[0].At) / float64(n-1)
}

// maxITL is the longest gap between two chunks, in seconds.
func maxITL(chunks []call.Chunk) float64 {
	most := 0.0
	for i := 1; i < len(chunks); i++ {
		most = max(most, seconds(chunks[i].At-chunks[i-1].At))
	}
	return most
}
