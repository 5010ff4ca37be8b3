package picture

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/result"
	"spate/internal/view/curve"
)

// most is how many charts a picture has unless they are named.
const most = 4

// Charts are the charts of a set: curves over load where there are several loads, distributions where
// there are records. ids names those wanted; none takes the first few.
func Charts(set []result.Entry, ids []string) ([]curve.Chart, error) {
	all, err := every(set)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return all[:min(len(all), most)], nil
	}
	var out []curve.Chart
	for _, id := range ids {
		i := slices.IndexFunc(all, func(c curve.Chart) bool { return c.ID == id })
		if i < 0 {
			names := make([]string, len(all))
			for k := range all {
				names[k] = all[k].ID
			}
			return nil, fmt.Errorf("--charts %s: these results have %s", id, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// every are all charts there are points for, the most telling first.
func every(set []result.Entry) ([]curve.Chart, error) {
	var out []curve.Chart
	add := func(c curve.Chart) {
		if !c.Empty() {
			out = append(out, c)
		}
	}
	if len(set) > 1 {
		groups := curve.Groups(set, nil)
		for _, stat := range curve.Stats() {
			for _, l := range curve.Latencies() {
				add(curve.LoadCurve(set, groups, curve.Loads()[0], l, stat))
			}
		}
		add(curve.Pareto(set, groups))
	}
	spreads, err := spreads(set)
	if err != nil {
		return nil, err
	}
	for _, c := range spreads {
		add(c)
	}
	return out, nil
}

// spreads are the distributions of the runs that kept records.
func spreads(set []result.Entry) ([]curve.Chart, error) {
	names := curve.Legend(set)
	samples := map[curve.Latency][]curve.Named{}
	for i := range set {
		recs, err := set[i].Records()
		if err != nil {
			return nil, err
		}
		if recs == nil {
			continue
		}
		s := curve.SamplesOf(recs, set[i].Run.Plan.Metrics())
		for _, l := range curve.Latencies() {
			if values := s.Of(l); len(values) > 0 {
				samples[l] = append(samples[l], curve.Named{Name: names[i], Values: values})
			}
		}
	}
	var cdfs, others []curve.Chart
	for _, l := range curve.Latencies() {
		if len(samples[l]) == 0 {
			continue
		}
		cdfs = append(cdfs, curve.CDFs(l, samples[l]))
		others = append(others, curve.Ladder(l, samples[l], nil), curve.Histograms(l, samples[l]))
	}
	return append(cdfs, others...), nil
}
