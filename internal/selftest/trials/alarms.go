package trials

import "spate/internal/search/capacity"

// Alarm is how often probes of a load were ended because "the queue grows".
type Alarm struct {
	Share  float64 `json:"share_of_capacity"` // the load over the rate the server can serve
	Probes int     `json:"probes"`
	Ended  int     `json:"ended_early"`
}

// Alarms makes probes below, at and above the rate at which the queue begins to grow, which is the truth of a
// scenario whose bound nothing else reaches. Ended ones below it are false alarms; above it, the others are misses.
func Alarms(sc Scenario, truth Truth, probes int, seed uint64) ([]Alarm, error) {
	s, err := sc.open()
	if err != nil {
		return nil, err
	}
	var out []Alarm
	for _, share := range []float64{0.8, 0.9, 0.95, 1, 1.1, 1.25, 1.5, 2} {
		a := Alarm{Share: share, Probes: probes}
		load := share * truth.Low
		for i := range probes {
			p := capacity.Probe{Load: load, Repeat: i + 1, Times: 1}
			_, c, err := s.probe(p, capacity.Requests(load, probeTime, s.By), seed+uint64(i))
			if err != nil {
				return nil, err
			}
			if c.full {
				a.Ended++
			}
		}
		out = append(out, a)
	}
	return out, nil
}
