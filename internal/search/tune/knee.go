package tune

import (
	"math"
	"slices"
	"strconv"
)

// KneeFound is how much load the default carries.
type KneeFound struct {
	Rate   float64 `json:"rate"` // highest that it kept; 0: none yet
	Above  float64 `json:"lowest_missed"`
	Burst  float64 `json:"all_at_once"` // requests per second when all are sent at once
	Probes int     `json:"probes"`
	Why    string  `json:"why,omitempty"` // what was missed above
}

const (
	kneeProbes = 9
	kneeGap    = 1.1 // between the two ends, at which it is near enough
	firstGuess = 0.7 // of what a burst gets through
)

// kneeStep is the next probe of the default's knee; false when it is known.
func (t *Tuner) kneeStep(history []Observation) (Step, bool) {
	list := counting(pick(history, Knee))
	step := Step{N: len(history), Phase: Knee, Settings: t.File.Defaults(), Share: t.File.Shares[0]}
	k := KneeOf(history)
	switch {
	case k.Probes == 0:
		step.Rate = math.MaxFloat32 // all at once
		return step, true
	case k.Burst == 0 || k.Probes >= kneeProbes:
		return step, false
	case len(list) == 1:
		step.Rate = firstGuess * k.Burst
	case k.Rate == 0:
		step.Rate = k.Above / 2
	case k.Above/k.Rate <= kneeGap:
		return step, false
	default:
		step.Rate = math.Sqrt(k.Rate * k.Above)
	}
	step.Rate = round3(step.Rate)
	return step, true
}

// KneeOf reads the knee off the probes of a history.
func KneeOf(history []Observation) KneeFound {
	list := pick(history, Knee)
	k := KneeFound{Probes: len(list)}
	list = counting(list)
	alone := 0.0 // latency at the lowest load
	low := math.Inf(1)
	for i := range list {
		if o := &list[i]; o.Rate < low {
			low, alone = o.Rate, sumFigures(o, "mean_e2el_ms")/1e3
		}
	}
	for i := range list {
		o := &list[i]
		switch {
		case i == 0:
			k.Burst = sumFigures(o, "request_throughput")
			k.Above = 1.1 * k.Burst
			k.Why = "all at once it gets through " + strconv.FormatFloat(k.Burst, 'g', 3, 64) + " requests per second"
		case o.Violation > 0:
			if o.Rate < k.Above {
				k.Above, k.Why = o.Rate, o.Missed[0]
			}
		case !keptUp(o, alone):
			if o.Rate < k.Above {
				k.Above, k.Why = o.Rate, "the queue grew"
			}
		default:
			k.Rate = max(k.Rate, o.Rate)
		}
	}
	if k.Rate > k.Above { // noise: a higher load was kept after a lower one was not
		k.Rate = k.Above
	}
	return k
}

// counting are the observations that something may be decided from.
func counting(list []Observation) []Observation {
	return slices.DeleteFunc(list, func(o Observation) bool { return !o.Counts() })
}

// keptUp reports whether answers came as fast as requests did: the run ended soon after its last arrival.
func keptUp(o *Observation, alone float64) bool {
	for _, r := range o.Runs {
		sending := r.Figures["completed"] / o.Rate
		if r.Figures["duration"] > 1.15*sending+3*alone {
			return false
		}
	}
	return true
}

func sumFigures(o *Observation, name string) float64 {
	sum := 0.0
	for _, r := range o.Runs {
		sum += r.Figures[name]
	}
	if len(o.Runs) > 0 && name != "duration" {
		sum /= float64(len(o.Runs))
	}
	return sum
}

// round3 keeps three digits, so that rates can be typed.
func round3(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
