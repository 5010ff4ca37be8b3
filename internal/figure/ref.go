package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/nearest"
)

// Ref names one number of a run: a figure, and a statistic where the figure has them.
type Ref struct {
	*Figure
	Stat string  // mean, median, std, min, max or pNN; empty for a figure of one number
	P    float64 // the NN of pNN; 50 for the median
}

// Value is a number of a run.
type Value struct {
	V         float64
	OK        bool           // the run has one
	CI        *metrics.Range // 95 % interval; nil where none is known
	Count, Of int            // of a ratio: what was counted, out of how many
}

// statistics are those that a key may begin with besides percentiles.
var statistics = []string{"mean", "median", "std", "min", "max"}

// Unknown is a key that names no figure.
type Unknown struct {
	Key     string
	Nearest string // what may have been meant; empty: nothing is near
}

func (e *Unknown) Error() string {
	text := fmt.Sprintf("unknown metric %q", e.Key)
	if e.Nearest != "" {
		text += fmt.Sprintf(": did you mean %q?", e.Nearest)
	}
	return text
}

// Find reads a key: output_throughput, p99_ttft_ms or p99_ttft. Capitals do not matter, nor whether words are joined by
// - or _. The error of a key that means nothing is an *Unknown.
func Find(key string) (Ref, error) {
	key = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(key)), "-", "_")
	if f := spelled(key); f != nil && f.dist == nil {
		return Ref{Figure: f}, nil
	}
	stat, name, _ := strings.Cut(key, "_")
	f := spelled(name)
	if short, ok := strings.CutSuffix(name, "_ms"); ok && f == nil {
		f = spelled(short)
	}
	if f == nil || f.dist == nil {
		return Ref{}, &Unknown{Key: key, Nearest: nearest.Word(key, Keys())}
	}
	p, isP := percentile(stat)
	switch {
	case isP:
		return f.At(p), nil
	case slices.Contains(statistics, stat):
		return f.Stat(stat), nil
	}
	return Ref{}, fmt.Errorf("unknown statistic %q: use mean, median, std, min, max or a percentile such as p99", stat)
}

// Must is Find of a key that the program itself has.
func Must(key string) Ref {
	r, err := Find(key)
	if err != nil {
		panic(err)
	}
	return r
}

// List is Must of several keys.
func List(keys ...string) []Ref {
	out := make([]Ref, len(keys))
	for i, k := range keys {
		out[i] = Must(k)
	}
	return out
}

// spelled finds a figure by its name or another spelling of it.
func spelled(name string) *Figure {
	for i := range catalogue {
		if f := &catalogue[i]; f.Name == name || slices.Contains(f.Also, name) {
			return f
		}
	}
	return nil
}

// percentile reads p99 or p99.9.
func percentile(stat string) (float64, bool) {
	digits, ok := strings.CutPrefix(stat, "p")
	if !ok || strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	p, err := strconv.ParseFloat(digits, 64)
	return p, err == nil && p >= 0 && p <= 100
}

// Stat is a statistic of the figure: mean, median, std, min or max.
func (f *Figure) Stat(stat string) Ref {
	r := Ref{Figure: f, Stat: stat}
	if stat == "median" {
		r.P = 50
	}
	return r
}

// At is a percentile of the figure.
func (f *Figure) At(p float64) Ref { return Ref{Figure: f, Stat: stats.PercentileName(p), P: p} }

// Percentile is the percentile that the number is, which a run must have been asked to compute.
func (r Ref) Percentile() (float64, bool) {
	return r.P, r.Stat == "median" || strings.HasPrefix(r.Stat, "p")
}

// Key is the number's name in vLLM's result file, or as vLLM would spell it: p99_ttft_ms.
func (r Ref) Key() string {
	switch {
	case r.Figure == nil:
		return ""
	case r.Stat == "":
		return r.Name
	case r.Unit == Milliseconds:
		return r.Stat + "_" + r.Name + "_ms"
	}
	return r.Stat + "_" + r.Name
}

// Keys lists what users may write: the usual statistics of every figure that has them, then the other figures.
func Keys() []string {
	var out, plain []string
	for i := range catalogue {
		f := &catalogue[i]
		if f.dist == nil {
			plain = append(append(plain, f.Name), f.Also...)
			continue
		}
		for _, s := range append([]string{"p50", "p90", "p95", "p99"}, statistics...) {
			out = append(out, s+"_"+f.Name)
		}
	}
	return append(out, plain...)
}

// Headlines are the figures kept with every result, in vLLM's order, with some statistics of those that have them.
func Headlines(stats ...string) []Ref {
	var out []Ref
	for i := range catalogue {
		if f := &catalogue[i]; f.headline && f.dist == nil {
			out = append(out, Ref{Figure: f})
		}
	}
	return append(out, Stats(stats...)...)
}

// Stats are some statistics of the four latencies that every tool reports.
func Stats(stats ...string) []Ref {
	var out []Ref
	for _, name := range Latencies() {
		for _, s := range stats {
			out = append(out, Must(s+"_"+name))
		}
	}
	return out
}

