package observe

import (
	"math"
	"slices"
	"strings"
	"time"

	"spate/internal/call"
)

// Summary is what was seen during the measured part of a run. Nil is "not reported".
type Summary struct {
	FromMS  float64 `json:"from_ms"` // the window, on the run's clock
	ToMS    float64 `json:"to_ms"`
	Sources []Fate  `json:"sources,omitempty"`

	Server *ServerSide `json:"server,omitempty"`
	Log    *ServerSide `json:"server_log,omitempty"` // by the lines of its log, in which counters are rates
	GPUs   []Device    `json:"gpus,omitempty"`
	Host   *HostSide   `json:"host,omitempty"`

	FrontEnd *FrontEnd `json:"front_end,omitempty"`
	Energy   *Energy   `json:"energy,omitempty"`
	Cost     *Cost     `json:"cost,omitempty"`
}

// Level is a quantity over the window: its mean over time, and the extremes among its samples.
type Level struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	N    int     `json:"samples"`
}

// ServerSide is what the server said of itself. Its counters count other clients' requests too.
type ServerSide struct {
	Running *Level `json:"running,omitempty"`
	Waiting *Level `json:"waiting,omitempty"`
	KVUsage *Level `json:"kv_usage,omitempty"` // share of the cache
	// FullShare is how much of the time at least fullUsage of the cache was used while requests waited.
	FullShare *float64 `json:"cache_full_while_waiting_share,omitempty"`

	PromptTokens     *float64 `json:"prompt_tokens,omitempty"`
	GenerationTokens *float64 `json:"generation_tokens,omitempty"`
	PromptRate       *Level   `json:"prompt_tokens_per_s,omitempty"`
	GenerationRate   *Level   `json:"generation_tokens_per_s,omitempty"`
	PrefixQueries    *float64 `json:"prefix_cache_queries,omitempty"`
	PrefixHits       *float64 `json:"prefix_cache_hits,omitempty"`
	PrefixHitRate    *float64 `json:"prefix_cache_hit_rate,omitempty"`
	Preemptions      *float64 `json:"preemptions,omitempty"`
	Requests         *float64 `json:"requests_finished,omitempty"`

	Queue   *Time `json:"queue,omitempty"`
	Prefill *Time `json:"prefill,omitempty"`
	Decode  *Time `json:"decode,omitempty"`
	TTFT    *Time `json:"ttft,omitempty"`
	ITL     *Time `json:"itl,omitempty"`
	E2EL    *Time `json:"e2el,omitempty"`
}

// Time is one of the server's clocks: its mean over what it timed in the window.
type Time struct {
	MeanMS float64 `json:"mean_ms"`
	N      float64 `json:"n"`
}

// Device is one GPU.
type Device struct {
	Name        string  `json:"name"`
	Busy        bool    `json:"busy"` // it computed during the window; others are not counted in Energy
	Power       *Level  `json:"power_w,omitempty"`
	EnergyJ     float64 `json:"energy_j,omitempty"`
	EnergyFrom  string  `json:"energy_from,omitempty"` // its own counter, or power integrated over time
	Utilization *Level  `json:"utilization,omitempty"`
	Bandwidth   *Level  `json:"memory_bandwidth,omitempty"` // share of what the memory can move
	MemoryUsed  *Level  `json:"memory_used_bytes,omitempty"`
	Temperature *Level  `json:"temperature_c,omitempty"`
	Clock       *Level  `json:"clock_mhz,omitempty"`
}

// HostSide is the machine the client ran on.
type HostSide struct {
	CPU     *Level `json:"cpu_share,omitempty"`
	CPUOwn  *Level `json:"cpu_own_cores,omitempty"`
	Load    *Level `json:"load_average,omitempty"`
	Memory  *Level `json:"memory_own_bytes,omitempty"`
	Threads *Level `json:"goroutines,omitempty"`
}

// FrontEnd is what is left of the client's mean TTFT without the server's queue and prefill: the network, HTTP, and
// whatever the server does before it queues a request and after it has a token.
type FrontEnd struct {
	ClientMS  float64  `json:"client_ttft_ms"`
	QueueMS   float64  `json:"server_queue_ms"`
	PrefillMS float64  `json:"server_prefill_ms"`
	RestMS    *float64 `json:"network_and_front_end_ms,omitempty"`
	NetworkMS *float64 `json:"network_ms,omitempty"` // client's TTFT less the server's own
}

// Rest is what is left, unless the server's means are of other requests than the client's: those of a run that was cut
// short also have the requests that it did not finish. A rest below 0 shows that.
func (f *FrontEnd) Rest() *float64 {
	if f.RestMS == nil || *f.RestMS < 0 { // earlier versions wrote those below 0
		return nil
	}
	return f.RestMS
}

// Energy is what the busy GPUs took from the mains during the window.
type Energy struct {
	Joules           float64 `json:"joules"`
	MeanW            float64 `json:"mean_w"`
	GPUs             int     `json:"gpus"`
	From             string  `json:"from"` // counter, or power integrated over time
	PerOutputToken   float64 `json:"joules_per_output_token"`
	PerMillion       float64 `json:"joules_per_million_tokens"`
	PerMillionOutput float64 `json:"joules_per_million_output_tokens"`
	OutputPerJoule   float64 `json:"output_tokens_per_joule"`
}

