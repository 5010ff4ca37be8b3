package accuracy

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/judge/stats"
)

// Goal is something the client has to reach, and whether it did.
type Goal struct {
	What string  `json:"what"`
	Got  float64 `json:"got"`
	Low  float64 `json:"lowest"` // over runs
	High float64 `json:"highest"`
	Unit string  `json:"unit"`
	Want string  `json:"want"`
	Met  bool    `json:"met"`
}

// goalLevels is up to how many streams the goals hold.
const goalLevels = 1000

// judge holds the report against the goals. Differences and ratios are taken between a run and the
// bare reader's run next to it, and the goal is judged by their median.
func (r *Report) judge() []Goal {
	var out []Goal
	for i := range r.Levels {
		lv := &r.Levels[i]
		if lv.Load.Streams > goalLevels || len(lv.Bare) == 0 {
			continue
		}
		at := " at " + count(lv.Load.Streams, "stream")
		out = append(out,
			atMost("mean TTFT error above the bare reader's"+at, less(lv, func(r *Row) float64 { return r.TTFTError }), 2, "ms"),
			atMost("p99 ITL error above the bare reader's"+at, less(lv, func(r *Row) float64 { return r.ITLError }), 1, "ms"),
			atMost("CPU per event, times the bare reader's"+at, over(lv, func(r *Row) float64 { return r.CPUPerEvent }), 1.5, "x"),
		)
	}
	if r.Flood != nil {
		out = append(out, atLeast("events per core-second of a flood, share of the bare reader's", over(r.Flood, func(r *Row) float64 { return r.PerCore }), 0.5, "x"))
	}
	if r.Slow != nil {
		out = append(out, atMost("memory at 10,000 slow streams", each(r.Slow.Spate, func(r *Row) float64 { return float64(r.RSS) / 1e6 }), 1000, "MB"))
	}
	for _, s := range r.Startup {
		out = append(out, atMost("start-up of spate "+strings.Join(s.Args, " "), []float64{s.Median}, 50, "ms"))
	}
	if r.Paced != nil {
		out = append(out, atMost("p99 send lag at 2,000 requests/s", each(r.Paced.Spate, func(r *Row) float64 { return r.SendLag.P99 }), 1, "ms"))
	}
	return out
}

// less is a figure of spate minus that of the bare reader, run by run.
func less(lv *Level, figure func(*Row) float64) []float64 {
	return pair(lv, figure, func(a, b float64) float64 { return a - b })
}

// over is a figure of spate in units of the bare reader's, run by run.
func over(lv *Level, figure func(*Row) float64) []float64 {
	return pair(lv, figure, func(a, b float64) float64 { return a / b })
}

func pair(lv *Level, figure func(*Row) float64, f func(spate, bare float64) float64) []float64 {
	n := min(len(lv.Spate), len(lv.Bare))
	out := make([]float64, n)
	for i := range n {
		out[i] = f(figure(&lv.Spate[i]), figure(&lv.Bare[i]))
	}
	return out
}

func atMost(what string, xs []float64, bound float64, unit string) Goal {
	g := goal(what, xs, unit)
	g.Want, g.Met = fmt.Sprintf("at most %g %s", bound, unit), len(xs) > 0 && g.Got <= bound
	return g
}

func atLeast(what string, xs []float64, bound float64, unit string) Goal {
	g := goal(what, xs, unit)
	g.Want, g.Met = fmt.Sprintf("at least %g %s", bound, unit), len(xs) > 0 && g.Got >= bound
	return g
}

func goal(what string, xs []float64, unit string) Goal {
	g := Goal{What: what, Got: stats.Median(xs), Unit: unit}
	if len(xs) > 0 {
		g.Low, g.High = slices.Min(xs), slices.Max(xs)
	}
	return g
}
