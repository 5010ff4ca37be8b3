package trace

import (
	"math"
	"slices"
	"time"
)

// Spread is what lengths look like.
type Spread struct {
	Total int64   `json:"total"`
	Min   int     `json:"min"`
	Mean  float64 `json:"mean"`
	P50   int     `json:"p50"`
	P90   int     `json:"p90"`
	P99   int     `json:"p99"`
	Max   int     `json:"max"`
	Bars  []Bar   `json:"histogram"`
}

// Bar counts the lengths of at least From and below To.
type Bar struct {
	From  int `json:"from"`
	To    int `json:"to"`
	Count int `json:"count"`
}

// SpreadOf looks at lengths. Bars double in width, from 1 on; 0 has a bar of its own.
func SpreadOf(lengths []int) Spread {
	if len(lengths) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(lengths))
	at := func(share float64) int { return s[max(0, int(math.Ceil(share*float64(len(s))))-1)] }
	out := Spread{Min: s[0], P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: s[len(s)-1]}
	for _, n := range s {
		out.Total += int64(n)
		bar := Bar{From: 0, To: 1}
		for bar.To <= n {
			bar.From, bar.To = bar.To, 2*bar.To
		}
		if last := len(out.Bars) - 1; last < 0 || out.Bars[last].From != bar.From {
			out.Bars = append(out.Bars, bar)
		}
		out.Bars[len(out.Bars)-1].Count++
	}
	out.Mean = float64(out.Total) / float64(len(s))
	return out
}

// Arrivals is how requests come.
type Arrivals struct {
	Span    time.Duration `json:"span_ns"`
	Rate    float64       `json:"per_second"`  // over the span; 0 where all come at once
	Peak    int           `json:"most_in_1_s"` // in any one second, counted from the first
	GapCV   float64       `json:"gap_cv"`      // spread of the gaps over their mean: 1 for Poisson, 0 for even ones
	Longest time.Duration `json:"longest_gap_ns"`
}

// ArrivalsOf looks at times in ascending order.
func ArrivalsOf(times []time.Duration) Arrivals {
	if len(times) == 0 {
		return Arrivals{}
	}
	a := Arrivals{Span: times[len(times)-1] - times[0]}
	if a.Span > 0 {
		a.Rate = float64(len(times)-1) / a.Span.Seconds()
	}
	perSecond := map[time.Duration]int{}
	var sum, squares float64
	for i, t := range times {
		second := (t - times[0]) / time.Second
		perSecond[second]++
		a.Peak = max(a.Peak, perSecond[second])
		if i > 0 {
			gap := t - times[i-1]
			a.Longest = max(a.Longest, gap)
			sum += gap.Seconds()
			squares += gap.Seconds() * gap.Seconds()
		}
	}
	if n := float64(len(times) - 1); n > 0 && sum > 0 {
		mean := sum / n
		a.GapCV = math.Sqrt(max(0, squares/n-mean*mean)) / mean
	}
	return a
}
