package curve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/stats"
	"spate/internal/result"
)

// Figure is one number of a result that a curve may be drawn over.
type Figure struct {
	Key  string // vLLM's name of a figure, or a setting
	Name string
	Unit string
}

// Loads are what the throughput-latency curves can have below them. The first is the usual choice.
func Loads() []Figure {
	var out []Figure
	for _, r := range figure.List("request_throughput", "output_throughput", "total_token_throughput") {
		out = append(out, Figure{r.Key(), figure.Capital(r.Words()), r.Unit.Long()})
	}
	return append(out, Figure{"request_rate", "Request rate asked for", "requests/s"}, Figure{"max_concurrency", "Concurrency cap", "requests"})
}

// Stat is a way to sum up a latency.
type Stat struct{ Key, Name string }

// Stats are the ways results report latencies.
func Stats() []Stat {
	return []Stat{{"p99", "P99"}, {"p95", "P95"}, {"p90", "P90"}, {"median", "Median"}, {"mean", "Mean"}}
}

// Value is a figure of an entry or, where it has none of that name, a setting that is a number.
func Value(e *result.Entry, key string) (float64, bool) {
	if v, ok := e.Float(key); ok {
		return v, true
	}
	v, ok := e.Number(key)
	return v, ok && !math.IsInf(v, 0)
}

// invalidLine is what the points of INVALID runs are drawn as, joined to none.
const invalidLine = "INVALID"

// LoadCurve is a latency against a load, one line for each group and one point for each run in it. Points are
// joined in order of the load asked for, so that a server pushed beyond its capacity shows as a line that turns
// back; repeats of one load are joined at their median. INVALID runs are points of a line of their own.
func LoadCurve(set []result.Entry, groups []Group, load Figure, l Latency, stat Stat) Chart {
	c := Chart{
		ID: "load-" + string(l), Title: stat.Name + " " + l.Short() + " by load",
		X: Axis{Name: load.Name, Unit: load.Unit, Scale: Linear, Zero: true},
		Y: Axis{Name: stat.Name + " " + l.Short(), Unit: "ms", Scale: Linear, Zero: true},
	}
	names := Legend(set)
	low, high := math.Inf(1), math.Inf(-1)
	invalid := Line{Name: invalidLine, Kind: Dots}
	for _, g := range groups {
		line := Line{Name: g.Name, Kind: Marks}
		var drawn []int
		for _, i := range g.Members {
			x, okX := Value(&set[i], load.Key)
			y, okY := Value(&set[i], stat.Key+"_"+string(l)+"_ms")
			if !okX || !okY {
				continue
			}
			low, high = math.Min(low, y), math.Max(high, y)
			if set[i].Invalid() {
				invalid.put(x, y, names[i])
				continue
			}
			line.put(x, y, names[i])
			drawn = append(drawn, i)
		}
		line.join(set, drawn)
		c.add(line)
	}
	c.add(invalid)
	if low > 0 && high > 30*low {
		c.Y.Scale = Log
	}
	return c
}

// join leads the line through the medians of runs at the same load, where some are.
func (l *Line) join(set []result.Entry, drawn []int) {
	var x, y []float64
	for from := 0; from < len(drawn); {
		to := from + 1
		for to < len(drawn) && byLoad(&set[drawn[from]], &set[drawn[to]]) == 0 {
			to++
		}
		x, y = append(x, stats.Median(l.X[from:to])), append(y, stats.Median(l.Y[from:to]))
		from = to
	}
	if len(x) < len(drawn) {
		l.JoinX, l.JoinY = x, y
	}
}

