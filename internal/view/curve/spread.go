package curve

import (
	"math"
	"slices"

	"spate/internal/judge/stats"
	"spate/internal/result"
)

// Named is one run's samples of a latency, ascending, and what to call it.
type Named struct {
	Name   string
	Values []float64
}

// maxPoints bounds the points of one line of a distribution. Screens have fewer pixels.
const maxPoints = 400

// CDFs is the share of samples at most as long as x, one line for each run.
func CDFs(l Latency, all []Named) Chart {
	c := Chart{
		ID: "cdf-" + string(l), Title: l.Name() + ", cumulative",
		X: Axis{Name: l.Short(), Unit: "ms", Scale: fit(all)},
		Y: Axis{Name: "share of " + l.Counts() + " at or below", Unit: "%", Scale: Linear, Zero: true},
	}
	for _, n := range all {
		if len(n.Values) > 0 {
			c.Lines = append(c.Lines, cdf(n))
		}
	}
	return c
}

// cdf steps at exact order statistics: all of them where they are few, and otherwise evenly spaced ones with
// the whole tail that evenly spaced ones would hide.
func cdf(n Named) Line {
	line := Line{Name: n.Name, Kind: Path}
	size := len(n.Values)
	for _, i := range ranks(size) {
		line.X = append(line.X, n.Values[i])
		line.Y = append(line.Y, 100*float64(i+1)/float64(size))
	}
	return line
}

// ranks are the order statistics to draw of n.
func ranks(n int) []int {
	var out []int
	if n <= maxPoints {
		for i := range n {
			out = append(out, i)
		}
		return out
	}
	for k := range maxPoints * 3 / 4 {
		out = append(out, k*(n-1)/(maxPoints*3/4))
	}
	tail := max(1, n/100)
	for k := range maxPoints / 4 {
		out = append(out, n-tail+k*(tail-1)/(maxPoints/4))
	}
	out = append(out, n-1)
	slices.Sort(out)
	return slices.Compact(out)
}

// Ladder is the latency at each percentile on an axis that gives every further nine the same room, one line
// for each run. Runs without samples take part with the percentiles they report.
func Ladder(l Latency, all []Named, reported []Line) Chart {
	c := Chart{
		ID: "percentiles-" + string(l), Title: l.Name() + " by percentile",
		X: Axis{Name: "percentile", Scale: Nines},
		Y: Axis{Name: l.Short(), Unit: "ms", Scale: fit(all), Zero: true},
	}
	for _, n := range all {
		if len(n.Values) > 0 {
			c.Lines = append(c.Lines, ladder(n))
		}
	}
	c.Lines = append(c.Lines, reported...)
	return c
}

// ladder asks for no percentile beyond what the sample can tell: of n samples the longest is the last word.
func ladder(n Named) Line {
	line := Line{Name: n.Name, Kind: Path}
	end := math.Max(0.1, math.Log10(float64(len(n.Values))))
	const points = 160
	for k := range points + 1 {
		p := 100 * (1 - math.Pow(10, -end*float64(k)/points))
		line.X = append(line.X, p)
		line.Y = append(line.Y, stats.SortedPercentile(n.Values, p))
	}
	return line
}

// Reported is the line of percentiles a result prints, for those whose samples are not known.
func Reported(l Latency, name string, e *result.Entry) (Line, bool) {
	line := Line{Name: name, Kind: Marks}
	for _, p := range []struct {
		at   float64
		name string
	}{{50, "median"}, {75, "p75"}, {90, "p90"}, {95, "p95"}, {99, "p99"}, {99.9, "p99.9"}} {
		if v, ok := e.Float(p.name + "_" + string(l) + "_ms"); ok {
			line.X, line.Y = append(line.X, p.at), append(line.Y, v)
		}
	}
	return line, len(line.X) > 1
}

// bins is how many bars a histogram has at most.
const bins = 60

// Histograms counts samples between common edges. Several runs are set side by side by share, since they may
// differ in size.
func Histograms(l Latency, all []Named) Chart {
	c := Chart{
		ID: "histogram-" + string(l), Title: l.Name() + ", histogram",
		X: Axis{Name: l.Short(), Unit: "ms", Scale: fit(all)},
		Y: Axis{Name: l.Counts(), Unit: l.Counts(), Scale: Linear, Zero: true},
	}
	edges := edges(all, c.X.Scale)
	filled := 0
	for _, n := range all {
		if len(n.Values) > 0 {
			filled++
		}
	}
	for _, n := range all {
		if len(n.Values) == 0 {
			continue
		}
		line := Line{Name: n.Name, Kind: Bars, X: edges}
		for _, count := range Count(n.Values, edges) {
			line.Y = append(line.Y, float64(count))
		}
		if filled > 1 {
			for i := range line.Y {
				line.Y[i] *= 100 / float64(len(n.Values))
			}
		}
		c.Lines = append(c.Lines, line)
	}
	if filled > 1 {
		c.Y.Name, c.Y.Unit = "share of "+l.Counts(), "%"
	}
	return c
}

// edges span all samples: evenly, or by a constant factor on a log scale.
func edges(all []Named, scale Scale) []float64 {
	low, high := extent(all)
	if low == high {
		pad := math.Max(0.5, math.Abs(low)/100)
		return []float64{low - pad, low + pad}
	}
	out := make([]float64, bins+1)
	for i := range out {
		part := float64(i) / bins
		out[i] = low + (high-low)*part
		if scale == Log {
			out[i] = low * math.Pow(high/low, part)
		}
	}
	out[0], out[bins] = low, high
	return out
}

// Count says how many of the ascending values lie between each two edges; the last edge belongs to the last bin.
// Values outside are left out.
func Count(sorted, edges []float64) []int {
	out := make([]int, max(0, len(edges)-1))
	for i := range out {
		from, _ := slices.BinarySearch(sorted, edges[i])
		to, _ := slices.BinarySearch(sorted, edges[i+1])
		if i == len(out)-1 {
			to, _ = slices.BinarySearch(sorted, math.Nextafter(edges[i+1], math.Inf(1)))
		}
		out[i] = to - from
	}
	return out
}

func extent(all []Named) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, n := range all {
		if len(n.Values) > 0 {
			low, high = math.Min(low, n.Values[0]), math.Max(high, n.Values[len(n.Values)-1])
		}
	}
	if low > high {
		return 0, 0
	}
	return low, high
}

// fit chooses a log scale where the bulk of the samples spreads over more than a factor of 30: on a linear one
// nearly all of them would lie in the first few pixels.
func fit(all []Named) Scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, n := range all {
		if len(n.Values) == 0 {
			continue
		}
		if n.Values[0] <= 0 {
			return Linear
		}
		low = math.Min(low, stats.SortedPercentile(n.Values, 5))
		high = math.Max(high, n.Values[len(n.Values)-1])
	}
	if high > 30*low {
		return Log
	}
	return Linear
}
