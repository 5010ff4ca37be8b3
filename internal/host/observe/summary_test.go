package observe

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample(sec float64, source string, values map[string]float64) Sample {
	return Sample{At: time.Duration(sec * float64(time.Second)), Source: source, Values: values}
}

func TestDerive(t *testing.T) {
	samples := []Sample{
		sample(2, Server, map[string]float64{"preemptions": 4, "queue_sum": 3, "queue_count": 12, "running": 1}),
		sample(1, Server, map[string]float64{"preemptions": 2, "queue_sum": 1, "queue_count": 2, "running": 5}), // late
		sample(3, Server, map[string]float64{"preemptions": 0, "queue_sum": 0, "queue_count": 0, "running": 0}), // restarted
		sample(5, Server, map[string]float64{"preemptions": 1, "queue_sum": 0, "queue_count": 0, "running": 0}), // nothing queued
		sample(5, "gpu1", map[string]float64{"power": 500, "later": 7}),
	}
	want := []Series{
		{Name: "later", Source: "gpu1", Points: []Point{{5 * time.Second, 7}}},
		{Name: "power", Unit: "W", Source: "gpu1", Points: []Point{{5 * time.Second, 500}}},
		{Name: "preemption_rate", Unit: "1/s", Source: Server, Points: []Point{{2 * time.Second, 2}, {5 * time.Second, 0.5}}},
		{Name: "queue_time", Unit: "ms", Source: Server, Points: []Point{{2 * time.Second, 200}}},
		{Name: "running", Unit: "requests", Source: Server, Points: []Point{
			{time.Second, 5}, {2 * time.Second, 1}, {3 * time.Second, 0}, {5 * time.Second, 0},
		}},
	}
	if d := cmp.Diff(want, Derive(samples)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A run from 10 s to 20 s on a server with samples each 4 s.
func TestSummarizeServer(t *testing.T) {
	at := func(sec, running, usage, tokens, queueSum, queueN float64) Sample {
		return sample(sec, Server, map[string]float64{
			"running": running, "waiting": running / 2, "kv_usage": usage, "generation_tokens": tokens,
			"queue_sum": queueSum, "queue_count": queueN, "prefill_sum": queueN * 0.03, "prefill_count": queueN,
			"prefix_hits": tokens / 10, "prefix_queries": tokens / 2, "preemptions": 1, "ttft_sum": queueN * 0.2, "ttft_count": queueN,
		})
	}
	samples := []Sample{
		at(8, 0, 0, 1000, 5, 10), // idle: nothing moves until the load begins
		at(12, 8, 0.5, 1400, 6, 14), at(16, 8, 0.96, 2000, 8, 20), at(24, 0, 0, 3000, 10, 30),
	}
	run := Run{From: 10 * time.Second, To: 20 * time.Second, MeanTTFT: 300, Input: 3000, Output: 2000, PricePerHour: 7.2}
	s := Summarize(samples, nil, run)
	// running: 8 at 12 and 16 s, the samples of the run; the idle ones around it do not count.
	if l := s.Server.Running; l.N != 2 || l.Max != 8 || l.Min != 8 || math.Abs(l.Mean-8) > 1e-12 {
		t.Errorf("running %+v, want a mean of 8 over 2 samples", l)
	}
	if got := *s.Server.GenerationTokens; got != 2000 {
		t.Errorf("%v tokens, want all 2000 since the idle sample", got)
	}
	if got := *s.Server.FullShare; got != 0.5 {
		t.Errorf("cache full in %v of the samples, want 0.5", got)
	}
	if got := *s.Server.PrefixHitRate; math.Abs(got-0.2) > 1e-12 {
		t.Errorf("hit rate %v, want 0.2", got)
	}
	if got := *s.Server.Preemptions; got != 0 {
		t.Errorf("%v preemptions, want 0", got)
	}
	want := &FrontEnd{ClientMS: 300, QueueMS: 250, PrefillMS: 30, RestMS: new(20.0), NetworkMS: new(float64)}
	*want.NetworkMS = 100
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if d := cmp.Diff(want, s.FrontEnd, near); d != "" {
		t.Errorf("front end (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&Cost{PerHour: 7.2, Total: 0.02, PerMillion: 4, PerMillionOutput: 10}, s.Cost, near); d != "" {
		t.Errorf("cost (-want +got):\n%s", d)
	}

	short := run
	short.MeanTTFT = 199 // the server's own is 200
	if f := Summarize(samples, nil, short).FrontEnd; f == nil || f.RestMS != nil || f.NetworkMS != nil {
		t.Errorf("means of other requests leave a rest: %+v", f)
	}

	samples[0].Values["running"] = 8 // warming up: half of the first gap is the warm-up's
	if got := *Summarize(samples, nil, run).Server.GenerationTokens; got != 1800 {
		t.Errorf("%v tokens after a warm-up, want 1800", got)
	}
	samples[2].Values["generation_tokens"] = 7 // restarted
	if got := Summarize(samples, nil, run).Server.GenerationTokens; got != nil {
		t.Errorf("%v tokens over a restart, want none", *got)
	}
}

func TestSummarizeEnergy(t *testing.T) {
	gpu := func(sec float64, name string, power, use float64) Sample {
		return sample(sec, name, map[string]float64{"power": power, "utilization": use})
	}
	samples := []Sample{
		gpu(0, "gpu0", 100, 0), gpu(2, "gpu0", 500, 1), gpu(4, "gpu0", 300, 1),
		gpu(0, "gpu1", 70, 0), gpu(2, "gpu1", 70, 0), gpu(4, "gpu1", 70, 0),
	}
	run := Run{From: time.Second, To: 5 * time.Second, Input: 900, Output: 100}
	s := Summarize(samples, nil, run)
	// 300 W at 1 s, 500 at 2, 300 at 4 and on: 400 + 800 + 300
	want := &Energy{
		Joules: 1500, MeanW: 375, GPUs: 1, From: "power over time", PerOutputToken: 15, PerMillion: 1.5e6, PerMillionOutput: 1.5e7,
		OutputPerJoule: 100.0 / 1500,
	}
	if d := cmp.Diff(want, s.Energy); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(s.GPUs) != 2 || s.GPUs[1].Busy || s.GPUs[1].EnergyJ != 280 {
		t.Errorf("GPUs %+v, want the second one idle with 280 J", s.GPUs)
	}
	for i := range samples {
		samples[i].Values["energy"] = 1000 + 200*samples[i].At.Seconds()
	}
	run.To = 4 * time.Second
	if e := Summarize(samples, nil, run).Energy; e.Joules != 600 || e.From != "counter" {
		t.Errorf("energy by counter %+v, want 600 J", e)
	}
	if Summarize(nil, nil, Run{To: time.Second}) != nil {
		t.Error("nothing seen, and something said")
	}
}

func TestSummarizeLogOfTwoEngines(t *testing.T) {
	line := func(sec float64, source string, running, usage float64) Sample {
		return sample(sec, source, map[string]float64{"running": running, "waiting": 1, "kv_usage": usage, "generation_rate": 100})
	}
	samples := []Sample{line(1, Log, 4, 0.5), line(1, Log+":001", 6, 0.9), line(2, Log, 4, 0.5), line(2, Log+":001", 6, 0.9)}
	s := Summarize(samples, nil, Run{From: time.Second, To: 2 * time.Second})
	if s.Log.Running.Mean != 10 || s.Log.KVUsage.Mean != 0.9 || s.Log.GenerationRate.Mean != 200 || s.Log.Waiting.Max != 2 {
		t.Errorf("log %+v %+v, want 10 running, the fullest cache, 200 tokens/s", s.Log.Running, s.Log.KVUsage)
	}
}