// Pareto sets what a GPU delivers against what a user sees, one dot for each run, with the frontier of those
// that no other run beats on both. Where some results say on how many GPUs they ran, the others are left out.
// INVALID runs, and predictions beside what was measured, are drawn and are no part of the frontier.
func Pareto(set []result.Entry, groups []Group) Chart {
	c := Chart{
		ID: "pareto", Title: "Throughput per GPU against speed per user",
		X: Axis{Name: "Speed per user (1 / median TPOT)", Unit: "tokens/s", Scale: Linear, Zero: true},
		Y: Axis{Name: "Output throughput per GPU", Unit: "tokens/s", Scale: Linear, Zero: true},
	}
	known := 0
	for i := range set {
		if _, ok := GPUs(&set[i]); ok {
			known++
		}
	}
	if known == 0 {
		c.Title, c.Y.Name = "Throughput against speed per user", "Output throughput"
		c.Note = "No result says on how many GPUs it ran: throughput is of the whole server. A label gpus=N gives it."
	}
	names, basis := Legend(set), result.BasisOf(result.Pointers(set))
	var frontier Line
	invalid := Line{Name: invalidLine, Kind: Dots}
	out := 0
	for _, g := range groups {
		line := Line{Name: g.Name, Kind: Dots}
		for _, i := range g.Members {
			x, y, ok := paretoPoint(&set[i], known > 0)
			switch {
			case !ok:
				out++
				continue
			case set[i].Invalid():
				invalid.put(x, y, names[i])
				continue
			case basis.Holds(&set[i]):
				frontier.put(x, y, names[i])
			}
			line.put(x, y, names[i])
		}
		c.add(line)
	}
	c.add(invalid)
	if out > 0 && len(c.Lines) > 0 {
		c.Note = strings.TrimSpace(c.Note + fmt.Sprintf(" %d of %d results are left out: they lack a figure or a number of GPUs.", out, len(set)))
	}
	if basis.Note != "" {
		c.Note = strings.TrimSpace(c.Note + " The frontier is drawn " + basis.Note + ".")
	}
	if len(frontier.X) > 0 {
		c.Lines = append(c.Lines, best(frontier))
	}
	c.X.Zero, c.Y.Zero = nearZero(c.Lines, func(l *Line) []float64 { return l.X }), nearZero(c.Lines, func(l *Line) []float64 { return l.Y })
	return c
}

// nearZero reports whether an axis that starts at zero leaves less than half of its length empty.
func nearZero(lines []Line, of func(*Line) []float64) bool {
	low, high := math.Inf(1), 0.0
	for i := range lines {
		for _, v := range of(&lines[i]) {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	return low < high/2
}

func paretoPoint(e *result.Entry, perGPU bool) (x, y float64, ok bool) {
	tpot, ok := Value(e, "median_tpot_ms")
	if !ok {
		tpot, ok = Value(e, "mean_tpot_ms")
	}
	out, okOut := Value(e, "output_throughput")
	n, okN := GPUs(e)
	if !ok || !okOut || tpot <= 0 || (perGPU && !okN) {
		return 0, 0, false
	}
	if !perGPU {
		n = 1
	}
	return 1000 / tpot, out / n, true
}

// best joins the points that no other is at least as good as in both directions.
func best(all Line) Line {
	out := Line{Name: "Frontier", Kind: Path}
	for _, i := range Frontier(all.X, all.Y) {
		out.X, out.Y, out.Labels = append(out.X, all.X[i]), append(out.Y, all.Y[i]), append(out.Labels, all.Labels[i])
	}
	return out
}

// Frontier are the points that no other beats: none is greater in one direction and at least as great in the
// other. They are in order of x; of equal points there is one.
func Frontier(x, y []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] != x[b]:
			return int(math.Copysign(1, x[b]-x[a]))
		case y[a] != y[b]:
			return int(math.Copysign(1, y[b]-y[a]))
		}
		return 0
	})
	var out []int
	top := math.Inf(-1)
	for _, i := range order {
		if y[i] > top {
			top = y[i]
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// GPUs is on how many GPUs the server of a result ran: a label says so, or the product of its parallel sizes.
func GPUs(e *result.Entry) (float64, bool) {
	for _, key := range []string{"gpus", "num_gpus", "gpu_count"} {
		if v, ok := Value(e, key); ok && v > 0 {
			return v, true
		}
	}
	n, found := 1.0, false
	for _, key := range []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"} {
		if v, ok := Value(e, key); ok && v > 0 {
			n, found = n*v, true
		}
	}
	return n, found
}
