package curve

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
)

// Window is the measured part of a run on the clock its records and samples are on.
type Window struct{ Start, End time.Duration }

// WindowOf is the window of a run of the given length.
func WindowOf(run metrics.Run, summary *metrics.Summary) Window {
	return Window{Start: run.Start, End: run.Start + time.Duration(summary.DurationS*float64(time.Second))}
}

// timeAxis is the one all charts of OverTime share.
func timeAxis() Axis {
	return Axis{Name: "Time since the start", Unit: "s", Scale: Linear, Zero: true}
}

// OverTime is a run second by second: what the client saw, and beside it what the server, its GPUs and the host
// said of themselves. All charts have the same time axis. Summary may be nil where only an engine's log is known.
func OverTime(summary *metrics.Summary, recs []call.Record, w Window, seen []observe.Series) []Chart {
	flight := Chart{ID: "time-in-flight", Title: "Requests in flight", Y: Axis{Name: "Requests", Unit: "requests"}}
	tokens := Chart{ID: "time-tokens", Title: "Output token throughput", Y: Axis{Name: "Tokens per second", Unit: "tokens/s"}}
	prompts := Chart{ID: "time-prompt-tokens", Title: "Prompt token throughput", Y: Axis{Name: "Tokens per second", Unit: "tokens/s"}}
	var out []Chart
	if summary != nil {
		cuts := cut(summary.Series, summary.DurationS)
		out = append(out, rates(summary.Series, cuts))
		flight.Lines = append(flight.Lines, level("in flight, client", summary.Series.InFlight, summary.Series.StepS, cuts))
		tokens.Lines = append(tokens.Lines, rate("output, client", summary.Series.Output, cuts))
	}
	var rest []observe.Series
	for _, s := range seen {
		line := sampled(s, w)
		switch {
		case len(line.X) == 0:
		case s.Unit == "requests" && (s.Name == "running" || s.Name == "waiting" || s.Name == "swapped"):
			flight.Lines = append(flight.Lines, line)
		case s.Unit == "requests/s" && len(out) > 0:
			out[0].Lines = append(out[0].Lines, line)
		case s.Unit == "tokens/s" && strings.HasPrefix(s.Name, "prompt"):
			prompts.Lines = append(prompts.Lines, line)
		case s.Unit == "tokens/s":
			tokens.Lines = append(tokens.Lines, line)
		default:
			rest = append(rest, s)
		}
	}
	out = append(out, flight, tokens, prompts)
	if summary != nil {
		out = append(out, latencies(recs, w, summary.Series.StepS))
	}
	slices.SortStableFunc(rest, func(a, b observe.Series) int { return cmp.Compare(distance(a), distance(b)) })
	out = append(out, byUnit(rest, w)...)
	return finish(out)
}

// finish gives the charts their common axis and drops empty ones.
func finish(all []Chart) []Chart {
	out := slices.DeleteFunc(all, func(c Chart) bool { return c.Empty() })
	for i := range out {
		out[i].X = timeAxis()
		out[i].Y.Zero = true
		out[i].Y.Scale = cmp.Or(out[i].Y.Scale, Linear)
	}
	return out
}

// cut are the edges of the steps of a series, in seconds. A last step of less than half the length joins the one
// before: a rate over a few milliseconds says nothing.
func cut(s metrics.Series, duration float64) []float64 {
	n := len(s.Sent)
	out := make([]float64, 0, n+1)
	for i := range n {
		out = append(out, float64(i)*s.StepS)
	}
	end := max(duration, float64(n-1)*s.StepS)
	if n > 1 && end-out[n-1] < s.StepS/2 {
		out = out[:n-1]
	}
	return append(out, end)
}

func rates(s metrics.Series, cuts []float64) Chart {
	c := Chart{ID: "time-rate", Title: "Requests per second", Y: Axis{Name: "Requests per second", Unit: "requests/s"}}
	c.Lines = append(c.Lines, rate("sent", s.Sent, cuts), rate("finished", s.Finished, cuts))
	if slices.Max(append(s.Failed, 0)) > 0 {
		c.Lines = append(c.Lines, rate("failed", s.Failed, cuts))
	}
	return c
}

// rate is counts per second between the cuts. Its area is the number of things counted.
func rate(name string, counts []int, cuts []float64) Line {
	line := Line{Name: name, Kind: Steps, X: cuts, Y: make([]float64, len(cuts))}
	steps := len(cuts) - 1
	for i, n := range counts {
		line.Y[min(i, steps-1)] += float64(n)
	}
	for i := range steps {
		if width := cuts[i+1] - cuts[i]; width > 0 {
			line.Y[i] /= width
		}
	}
	line.Y[steps] = line.Y[steps-1]
	return line
}

// level is a mean over each step; steps that were joined are weighed by their lengths.
func level(name string, means []float64, step float64, cuts []float64) Line {
	line := Line{Name: name, Kind: Steps, X: cuts, Y: make([]float64, len(cuts))}
	steps, end := len(cuts)-1, cuts[len(cuts)-1]
	weights := make([]float64, steps)
	for i, v := range means {
		k := min(i, steps-1)
		width := max(min(step, end-float64(i)*step), 1e-9)
		line.Y[k] += v * width
		weights[k] += width
	}
	for k := range steps {
		line.Y[k] /= max(weights[k], 1e-9)
	}
	line.Y[steps] = line.Y[steps-1]
	return line
}

