// Package clock computes how far two clocks are apart, from questions that one side stamps before and after and the
// other side stamps in between. It reads no clock itself: package link asks, package worker keeps the estimates of a
// run, and the report states the uncertainty.
//
// The arithmetic is that of every such protocol: an answer that took a round trip R was stamped by the other side
// somewhere within it, so the midpoint is wrong by at most R/2. The fastest of many exchanges therefore bounds best.
package clock

import (
	"errors"
	"time"
)

// Exchange is one question: when it was asked and answered on the own clock, and what the other clock showed between.
type Exchange struct {
	Asked, Answered time.Duration // on the own clock
	Theirs          time.Duration // on the other clock
}

// RoundTrip is how long the answer took.
func (e Exchange) RoundTrip() time.Duration { return e.Answered - e.Asked }

// Offset is what must be added to the own clock to get the other one, if the question took as long as the answer.
func (e Exchange) Offset() time.Duration { return e.Theirs - e.Asked - e.RoundTrip()/2 }

// Estimate is the offset as one burst of exchanges shows it.
type Estimate struct {
	At        time.Duration `json:"at_ns"`         // on the own clock
	Offset    time.Duration `json:"offset_ns"`     // other clock less own clock
	RoundTrip time.Duration `json:"round_trip_ns"` // of the fastest exchange; the offset is within half of it
	Exchanges int           `json:"exchanges"`
}

// Best is the estimate of the fastest exchange. One whose answer came before its question is no exchange.
func Best(all []Exchange) (Estimate, error) {
	var best Estimate
	for _, e := range all {
		if e.RoundTrip() < 0 {
			continue
		}
		if best.Exchanges == 0 || e.RoundTrip() < best.RoundTrip {
			best.At, best.Offset, best.RoundTrip = e.Asked+e.RoundTrip()/2, e.Offset(), e.RoundTrip()
		}
		best.Exchanges++
	}
	if best.Exchanges == 0 {
		return best, errors.New("no exchange of clocks was answered")
	}
	return best, nil
}

// Quality is how well a run's clock agreed with the other one.
type Quality struct {
	Offset      time.Duration `json:"offset_ns"`      // that the run used
	Drift       float64       `json:"drift_ppm"`      // how fast the offset grew, in millionths; 0 with fewer than two estimates
	Uncertainty time.Duration `json:"uncertainty_ns"` // no stamp of the run is further from the other clock than this
	Exchanges   int           `json:"exchanges"`
}

// Judge says how far stamps can be wrong that were all shifted by the first estimate's offset. Each later estimate shows
// where the other clock was then, to within half its round trip; the worst of them is the uncertainty of the run.
func Judge(estimates []Estimate) Quality {
	if len(estimates) == 0 {
		return Quality{}
	}
	q := Quality{Offset: estimates[0].Offset, Drift: drift(estimates)}
	for _, e := range estimates {
		q.Uncertainty = max(q.Uncertainty, (e.Offset-q.Offset).Abs()+(e.RoundTrip+1)/2)
		q.Exchanges += e.Exchanges
	}
	return q
}

// drift is the slope of the least-squares line through the offsets, in millionths.
func drift(estimates []Estimate) float64 {
	var n, sx, sy, sxx, sxy float64
	from := estimates[0]
	for _, e := range estimates {
		x, y := (e.At - from.At).Seconds(), (e.Offset - from.Offset).Seconds()
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d * 1e6
	}
	return 0
}
