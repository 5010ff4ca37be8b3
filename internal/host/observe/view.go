package observe

import (
	"slices"
	"time"
)

// view is one source's samples, in order, seen through the measured window.
type view struct {
	samples  []Sample
	from, to time.Duration
}

// points are the samples of one quantity.
func (v *view) points(name string) []Point {
	var out []Point
	for _, s := range v.samples {
		if x, ok := s.Values[name]; ok {
			out = append(out, Point{s.At, x})
		}
	}
	return out
}

// at is the value at a time, on the straight line between the samples around it, or that of the nearest.
func at(points []Point, t time.Duration) float64 {
	for i, p := range points {
		if p.At < t {
			continue
		}
		if i == 0 || p.At == t {
			return p.Value
		}
		before := points[i-1]
		share := float64(t-before.At) / float64(p.At-before.At)
		return before.Value + share*(p.Value-before.Value)
	}
	return points[len(points)-1].Value
}

// integral is the area under a quantity over the window, by trapezoids, in its unit times seconds. Before the first
// and after the last sample it is taken to stay as it was there.
func (v *view) integral(points []Point) float64 {
	if len(points) == 0 || v.to <= v.from {
		return 0
	}
	last := Point{v.from, at(points, v.from)}
	sum := 0.0
	add := func(p Point) {
		sum += (p.Value + last.Value) / 2 * (p.At - last.At).Seconds()
		last = p
	}
	for _, p := range points {
		if p.At > v.from && p.At < v.to {
			add(p)
		}
	}
	add(Point{v.to, at(points, v.to)})
	return sum
}

// level describes a gauge over the window; nil without a sample in it. Samples outside the window say nothing of it:
// the load begins and ends at its borders, and a line drawn across one would pull the mean below the minimum.
func (v *view) level(name string) *Level {
	inside := slices.DeleteFunc(v.points(name), func(p Point) bool { return p.At < v.from || p.At > v.to })
	if len(inside) == 0 {
		return nil
	}
	l := Level{Min: inside[0].Value, Max: inside[0].Value, N: len(inside)}
	for _, p := range inside {
		l.Min, l.Max = min(l.Min, p.Value), max(l.Max, p.Value)
	}
	l.Mean = v.integral(inside) / (v.to - v.from).Seconds()
	return &l
}

// growth is how far a counter grew over the window; nil when it is not there on both sides or fell in between, as
// after a restart.
func (v *view) growth(name string) *float64 {
	points := v.points(name)
	if len(points) < 2 || points[0].At > v.to || points[len(points)-1].At < v.from {
		return nil
	}
	for i := 1; i < len(points); i++ {
		if points[i].Value < points[i-1].Value {
			return nil
		}
	}
	// Servers count a request a little after they answered it, so the last look counts, not the first after the window:
	// the load has ended in between.
	d := points[len(points)-1].Value - v.begun(points)
	return &d
}

// begun is where a counter stood when the window began. A server that was idle at the sample before has not moved
// since; one that was warming up has, and is taken to have moved evenly.
func (v *view) begun(points []Point) float64 {
	var before *Sample
	for i := range v.samples {
		if v.samples[i].At <= v.from {
			before = &v.samples[i]
		}
	}
	if before != nil && before.Values["running"] == 0 && before.Values["waiting"] == 0 {
		return at(points, before.At)
	}
	return at(points, v.from)
}

// time is one of the server's clocks.
func (v *view) time(name string) *Time {
	sum, n := v.growth(name+"_sum"), v.growth(name+"_count")
	if sum == nil || n == nil || *n <= 0 {
		return nil
	}
	return &Time{MeanMS: *sum / *n * 1000, N: *n}
}

func (v *view) server() *ServerSide {
	s := &ServerSide{
		Running: v.level("running"), Waiting: v.level("waiting"), KVUsage: v.level("kv_usage"), FullShare: v.full(),
		PromptTokens: v.growth("prompt_tokens"), GenerationTokens: v.growth("generation_tokens"),
		PromptRate: v.level("prompt_rate"), GenerationRate: v.level("generation_rate"),
		Preemptions: v.growth("preemptions"), Requests: v.growth("requests_finished"),
		Queue: v.time("queue"), Prefill: v.time("prefill"), Decode: v.time("decode"),
		TTFT: v.time("ttft"), ITL: v.time("itl"), E2EL: v.time("e2el"),
	}
	hits, queries := v.growth("prefix_hits"), v.growth("prefix_queries")
	if hits != nil && queries != nil && *queries > 0 {
		rate := *hits / *queries
		s.PrefixHits, s.PrefixQueries, s.PrefixHitRate = hits, queries, &rate
	} else if l := v.level("prefix_hit_rate"); l != nil {
		s.PrefixHitRate = &l.Mean
	}
	return s
}

// full is the share of samples that found the cache full and requests waiting for it.
func (v *view) full() *float64 {
	n, full := 0, 0
	for _, s := range v.samples {
		usage, ok := s.Values["kv_usage"]
		waiting, also := s.Values["waiting"]
		if !ok || !also || s.At < v.from || s.At > v.to {
			continue
		}
		n++
		if usage >= fullUsage && waiting > 0 {
			full++
		}
	}
	if n == 0 {
		return nil
	}
	share := float64(full) / float64(n)
	return &share
}

// device is one GPU. It counts as busy when it computed at any time: an idle neighbour is not the server's.
func (v *view) device(name string) Device {
	d := Device{
		Name: name, Power: v.level("power"), Utilization: v.level("utilization"), Bandwidth: v.level("memory_bandwidth"),
		MemoryUsed: v.level("memory_used"), Temperature: v.level("temperature"), Clock: v.level("clock"),
	}
	d.Busy = d.Utilization == nil || d.Utilization.Max > 0
	if e := v.growth("energy"); e != nil && *e > 0 && len(v.samples) > 2 {
		points := v.points("energy")
		d.EnergyJ, d.EnergyFrom = at(points, v.to)-at(points, v.from), "counter"
	} else if d.Power != nil {
		d.EnergyJ, d.EnergyFrom = v.integral(v.points("power")), "power over time"
	}
	return d
}

func (v *view) host() *HostSide {
	return &HostSide{
		CPU: v.level("cpu"), CPUOwn: v.level("cpu_own"), Load: v.level("load"), Memory: v.level("memory_own"),
		Threads: v.level("goroutines"),
	}
}
