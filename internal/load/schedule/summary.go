package schedule

import (
	"math"
	"time"
)

// Summary is a plan at a glance, for a dry run.
type Summary struct {
	Open     bool          // it has no end of its own, so nothing below but the first is known
	Closed   bool          // a closed loop: when requests are due depends on the server
	Count    int           // requests
	First    time.Duration // when the first is due
	Last     time.Duration // when the last is due
	MeanRate float64       // requests per second, over Until where there is one and up to Last otherwise
	Bucket   time.Duration // width of a bar of the histogram
	PerBar   []int         // requests due in each bar
	Sampled  bool          // only the first requests were looked at: Count, Last and the bars are extended from them
}

// most bounds how many requests a summary looks at.
const most = 2_000_000

// maxBars bounds the histogram; when it is full, neighbours are merged and bars become twice as wide.
const maxBars = 12

// Summary walks the plan once, to its end or as far as that takes a moment. A plan without any end is looked
// at up to its first request only.
func (p Plan) Summary() Summary {
	s := Summary{Bucket: time.Second}
	if p.Due == nil {
		s.Closed, s.Count, s.Open = true, p.N, p.N == 0 && p.Until == 0
		return s
	}
	s.Open = p.N == 0 && p.Until == 0
	for t := range p.Due {
		if s.Count == 0 {
			s.First = t
		}
		s.Count++
		s.Last = t
		s.add(t)
		if s.Open || s.Count == p.N {
			break
		}
		if s.Count == most {
			s.extend(p)
			break
		}
	}
	if s.Open {
		return Summary{Open: true, First: s.First}
	}
	span := s.Last
	if p.Until > 0 && (p.N == 0 || s.Count < p.N) {
		span = p.Until
	}
	if span > 0 {
		s.MeanRate = float64(s.Count) / span.Seconds()
	}
	return s
}

// extend makes what was seen of a plan stand for all of it.
func (s *Summary) extend(p Plan) {
	s.Sampled = true
	factor := math.Inf(1)
	if p.N > 0 {
		factor = float64(p.N) / float64(s.Count)
	}
	if p.Until > 0 && s.Last > 0 {
		factor = min(factor, float64(p.Until)/float64(s.Last))
	}
	if math.IsInf(factor, 1) {
		return
	}
	s.Count = int(math.Round(float64(s.Count) * factor))
	s.Last = duration(s.Last.Seconds() * factor)
	s.Bucket = duration(s.Bucket.Seconds() * factor)
	for i, n := range s.PerBar {
		s.PerBar[i] = int(math.Round(float64(n) * factor))
	}
}

// add counts t, widening the bars until it fits.
func (s *Summary) add(t time.Duration) {
	for t/s.Bucket >= maxBars {
		half := (len(s.PerBar) + 1) / 2
		for i := range half {
			n := s.PerBar[2*i]
			if 2*i+1 < len(s.PerBar) {
				n += s.PerBar[2*i+1]
			}
			s.PerBar[i] = n
		}
		s.PerBar = s.PerBar[:half]
		s.Bucket *= 2
	}
	for len(s.PerBar) <= int(t/s.Bucket) {
		s.PerBar = append(s.PerBar, 0)
	}
	s.PerBar[t/s.Bucket]++
}