// Of is the number that a run's summary has.
func (r Ref) Of(s *metrics.Summary) Value {
	switch {
	case r.Figure == nil:
		return Value{}
	case r.dist != nil:
		return r.of(r.dist(s))
	case r.value != nil:
		return r.value(s)
	}
	switch at := r.at(s).(type) {
	case *float64:
		return Value{V: *at, OK: true}
	case *int:
		return Value{V: float64(*at), OK: true}
	case **float64:
		if *at != nil {
			return Value{V: **at, OK: true}
		}
	}
	return Value{}
}

// Put writes the number into a summary: for stores, which keep a run's figures apart from the rest of its summary. It
// does nothing where a number is computed from others, or is a percentile that the summary does not have.
func (r Ref) Put(s *metrics.Summary, v float64) {
	switch {
	case r.Figure == nil:
	case r.dist != nil:
		r.put(r.dist(s), v)
	case r.at != nil:
		switch at := r.at(s).(type) {
		case *float64:
			*at = v
		case *int:
			*at = int(v)
		case **float64:
			*at = &v
		}
	}
}

func (r Ref) put(d *metrics.Dist, v float64) {
	switch r.Stat {
	case "mean":
		d.Mean = v
	case "median":
		d.Median = v
	case "std":
		d.Std = v
	case "min":
		d.Min = v
	case "max":
		d.Max = v
	default:
		if i := slices.IndexFunc(d.Percentiles, func(q metrics.Quantile) bool { return q.P == r.P }); i >= 0 {
			d.Percentiles = slices.Clone(d.Percentiles) // whoever else has the summary keeps its own
			d.Percentiles[i].Value = v
		}
	}
}

// of reads a distribution. Intervals are by bootstrap where there is one, else by order statistics.
func (r Ref) of(d *metrics.Dist) Value {
	v := Value{OK: d.N > 0}
	ci := func(of func(*metrics.CI) metrics.Range) {
		if d.CI95 != nil {
			in := of(d.CI95)
			v.CI = &in
		}
	}
	switch r.Stat {
	case "mean":
		v.V = d.Mean
		ci(func(c *metrics.CI) metrics.Range { return c.Mean })
	case "median":
		v.V = d.Median
		ci(func(c *metrics.CI) metrics.Range { return c.Median })
	case "std":
		v.V = d.Std
	case "min":
		v.V = d.Min
	case "max":
		v.V = d.Max
	default:
		q, ok := d.At(r.P)
		v.V, v.OK = q.Value, v.OK && ok && !q.Infinite
		switch {
		case r.P == 50:
			ci(func(c *metrics.CI) metrics.Range { return c.Median })
		case r.P == 90:
			ci(func(c *metrics.CI) metrics.Range { return c.P90 })
		case r.P == 99:
			ci(func(c *metrics.CI) metrics.Range { return c.P99 })
		}
		if v.CI == nil && q.Low != nil && q.High != nil {
			v.CI = &metrics.Range{*q.Low, *q.High}
		}
	}
	return v
}

// Values are the numbers of a run by their keys; those it does not have are left out.
func Values(s *metrics.Summary, refs []Ref) map[string]float64 {
	out := map[string]float64{}
	for _, r := range refs {
		if v := r.Of(s); v.OK && !math.IsNaN(v.V) && !math.IsInf(v.V, 0) {
			out[r.Key()] = v.V
		}
	}
	return out
}

// Short is the number's name above a narrow column: "P99 TTFT", "out tok/s".
func (r Ref) Short() string {
	switch {
	case r.Stat != "":
		return r.word() + " " + r.Label
	case r.Head != "":
		return r.Head
	}
	return r.Label
}

// ShortUnit is Short with the unit, where Short does not have it yet.
func (r Ref) ShortUnit() string {
	if r.Stat == "" {
		return r.Short()
	}
	return r.Short() + " " + string(r.Unit)
}

// Words is the number's name in a sentence: "P99 TTFT", "output throughput".
func (r Ref) Words() string {
	if r.Stat != "" {
		return r.Short()
	}
	return r.Label
}

// Long is the number's name above a wide column: "P99 TTFT (ms)", "Output Token Throughput (tok/s)".
func (r Ref) Long() string {
	text := r.Words()
	switch {
	case r.Stat == "" && r.Title != "":
		return r.Title
	case r.Unit != Count:
		text += " (" + string(r.Unit) + ")"
	}
	return Capital(text)
}

// BlockRow is the label of the number's row in vLLM's block: "P99 TTFT (ms)", "Output token throughput (tok/s)".
func (r Ref) BlockRow() string {
	if r.Stat == "" {
		return r.Row()
	}
	return r.Long()
}

// word is the statistic for people: mean, P99.
func (r Ref) word() string {
	if _, ok := strings.CutPrefix(r.Stat, "p"); ok {
		return "P" + r.Stat[1:]
	}
	return r.Stat
}

// Whole reports whether the number is a count.
func (r Ref) Whole() bool { return r.Unit == Count }

// Capital is a text that begins with a capital letter.
func Capital(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Counted is a number with what it counts, as in "1 run" and "3 runs".
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
