package suggest

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"spate/internal/rng"
)

// Weight is how much of the differences between scores a parameter accounts for by itself.
type Weight struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // 0 to 1; what chance alone would give is taken off
	Low   float64 `json:"low"`   // of its 90 % interval
	High  float64 `json:"high"`
	Best  string  `json:"best"` // the value, or range of values, with the best scores
}

const (
	groups    = 4 // numbers are told apart as so many ranges
	resamples = 200
)

// EnoughToWeigh is how many trials of one length have to run before parameters are weighed: two in each range.
const EnoughToWeigh = 2 * groups

// Alike are the trials that parameters are weighed by: those that ran with one share of the requests, since scores of
// others do not compare. It is the largest share of which there are enough; where there is none, that of most trials.
func Alike(history []Trial) (trials []*Trial, share float64) {
	of := map[float64][]*Trial{}
	for i := range history {
		if t := &history[i]; !t.Failed {
			s := t.Share
			if t.full() {
				s = 1
			}
			of[s] = append(of[s], t)
		}
	}
	for _, s := range slices.Backward(slices.Sorted(maps.Keys(of))) {
		if len(of[s]) >= EnoughToWeigh {
			return of[s], s
		}
		if len(of[s]) > len(trials) {
			trials, share = of[s], s
		}
	}
	return trials, share
}

// Importance says how much each parameter mattered among comparable trials, the most important first. Scores count by
// rank, so that one very bad trial does not decide alone. With few trials the intervals are wide.
func Importance(space *Space, history []Trial, seed uint64) []Weight {
	trials, _ := Alike(history)
	if len(trials) < EnoughToWeigh {
		return nil
	}
	ranks := rankScores(trials)
	var out []Weight
	for i := range space.Params {
		p := &space.Params[i]
		labels := p.groups(trials)
		w := Weight{Name: p.Name, Share: between(labels, ranks), Best: bestGroup(labels, ranks)}
		draw := rng.New(seed, "importance", uint64(i))
		w.Low, w.High = interval(draw, labels, ranks)
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(a, b Weight) int { return cmp.Compare(b.Share, a.Share) })
	return out
}

// rankScores are places in the order of scores, the worst first; equal scores share one.
func rankScores(trials []*Trial) []float64 {
	order := make([]int, len(trials))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return Better(trials[b], trials[a]) })
	out := make([]float64, len(trials))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && Better(trials[order[i]], trials[order[j]]) == 0 {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}

// groups are the value of each trial, numbers as ranges with about equally many trials.
func (p *Param) groups(trials []*Trial) []string {
	out := make([]string, len(trials))
	if p.values() > 0 {
		for i, t := range trials {
			out[i] = t.Settings[p.Name]
		}
		return out
	}
	var values []float64
	for _, t := range trials {
		if text, ok := t.Settings[p.Name]; ok {
			values = append(values, p.unit(text))
		}
	}
	slices.Sort(values)
	for i, t := range trials {
		text, ok := t.Settings[p.Name]
		if !ok {
			continue
		}
		at, _ := slices.BinarySearch(values, p.unit(text))
		k := at * groups / len(values)
		low, high := values[k*len(values)/groups], values[min((k+1)*len(values)/groups, len(values)-1)]
		out[i] = p.text(low) + " to " + p.text(high)
	}
	return out
}

// between is the share of variance between groups, less what chance gives (omega squared).
func between(labels []string, values []float64) float64 {
	sums, counts := map[string]float64{}, map[string]int{}
	mean := 0.0
	for i, l := range labels {
		sums[l] += values[i]
		counts[l]++
		mean += values[i] / float64(len(values))
	}
	within, total := 0.0, 0.0
	for i, l := range labels {
		d := values[i] - sums[l]/float64(counts[l])
		within += d * d
		total += (values[i] - mean) * (values[i] - mean)
	}
	k, n := float64(len(sums)), float64(len(values))
	if total == 0 || n <= k {
		return 0
	}
	noise := within / (n - k)
	return max(0, (total-within-(k-1)*noise)/(total+noise))
}

func bestGroup(labels []string, values []float64) string {
	sums, counts := map[string]float64{}, map[string]int{}
	for i, l := range labels {
		sums[l] += values[i]
		counts[l]++
	}
	best := ""
	for _, l := range labels { // in the order of trials, so that ties do not depend on the map
		if best == "" || sums[l]/float64(counts[l]) > sums[best]/float64(counts[best]) {
			best = l
		}
	}
	return best
}

// interval draws trials again and again and takes the middle 90 % of what they give.
func interval(draw *rand.Rand, labels []string, values []float64) (low, high float64) {
	shares := make([]float64, resamples)
	someLabels, someValues := make([]string, len(labels)), make([]float64, len(values))
	for k := range shares {
		for i := range labels {
			j := draw.IntN(len(labels))
			someLabels[i], someValues[i] = labels[j], values[j]
		}
		shares[k] = between(someLabels, someValues)
	}
	slices.Sort(shares)
	return shares[resamples/20], shares[resamples-1-resamples/20]
}
