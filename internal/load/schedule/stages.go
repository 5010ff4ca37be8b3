package schedule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stage is a stretch of time with a rate that is constant or moves in a straight line.
type Stage struct {
	For      time.Duration
	From, To float64 // requests per second at its start and end
}

// Stages follow each other without a gap.
type Stages []Stage

var staged = Pattern{
	Name: "stages", About: "rates one after another, each held for a time or moving in a straight line",
	asked: func(r *Run) bool { return len(r.Stages) > 0 },
	check: func(r *Run, c Problems) {
		if len(r.Stages) == 0 {
			return
		}
		c.Clash(!r.RequestRate.Inf(), "stages", "request-rate", "each stage has its own rate")
		c.Clash(r.RampUp != "", "stages", "ramp-up-strategy", "a plan is staged or ramped, not both")
		c.Clash(r.Duration > 0, "stages", "duration", "the stages already say how long the run is")
	},
	plan: func(r *Run) (Plan, string, error) {
		p, err := r.Stages.Plan(float64(r.Burstiness), r.Seed)
		return p.First(r.N), "stages " + r.Stages.String(), err
	},
	rate:  func(r *Run, _ *Plan) float64 { return max(r.Stages.Requests()/r.Stages.Length().Seconds(), 0.1) },
	lasts: func(r *Run) (time.Duration, bool) { return r.Stages.Length(), true },
}

// Bounds on what a plan may ask for: a rate of one per nanosecond is the resolution of due times, and a year is
// longer than anyone waits.
const (
	maxRate = 1e9
	maxFor  = 365 * 24 * time.Hour
)

// ParseStages reads a plan such as "30s@2,60s@8" or "1m@2-8,30s@8": durations, then the rate in requests
// per second or the rates a straight ramp goes between. A duration without a unit is in seconds.
func ParseStages(text string) (Stages, error) {
	var stages Stages
	peak := 0.0
	total := time.Duration(0)
	for i, part := range strings.Split(text, ",") {
		s, err := parseStage(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("stage %d of %q: %w", i+1, clip(text), err)
		}
		if total += s.For; total > maxFor {
			return nil, fmt.Errorf("stages %q take more than a year", clip(text))
		}
		peak = max(peak, s.From, s.To)
		stages = append(stages, s)
	}
	if peak == 0 {
		return nil, fmt.Errorf("stages %q send nothing: every rate is 0", clip(text))
	}
	return stages, nil
}

func parseStage(part string) (Stage, error) {
	if part == "" {
		return Stage{}, errors.New("empty, want DURATION@RATE such as 30s@2")
	}
	length, rates, ok := strings.Cut(part, "@")
	if !ok {
		return Stage{}, fmt.Errorf("%q has no @, want DURATION@RATE such as 30s@2 or 30s@2-8", clip(part))
	}
	d, err := parseLength(strings.TrimSpace(length))
	if err != nil {
		return Stage{}, err
	}
	from, to, ramp := strings.Cut(rates, "-")
	s := Stage{For: d}
	if s.From, err = parseRate(from); err != nil {
		return Stage{}, err
	}
	s.To = s.From
	if ramp {
		if s.To, err = parseRate(to); err != nil {
			return Stage{}, err
		}
	}
	return s, nil
}

func parseLength(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration, want one such as 30s, 1m30s or 500ms", clip(s))
	case d <= 0:
		return 0, fmt.Errorf("the duration must be above 0, got %s", clip(s))
	case d > maxFor:
		return 0, fmt.Errorf("the duration %s is longer than a year", clip(s))
	}
	return d, nil
}

// parseRate takes plain decimals only: an exponent's sign would read as a ramp.
func parseRate(s string) (float64, error) {
	s = strings.TrimSpace(s)
	rate, err := strconv.ParseFloat(s, 64)
	plain := s != "" && strings.Trim(s, "0123456789.") == ""
	switch {
	case strings.EqualFold(s, "inf"):
		return 0, errors.New("a stage cannot send at rate inf; give it a number of requests per second")
	case err != nil || !plain:
		return 0, fmt.Errorf("%q is not a rate, want requests per second such as 2 or 0.5, or a ramp such as 2-8", clip(s))
	case rate > maxRate:
		return 0, fmt.Errorf("the rate %s is above %.0f requests per second", clip(s), maxRate)
	}
	return rate, nil
}

// clip keeps what a message repeats of its input short.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:77], "") + "..."
}

// String is the plan as ParseStages reads it.
func (ss Stages) String() string {
	parts := make([]string, len(ss))
	rate := func(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }
	for i, s := range ss {
		parts[i] = s.For.String() + "@" + rate(s.From)
		if s.To != s.From {
			parts[i] += "-" + rate(s.To)
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText writes the plan as text.
func (ss Stages) MarshalText() ([]byte, error) { return []byte(ss.String()), nil }

// UnmarshalText reads the plan from text.
func (ss *Stages) UnmarshalText(text []byte) (err error) {
	*ss, err = ParseStages(string(text))
	return err
}

// Length is the time all stages take.
func (ss Stages) Length() time.Duration {
	var d time.Duration
	for _, s := range ss {
		d += s.For
	}
	return d
}

// Requests is the number of requests the stages ask for: the area under the rate. Evenly spaced arrivals
// give it rounded up, random ones give it on average.
func (ss Stages) Requests() float64 {
	var n float64
	for _, s := range ss {
		n += s.area()
	}
	return n
}

func (s Stage) area() float64 { return float64((s.From + s.To) / 2 * s.For.Seconds()) }

// after returns the time within the stage at which the area under its rate reaches a. Written this way it
// needs no case for a constant rate and loses no digits when the slope is small.
func (s Stage) after(a float64) float64 {
	slope := (s.To - s.From) / s.For.Seconds()
	root := math.Sqrt(max(0, float64(s.From*s.From)+2*float64(slope*a)))
	if s.From+root == 0 {
		return 0
	}
	return 2 * a / (s.From + root)
}

// Plan has arrivals whose rate follows the stages: a process of one arrival per unit is mapped through the area
// under the rate, so that a ramp is exact in time and a gap may span stages. Burstiness is as in Gamma.
func (ss Stages) Plan(burstiness float64, seed uint32) (Plan, error) {
	if err := checkBurstiness(burstiness); err != nil {
		return Plan{}, err
	}
	if len(ss) == 0 {
		return Plan{}, errors.New("no stages given")
	}
	return Plan{Until: ss.Length(), Due: func(yield func(time.Duration) bool) {
		start, before, i := time.Duration(0), 0.0, 0 // the stage, its start and the area before it
		for u := range unitTimes(burstiness, seed) {
			for i < len(ss) && u-before >= ss[i].area() {
				before += ss[i].area()
				start += ss[i].For
				i++
			}
			if i == len(ss) {
				return
			}
			within := min(duration(ss[i].after(u-before)), ss[i].For-1)
			if !yield(start + within) {
				return
			}
		}
	}}, nil
}