// Cost is what the window cost at a price per hour.
type Cost struct {
	PerHour          float64 `json:"price_per_hour"`
	Total            float64 `json:"total"`
	PerMillion       float64 `json:"per_million_tokens"`
	PerMillionOutput float64 `json:"per_million_output_tokens"`
}

// Run is what Summarize needs to know of the run.
type Run struct {
	From, To     time.Duration // the measured part
	MeanTTFT     float64       // ms, as the client saw it
	Input        int           // tokens
	Output       int
	PricePerHour float64 // 0: unknown
}

// fullUsage is the share of the cache from which on it counts as full: the last few blocks are seldom of use.
const fullUsage = 0.95

// Summarize says what the samples tell about the measured part. It is nil when they tell nothing.
func Summarize(samples []Sample, fates []Fate, run Run) *Summary {
	s := &Summary{FromMS: ms(run.From), ToMS: ms(run.To), Sources: fates, Cost: cost(run)}
	by := map[string][]Sample{}
	for _, one := range inOrder(samples) {
		by[one.Source] = append(by[one.Source], one)
	}
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v := &view{samples: by[name], from: run.From, to: run.To}
		switch {
		case name == Server:
			s.Server = v.server()
		case name == Host:
			s.Host = v.host()
		case name == Log || strings.HasPrefix(name, Log+":"):
			s.Log = s.Log.plus(v.server())
		case strings.HasPrefix(name, gpu):
			s.GPUs = append(s.GPUs, v.device(name))
		}
	}
	s.FrontEnd = frontEnd(s.Server, run)
	s.Energy = energy(s.GPUs, run)
	if len(by) == 0 && s.Cost == nil {
		return nil
	}
	return s
}

// ms is a time in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return call.Millis(d.Truncate(time.Microsecond)) }

// plus adds the log of another engine of the same server.
func (a *ServerSide) plus(b *ServerSide) *ServerSide {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	for _, p := range []struct{ into, from **Level }{
		{&a.Running, &b.Running},
		{&a.Waiting, &b.Waiting},
		{&a.PromptRate, &b.PromptRate},
		{&a.GenerationRate, &b.GenerationRate},
	} {
		if *p.into != nil && *p.from != nil {
			(*p.into).Mean += (*p.from).Mean
			(*p.into).Min += (*p.from).Min
			(*p.into).Max += (*p.from).Max
		}
	}
	if a.KVUsage != nil && b.KVUsage != nil { // the fullest one decides
		a.KVUsage = &Level{
			Mean: max(a.KVUsage.Mean, b.KVUsage.Mean), Min: min(a.KVUsage.Min, b.KVUsage.Min),
			Max: max(a.KVUsage.Max, b.KVUsage.Max), N: a.KVUsage.N,
		}
	}
	return a
}

// frontEnd needs the server's clocks for as good as all requests, or the difference of means would be between
// different requests. One below 0 surely is.
func frontEnd(s *ServerSide, run Run) *FrontEnd {
	if s == nil || s.Queue == nil || s.Prefill == nil || run.MeanTTFT <= 0 {
		return nil
	}
	f := &FrontEnd{ClientMS: run.MeanTTFT, QueueMS: s.Queue.MeanMS, PrefillMS: s.Prefill.MeanMS}
	if rest := f.ClientMS - f.QueueMS - f.PrefillMS; rest >= 0 {
		f.RestMS = &rest
	}
	if s.TTFT != nil && f.ClientMS >= s.TTFT.MeanMS {
		f.NetworkMS = new(f.ClientMS - s.TTFT.MeanMS)
	}
	return f
}

func energy(gpus []Device, run Run) *Energy {
	e := &Energy{}
	for _, g := range gpus {
		if g.Busy && g.EnergyJ > 0 {
			e.Joules, e.From = e.Joules+g.EnergyJ, g.EnergyFrom
			e.GPUs++
		}
	}
	seconds := (run.To - run.From).Seconds()
	if e.GPUs == 0 || seconds <= 0 {
		return nil
	}
	e.MeanW = e.Joules / seconds
	e.PerOutputToken = over(e.Joules, float64(run.Output))
	e.PerMillion = over(e.Joules*1e6, float64(run.Input+run.Output))
	e.PerMillionOutput = e.PerOutputToken * 1e6
	e.OutputPerJoule = over(float64(run.Output), e.Joules)
	return e
}

func cost(run Run) *Cost {
	if run.PricePerHour <= 0 || run.To <= run.From {
		return nil
	}
	total := run.PricePerHour * (run.To - run.From).Hours()
	return &Cost{
		PerHour: run.PricePerHour, Total: total,
		PerMillion:       over(total*1e6, float64(run.Input+run.Output)),
		PerMillionOutput: over(total*1e6, float64(run.Output)),
	}
}

// over is a/b, 0 where there is nothing to divide by.
func over(a, b float64) float64 {
	if r := a / b; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return 0
}
