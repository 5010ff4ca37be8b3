// Package trials measures how often a search for capacity is wrong, and what it costs: it searches
// simulated servers in virtual time, with other arrivals each time, and holds the answers against a
// capacity that long runs have found. A probe is made as over a socket: watched ten times a second,
// and ended early where capacity.Watch says so.
//
// Read Scenarios, then search.go.
package trials

import (
	"fmt"
	"strconv"

	"spate/internal/figure"
	"spate/internal/forecast/profile"
	"spate/internal/search/capacity"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/sim/engineconf"
)

// Scenario is a simulated server, what is sent to it and what it has to keep.
type Scenario struct {
	Name    string      `json:"name"`
	Profile string      `json:"profile"` // of a simulated engine
	Args    []string    `json:"flags"`   // of bench: what is sent
	SLO     string      `json:"slo"`
	By      capacity.By `json:"by"`
}

// Saturating is the load whose objective nothing breaks before the queue grows.
const Saturating = "only the queue tells"

// Scenarios are ten loads: short and long prompts, fixed and varied lengths, even and bursty arrivals, bounds on
// the tail, the median and the mean, and one bound so loose that only a growing queue shows the end.
func Scenarios() []Scenario {
	lengths := func(in, out string, more ...string) []string {
		return append([]string{"--isl", in, "--osl", out}, more...)
	}
	return []Scenario{
		{"tail of TTFT", "Qwen3-8B@L4", lengths("512", "32"), "p99_ttft<1s", capacity.Rate},
		{"tail of TPOT", "Qwen3-8B@L4", lengths("256", "32"), "p99_tpot<100ms", capacity.Rate},
		{"both tails", "qwen3-8b-1xA100-80GB-vllm0.10", lengths("512", "64"), "p99_ttft<500ms,p99_tpot<50ms", capacity.Rate},
		{"p90 of TTFT", "qwen2-7b-2xA100-80GB-vllm0.10", lengths("512", "32"), "p90_ttft<300ms", capacity.Rate},
		{"median TPOT", "qwen3-8b-1xA100-80GB-vllm0.10", lengths("256", "64"), "median_tpot<20ms", capacity.Rate},
		{"mean latency, varied lengths", "gpt-oss-20b-1xA100-80GB-vllm0.10", lengths("512", "64", "--random-range-ratio", "0.5"), "mean_e2el<2s", capacity.Rate},
		{"bursty arrivals", "qwen3-8b-1xA100-80GB-vllm0.10", lengths("512", "32", "--burstiness", "0.5"), "p95_ttft<500ms", capacity.Rate},
		{"lengths that vary much", "Qwen3-8B@L4", lengths("256", "64", "--random-range-ratio", "0.9"), "p99_ttft<2s", capacity.Rate},
		{Saturating, "qwen2.5-7b-int4-1xA10-vllm0.6-chunked", lengths("256", "32"), "p99_ttft<20s", capacity.Rate},
		{"in flight, tail of TPOT", "qwen3-8b-1xA100-80GB-vllm0.10", lengths("512", "32"), "p99_tpot<40ms", capacity.Concurrency},
	}
}

// server is a scenario made ready.
type server struct {
	Scenario
	profile    *profile.Profile
	objectives []figure.Objective
}

func (s Scenario) open() (*server, error) {
	out := &server{Scenario: s}
	var err error
	if model, gpu, ok := engineconf.ProfileName(s.Profile); ok {
		out.profile, err = profile.OfPair(model, gpu)
	} else {
		var list []*profile.Profile
		if list, err = profile.Shipped(); err == nil {
			out.profile, err = profile.Find(list, s.Profile)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	if out.objectives, err = capacity.ParseSLO(s.SLO); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return out, nil
}

// settings are those of bench for a load.
func (s *server) settings(load float64, requests int, seed uint64) (*config.Bench, error) {
	flag := "--request-rate="
	if s.By == capacity.Concurrency {
		flag = "--max-concurrency="
	}
	args := append([]string{
		flag + strconv.FormatFloat(load, 'f', -1, 64), "--num-prompts=" + strconv.Itoa(requests), "--seed=" + strconv.FormatUint(seed, 10),
	}, s.Args...)
	r, err := flags.Parse(args, flags.Options{IDPrefix: "trial-"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	r.Bench.Check.SLO = s.objectives
	return r.Bench, nil
}
