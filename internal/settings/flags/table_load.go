package flags

import (
	"errors"
	"strconv"

	"spate/internal/settings/config"
)

// loadFlags says when requests leave and when the run ends.
func loadFlags(b *config.Bench) []Def {
	l := &b.Load
	return []Def{
		{
			Name: "request-rate", Group: GroupLoad, VLLM: true, Main: true, Default: "inf", value: float(&l.RequestRate),
			Help: "requests per second; inf sends all at once, or as many as --max-concurrency allows", Also: also("rate", "rates", "qps", "target-qps"),
		},
		{
			Name: "burstiness", Group: GroupLoad, VLLM: true, Main: true, Default: "1.0", value: float(&l.Burstiness),
			Help: "how much the gaps between requests vary: 1 is Poisson, below 1 is burstier, above 1 is more even, inf is constant",
			Also: []Alias{
				{Name: "arrival-pattern", To: arrival},
				{Name: "request-rate-mode", To: arrival},
				{Name: "qps-distribution", To: arrival},
				{Name: "load-pattern", To: arrival},
			},
		},
		{
			Name: "pacing", Group: GroupLoad, Default: "scheduled", value: enum(&l.Pacing), Choices: []string{"scheduled", "slept"},
			Help: "when requests are due: scheduled fixes all times in advance, stretched to end at requests / rate; slept waits each gap after the request before, as older clients do, so that delays add up",
		},
		{
			Name: "max-concurrency", Group: GroupLoad, VLLM: true, Main: true, value: maybeInt(&l.MaxConcurrency),
			Help: "most requests in flight at a time", Also: also("concurrency", "parallel", "num-concurrency", "max-vus"),
		},
		{
			Name: "duration", Group: GroupLoad, Main: true, value: duration(&l.Duration),
			Help: "send for this long; with --num-prompts, whichever ends first",
			Also: append(also("benchmark-duration", "max-seconds"), Alias{Name: "max-time-per-run", To: minutes}),
		},
		{
			Name: "grace-period", Group: GroupLoad, Default: "30s", value: grace(&l.GracePeriod),
			Help: "how long requests in flight may go on after --duration, an interrupt or a SIGTERM before they are canceled; inf waits for all",
			Also: also("benchmark-grace-period"),
		},
		{
			Name: "abort-on-error", Group: GroupLoad, Main: true, Default: "auto", value: abort(&l.AbortOnError),
			Help: "end the run when requests fail: 20 (in a row), 10% (of all), 20,10% (either), or off; " +
				"auto ends it when the first 10 all fail in the same way, or 20 in a row cannot connect",
		},
		{
			Name: "stages", Group: GroupLoad, Main: true, value: stages(&l.Stages),
			Help: "rates one after another: 30s@2,60s@8 is 2 requests/s for 30 s, then 8 for 60 s; 30s@2-8 rises between them",
		},
		{
			Name: "ramp-up-strategy", Group: GroupLoad, VLLM: true, value: enum(&l.RampUp), Choices: []string{"linear", "exponential"},
			Help: "raise the rate over the run, from --ramp-up-start-rps to --ramp-up-end-rps",
		},
		{Name: "ramp-up-start-rps", Group: GroupLoad, VLLM: true, value: maybeInt(&l.RampStart), Help: "rate a ramp begins with"},
		{Name: "ramp-up-end-rps", Group: GroupLoad, VLLM: true, value: maybeInt(&l.RampEnd), Help: "rate a ramp ends with"},
		{
			Name: "num-warmups", Group: GroupLoad, VLLM: true, Main: true, Default: "0", value: integer(&l.NumWarmups),
			Help: "requests sent before measuring starts",
			Also: append(also("warmup-request-count", "num-warmup-requests", "warmup-num", "warmup-requests"), Alias{Name: "warmup", To: warmup}),
		},
		{
			Name: "warmup-duration", Group: GroupLoad, Main: true, value: duration(&l.WarmupDuration),
			Help: "send for this long before measuring starts; the load goes on without a gap",
		},
		{
			Name: "probe-request-rate", Group: GroupLoad, VLLM: true, Default: "0.0", value: float(&l.ProbeRate),
			Help: "one-token requests per second beside the load, to measure the latency of a light user",
		},
		{Name: "self-timed", Group: GroupLoad, VLLM: true, value: triState(&l.SelfTimed), Help: "send at the times in the trace; this is the default of timed_trace and mooncake, and possible with burstgpt"},
		{
			Name: "request-id-prefix", Group: GroupLoad, VLLM: true, value: str(&l.RequestIDPrefix),
			Help: "beginning of each x-request-id; bench- and eight random digits when not given",
		},
	}
}

// arrival reads the names other tools have for an arrival law.
func arrival(word string) ([]target, error) {
	switch word {
	case "poisson", "exponential":
		return []target{{flag: "burstiness", word: "1"}}, nil
	case "constant", "uniform":
		return []target{{flag: "burstiness", word: "inf"}}, nil
	case "gamma":
		return nil, errors.New("needs its shape: say --burstiness NUM instead")
	}
	return nil, errors.New(`is neither "poisson" nor "constant"; --burstiness NUM gives any gamma shape`)
}

// warmup reads a count or a time, since tools differ on which it is.
func warmup(word string) ([]target, error) {
	if _, err := strconv.Atoi(word); err == nil {
		return []target{{flag: "num-warmups", word: word}}, nil
	}
	if _, err := config.ParseDuration(word); err != nil {
		return nil, errors.New("is neither a number of requests nor a time such as 30s")
	}
	return []target{{flag: "warmup-duration", word: word}}, nil
}

func minutes(word string) ([]target, error) {
	m, err := readFloat(word)
	if err != nil {
		return nil, errors.New("is not a number of minutes")
	}
	return []target{{flag: "duration", word: strconv.FormatFloat(m*60, 'g', -1, 64)}}, nil
}
