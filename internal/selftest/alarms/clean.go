package alarms

import (
	"fmt"
	"math"
	"time"

	"spate/internal/rng"
)

// Bounds of a clean run: what a serving benchmark looks like, in a few seconds, at a pace that one core can serve.
const (
	fewest, most = 30, 3000 // requests
	maxFlight    = 1000
	maxSeconds   = 6.0
	maxEvents    = 20000.0 // per second
)

var (
	ttfts  = []time.Duration{5, 20, 50, 200, 500, 2000}
	itls   = []time.Duration{2, 5, 10, 20, 50}
	flight = []int{1, 2, 4, 10, 32, 100, 300, 1000}
	rates  = []float64{10, 30, 100, 300, 1000}
)

// shape is the load of a clean run.
type shape struct {
	ttft, itl time.Duration
	out       int     // tokens of an answer
	slots     int     // of a closed loop; 0 for an open one
	rate      float64 // of an open one
	n         int
}

func (s *shape) latency() float64 { return (s.ttft + time.Duration(s.out-1)*s.itl).Seconds() }

// seconds is how long it takes, and events how many come in each of them.
func (s *shape) seconds() float64 {
	if s.slots > 0 {
		return math.Ceil(float64(s.n)/float64(s.slots)) * s.latency()
	}
	return float64(s.n)/s.rate + s.latency()
}

func (s *shape) events() float64 { return float64(s.n*s.out) / s.seconds() }

// fits reports whether a shape is one that is measured in a few seconds.
func (s *shape) fits() bool {
	inFlight := s.rate * s.latency()
	return s.n >= fewest && s.n <= most && s.seconds() <= maxSeconds && s.events() <= maxEvents && inFlight <= maxFlight
}

// cleanJobs draws runs in which nothing is wrong. Every other one is a closed loop.
func cleanJobs(n int, seed uint64) []job {
	random := rng.New(seed, "selftest-verdict")
	jobs := make([]job, 0, n)
	for i := range n {
		s := shape{}
		for !s.fits() {
			s = drawShape(i%2 == 0, random.IntN)
		}
		jobs = append(jobs, cleanJob(i, s, seed, random.IntN))
	}
	return jobs
}

func drawShape(closed bool, draw func(int) int) shape {
	s := shape{ttft: ttfts[draw(len(ttfts))] * time.Millisecond, itl: itls[draw(len(itls))] * time.Millisecond, out: 2 + draw(100)}
	seconds := 1 + 0.1*float64(draw(30))
	if closed {
		s.slots = flight[draw(len(flight))]
		s.n = max(fewest, s.slots*max(1, int(seconds/s.latency())))
		return s
	}
	s.rate = rates[draw(len(rates))]
	s.n = max(fewest, int(s.rate*seconds))
	return s
}

// cleanJob dresses a shape with what users set beside it.
func cleanJob(i int, s shape, seed uint64, draw func(int) int) job {
	j := job{
		server: []string{"--ttft", s.ttft.String(), "--itl", s.itl.String()},
		client: []string{
			"--num-prompts", fmt.Sprint(s.n), "--random-input-len", fmt.Sprint(16 + draw(200)), "--random-output-len", fmt.Sprint(s.out),
			"--seed", fmt.Sprint(seed*1000 + uint64(i)),
		},
	}
	load := fmt.Sprintf("%g/s", s.rate)
	if s.slots > 0 {
		load = fmt.Sprintf("%d in flight", s.slots)
		j.client = append(j.client, "--max-concurrency", fmt.Sprint(s.slots))
	} else {
		j.client = append(j.client, "--request-rate", fmt.Sprint(s.rate))
	}
	j.name = fmt.Sprintf("clean %d: %s, %d requests of %d tokens, TTFT %v, ITL %v", i+1, load, s.n, s.out, s.ttft, s.itl)
	for _, extra := range []struct {
		oneIn int
		name  string
		flags []string
	}{
		{3, "warm-up", []string{"--num-warmups", "10"}},
		{4, "shared prefix", []string{"--random-prefix-len", "64"}},
		{5, "a connection for each request", []string{"--header", "Connection=close"}},
		{3, "no tokenizer", []string{"--skip-tokenizer-init"}},
		{2, "chat", []string{"--backend", "openai-chat"}},
		{3, "ready check", []string{"--ready-check-timeout-sec", "30"}},
	} {
		if draw(extra.oneIn) == 0 {
			j.client, j.name = append(j.client, extra.flags...), j.name+", "+extra.name
		}
	}
	return j
}
