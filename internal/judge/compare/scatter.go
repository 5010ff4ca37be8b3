package compare

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"spate/internal/judge/stats"
)

// Scatter is how one metric varied over repeats of one setting.
type Scatter struct {
	Name string  `json:"metric"`
	Unit string  `json:"unit"`
	Mean float64 `json:"mean"` // geometric where all values are above zero
	Low  float64 `json:"min"`
	High float64 `json:"max"`

	// CV is the relative standard deviation of a single run, Half the relative half width of the 95 %
	// interval of the mean, both in percent.
	CV   *float64 `json:"cv_pct"`
	Half *float64 `json:"mean_ci95_half_pct"`
}

// Spread says how far repeats lie apart.
func Spread(samples []Sample, metrics []string) ([]Scatter, error) {
	defs, err := readMetrics(metrics)
	if err != nil {
		return nil, err
	}
	var group []*measured
	for i := range samples {
		group = append(group, take(&samples[i], defs))
	}
	var out []Scatter
	for _, d := range defs {
		mean, ok := middle(group, d.name)
		if !ok {
			continue
		}
		s := Scatter{Name: d.name, Unit: d.unit, Mean: mean, Low: math.Inf(1), High: math.Inf(-1)}
		for _, t := range group {
			if v, ok := t.values[d.name]; ok {
				s.Low, s.High = min(s.Low, v), max(s.High, v)
			}
		}
		if xs := logValues(group, d.name); len(xs) == len(group) && len(xs) > 1 {
			one := runScatter(xs)
			s.CV = finite(100 * one.se * math.Sqrt(float64(len(xs))))
			s.Half = percent(stats.CriticalT(one.df, Confidence) * one.se)
		}
		out = append(out, s)
	}
	return out, nil
}

// WriteSpread prints how far repeats lie apart.
func WriteSpread(w io.Writer, runs int, list []Scatter) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) } // Flush tells
	put("%d RUNS\tMEAN\tMIN\tMAX\tVARIES BY\tMEAN KNOWN TO\n", runs)
	text := func(sign string, v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%s%.1f %%", sign, *v)
	}
	for _, s := range list {
		m := Metric{Name: s.Name, Unit: s.Unit}
		put("%s\t%s\t%s\t%s\t%s\t%s\n", m.label(), digits(s.Mean), digits(s.Low), digits(s.High), text("", s.CV), text("±", s.Half))
	}
	return t.Flush()
}

// WriteFloors prints what was learned of a place.
func (p *Place) WriteFloors(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format, args...) } // Flush tells
	put("METRIC\tEQUAL RUNS STAY WITHIN\tKNOWN FROM\n")
	for i := range p.Metrics {
		l := &p.Metrics[i]
		put("%s\t±%.1f %%\t%d differences\n", l.Name, l.Floor(), l.DF)
	}
	return t.Flush()
}