// latencies are the median and the longest TTFT and TPOT of the requests sent in each step.
func latencies(recs []call.Record, w Window, step float64) Chart {
	c := Chart{
		ID: "time-latency", Title: "Time to first token of the requests sent", Note: "By when a request was sent, exact over each step.",
		Y: Axis{Name: "TTFT", Unit: "ms"},
	}
	at := map[int][]float64{}
	last := 0
	for _, r := range measured(recs) {
		if d, ok := metrics.TTFT(r); ok && r.Outcome == call.OK && step > 0 {
			k := max(0, int((r.Sent-w.Start).Seconds()/step))
			at[k], last = append(at[k], call.Millis(d)), max(last, k)
		}
	}
	if len(at) == 0 {
		return c
	}
	lines := []Line{{Name: "median", Kind: Marks}, {Name: "P90", Kind: Marks}, {Name: "longest", Kind: Marks}}
	for k := range last + 1 {
		xs := at[k]
		if len(xs) == 0 {
			continue
		}
		slices.Sort(xs)
		for i, v := range []float64{stats.SortedMedian(xs), stats.SortedPercentile(xs, 90), xs[len(xs)-1]} {
			lines[i].X = append(lines[i].X, (float64(k)+0.5)*step)
			lines[i].Y = append(lines[i].Y, v)
		}
	}
	c.Lines = lines
	if wide(lines) {
		c.Y.Scale = Log
	}
	return c
}

// maxSamples bounds the points of a sampled series.
const maxSamples = 1200

// words are how people write what series are called.
var words = strings.NewReplacer("_", " ", "kv_", "KV ", "ttft", "TTFT", "itl", "ITL", "e2el", "E2EL", "cpu", "CPU")

// sampled is a series on the time axis of the run, without what lies well before and after it. Shares are
// shown in percent. A long one keeps the lowest and the highest of each stretch.
func sampled(s observe.Series, w Window) Line {
	line := Line{Name: words.Replace(s.Name) + ", " + s.Source, Kind: Path}
	scale := map[string]float64{"share": 100, "bytes": 1.0 / (1 << 30)}[s.Unit]
	if scale == 0 {
		scale = 1
	}
	margin := min(5*time.Second, (w.End-w.Start)/10+time.Second)
	for _, p := range s.Points {
		if w.End > w.Start && (p.At < w.Start-margin || p.At > w.End+margin) {
			continue
		}
		line.X = append(line.X, (p.At - w.Start).Seconds())
		line.Y = append(line.Y, p.Value*scale)
	}
	return Thin(line, maxSamples)
}

// Thin keeps of a long line the lowest and the highest point of each of equal stretches, with both ends.
func Thin(l Line, most int) Line {
	n := len(l.X)
	if n <= most || most < 4 {
		return l
	}
	keep := []int{0, n - 1}
	buckets := (most - 2) / 2
	for b := range buckets {
		from, to := b*n/buckets, (b+1)*n/buckets
		low, high := from, from
		for i := from; i < to; i++ {
			if l.Y[i] < l.Y[low] {
				low = i
			}
			if l.Y[i] > l.Y[high] {
				high = i
			}
		}
		keep = append(keep, low, high)
	}
	slices.Sort(keep)
	out := Line{Name: l.Name, Kind: l.Kind, Faint: l.Faint}
	for _, i := range slices.Compact(keep) {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
	}
	return out
}

// distance is how far from the server's own work a source is: server and log, then GPUs, then the client's host.
func distance(s observe.Series) int {
	switch {
	case s.Source == observe.Host:
		return 2
	case strings.HasPrefix(s.Source, "gpu"):
		return 1
	}
	return 0
}

// place is where a sampled series is drawn: those of one place that are measured alike share a chart.
func place(s observe.Series) (id, title string) {
	where, of := "server", "Server"
	switch {
	case strings.HasPrefix(s.Source, "gpu"):
		where, of = "gpu", "GPU"
	case s.Source == observe.Host:
		where, of = "host", "Client host"
	}
	what := map[string]string{
		"share": "usage", "ms": "times", "W": "power", "requests/s": "requests per second", "1/s": "events per second",
		"bytes": "memory", "celsius": "temperature", "requests": "requests", "MHz": "clock", "cores": "processor cores",
	}[s.Unit]
	return "time-" + where + "-" + slug(cmp.Or(s.Unit, "number")), of + " " + cmp.Or(what, s.Unit, s.Name)
}

// byUnit puts series that are measured alike into one chart.
func byUnit(all []observe.Series, w Window) []Chart {
	var out []Chart
	for _, s := range all {
		id, title := place(s)
		k := slices.IndexFunc(out, func(c Chart) bool { return c.ID == id })
		if k < 0 {
			k = len(out)
			out = append(out, Chart{ID: id, Title: title, Y: Axis{Name: title, Unit: shownUnit(s.Unit)}})
		}
		out[k].Lines = append(out[k].Lines, sampled(s, w))
	}
	for i := range out {
		if out[i].Y.Unit == "ms" && wide(out[i].Lines) {
			out[i].Y.Scale = Log
		}
	}
	return out
}

// wide reports whether positive values spread so far that a linear axis would hide the small ones.
func wide(lines []Line) bool {
	low, high := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.Y {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	return high > 30*low
}

// shownUnit is how a chart writes a unit. Shares are drawn in percent, bytes in GiB.
func shownUnit(unit string) string {
	switch unit {
	case "share":
		return "%"
	case "bytes":
		return "GiB"
	case "celsius":
		return "°C"
	}
	return unit
}

// slug keeps letters and digits.
func slug(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}
