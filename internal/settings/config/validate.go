package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/safe/secret"
)

// Problem is one thing wrong with the settings: the flags at fault and a sentence for the user.
type Problem struct {
	Flags []string
	Text  string
}

// Problems is everything wrong with the settings, as an error.
type Problems []Problem

// Error lists the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Text
	}
	return strings.Join(lines, "\n")
}

// Validate reports everything that contradicts or is out of range. Call it after Resolve.
func (b *Bench) Validate() error {
	c := &checker{}
	b.checkTarget(c)
	b.checkLaunch(c)
	b.checkModels(c)
	b.checkLoad(c)
	b.Arrivals(b.Load.NumPrompts, noTimes).Check(c)
	b.checkDataset(c)
	b.checkBody(c)
	b.checkOutput(c)
	b.checkSim(c)
	b.checkRepeat(c)
	b.checkFleet(c)
	b.checkObserve(c)
	if len(c.found) == 0 {
		return nil
	}
	return c.found
}

type checker struct{ found Problems }

// Want records a problem with one flag unless ok.
func (c *checker) Want(ok bool, flag, format string, args ...any) {
	if !ok {
		c.found = append(c.found, Problem{[]string{flag}, "--" + flag + ": " + fmt.Sprintf(format, args...)})
	}
}

// Clash records that two flags cannot both be given.
func (c *checker) Clash(both bool, a, b, why string) {
	if both {
		c.found = append(c.found, Problem{[]string{a, b}, fmt.Sprintf("--%s and --%s contradict each other: %s", a, b, why)})
	}
}

// Needs records that one flag makes no sense without another.
func (c *checker) Needs(missing bool, flag, other, why string) {
	if missing {
		c.found = append(c.found, Problem{[]string{flag, other}, fmt.Sprintf("--%s needs --%s: %s", flag, other, why)})
	}
}

func (b *Bench) checkTarget(c *checker) {
	t := &b.Target
	c.Want(t.Port > 0 && t.Port < 65536, "port", "%d is not a port between 1 and 65535", t.Port)
	for _, u := range t.BaseURLs {
		c.Want(validURL(u), "base-url", "%q is not a URL such as http://localhost:8000", secret.Text(u))
	}
	c.Want(t.Backend != "", "backend", "no backend named")
	path, _, _ := strings.Cut(t.Endpoint, "?")
	path = strings.TrimRight(path, "/")
	want := t.Backend.Protocol().Suffix
	switch chat := strings.HasSuffix(path, "chat/completions"); {
	case chat && want == "completions":
		c.Clash(true, "backend", "endpoint", fmt.Sprintf("%q takes messages: use --backend openai-chat", t.Endpoint))
	default:
		c.Clash(!strings.HasSuffix(path, want), "backend", "endpoint", fmt.Sprintf("%s needs an endpoint that ends in %s, not %q", t.Backend, want, t.Endpoint))
	}
	c.Clash(t.UnixSocket != "" && len(t.BaseURLs) > 1, "unix-socket", "base-url", "one socket is one server")
	c.Clash(t.Insecure && t.CACert != "", "insecure", "ca-cert", "one skips the check that the other one sets up")
	c.Clash(b.Client.HTTPClient == ClientRaw && b.Client.HTTPVersion == HTTP2, "http-client", "http-version",
		"the raw client speaks HTTP/1.1 only; use --http-client std for HTTP/2")
	c.Want(b.Client.Retries >= 0, "retries", "%d is negative", b.Client.Retries)
	c.Want(b.Client.MaxResponse >= 0, "max-response-bytes", "%d is negative: name the most bytes an answer may have, or 0 for the usual bound", b.Client.MaxResponse)
	c.Want(t.ReadyTimeout >= 0, "ready-check-timeout-sec", "cannot be negative")
}

// checkLaunch holds the rules of a server that is started for the run. What the environment says of such servers may
// stand there for other runs.
func (b *Bench) checkLaunch(c *checker) {
	l := &b.Launch
	c.Clash(l.Command != "" && b.Sim.Enabled, "launch", "sim", "each brings its own server")
	c.Want(l.Ready >= 0, "launch-timeout", "cannot be negative")
	if l.Command != "" || slices.ContainsFunc(b.Repeat.Arms, Arm.launches) {
		return
	}
	for _, flag := range []string{"launch-timeout", "launch-log", "launch-gpus", "launch-gpu-memory-used-ok"} {
		c.Needs(b.Has(flag) && b.Given[flag] != FromEnv, flag, "launch", "it is for a server that spate starts, and none is started")
	}
}

// launches reports whether an arm brings a server of its own.
func (a Arm) launches() bool {
	return slices.ContainsFunc(a.Flags, func(word string) bool { return word == "--launch" || strings.HasPrefix(word, "--launch=") })
}

// checkModels holds the rules of requests spread over several models.
func (b *Bench) checkModels(c *checker) {
	m := &b.Model
	if len(m.LoRAWeights) == 0 {
		return
	}
	c.Clash(len(m.LoRAWeights) != len(m.LoRAModules), "lora-weights", "lora-modules",
		fmt.Sprintf("%d weights for %d names", len(m.LoRAWeights), len(m.LoRAModules)))
	c.Clash(m.LoRAAssignment == AssignRoundRobin && b.Has("lora-assignment"), "lora-weights", "lora-assignment", "round-robin does not use weights")
	for _, w := range m.LoRAWeights {
		c.Want(w > 0 && !math.IsInf(w, 0), "lora-weights", "%v is not a weight above 0", w)
	}
}

func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// shortestWatch is the least gap between two looks at the server: less would be load, not observation.
const shortestWatch = 10 * time.Millisecond

func (b *Bench) checkObserve(c *checker) {
	o := &b.Observe
	c.Want(o.Interval == 0 || o.Interval >= shortestWatch, "observe-interval", "%v is shorter than %v; 0 watches nothing", o.Interval, shortestWatch)
	c.Want(slices.Contains([]string{"", "auto", "off"}, o.ServerMetrics) || validURL(o.ServerMetrics), "server-metrics",
		"%q is neither auto, off nor a URL such as http://localhost:8000/metrics", secret.Text(o.ServerMetrics))
	c.Want(slices.Contains([]string{"", "auto", "off", "nvidia-smi"}, o.GPUMetrics) || validURL(o.GPUMetrics), "gpu-metrics",
		"%q is neither auto, nvidia-smi, off nor the URL of a DCGM exporter such as http://localhost:9400/metrics", secret.Text(o.GPUMetrics))
	c.Want(o.PricePerHour >= 0, "price-per-hour", "%v is negative", o.PricePerHour)
	c.Clash(o.Off && o.ServerLog != "", "no-observe", "server-log", "one turns sampling off, and the other sets it up")
}

func (b *Bench) checkLoad(c *checker) {
	l := &b.Load
	timed := l.Duration > 0 || len(l.Stages) > 0
	allRows := b.Dataset.Kind().AllRows
	unasked := timed && !b.Has("num-prompts")
	c.Want(l.NumPrompts > 0 || allRows || unasked, "num-prompts", "%d: at least one request is needed", l.NumPrompts)
	c.Needs(l.Duration > 0 && l.NumPrompts <= 0 && l.AtOnce(), "duration", "request-rate",
		"without a rate, --max-concurrency or --num-prompts it would never stop sending")
	c.Needs(l.WarmupDuration > 0 && l.AtOnce(), "warmup-duration", "request-rate",
		"all requests leave at once, so there is no load to warm up with; --max-concurrency makes one, and --num-warmups sends a number")
	c.Want(l.NumWarmups >= 0, "num-warmups", "%d is negative", l.NumWarmups)
	c.Clash(l.NumWarmups > 0 && l.WarmupDuration > 0, "num-warmups", "warmup-duration", "both set the warm-up; give one of them")
	c.Want(l.ProbeRate >= 0 && !l.ProbeRate.Inf(), "probe-request-rate", "%v is not a finite rate", float64(l.ProbeRate))
	c.Want(l.Seed >= 0 && l.Seed <= math.MaxUint32, "seed", "%d is not between 0 and %d", l.Seed, uint32(math.MaxUint32))
}

func (b *Bench) checkDataset(c *checker) {
	b.checkPath(c)
	b.checkTrace(c)
	b.checkSpread(c)
	b.run().Check(b.Dataset.Name, c)
}

func (b *Bench) checkBody(c *checker) {
	y := &b.Body
	c.Clash(y.PromptTokenIDs && !b.Target.Backend.Protocol().IDs, "prompt-token-ids", "backend", fmt.Sprintf("%s takes text only", b.Target.Backend))
	c.Clash(y.PromptTokenIDs && b.Model.SkipTokenizerInit, "prompt-token-ids", "skip-tokenizer-init", "ids come from the tokenizer")
	c.Want(y.Temperature == nil || *y.Temperature >= 0, "temperature", "cannot be negative")
	c.Want(y.TopP == nil || *y.TopP > 0 && *y.TopP <= 1, "top-p", "must be above 0 and at most 1")
	c.Want(y.MinP == nil || *y.MinP >= 0 && *y.MinP <= 1, "min-p", "must be between 0 and 1")
	c.Want(y.BestOf == nil || *y.BestOf > 0, "best-of", "must be at least 1")
}

func (b *Bench) checkOutput(c *checker) {
	o, k := &b.Output, &b.Check
	c.Clash(o.NoOutput && o.OutputDir != "", "no-output", "output-dir", "one asks for no run folder, the other names it")
	c.Want(k.SteadyThreshold > 0 && k.SteadyThreshold <= 1, "steady-state-threshold", "%v is not above 0 and at most 1", k.SteadyThreshold)
	c.Want(k.SteadyMinWindow >= 0, "steady-state-min-window", "cannot be negative")
	seen := map[Metric]bool{}
	for _, l := range k.Goodput {
		c.Want(!seen[l.Metric], "goodput", "%s is given twice", l.Metric)
		seen[l.Metric] = true
	}
	wantsGoodput := func(o figure.Objective) bool { return o.Metric == "request_goodput" || o.Metric == "goodput_ratio" }
	for _, s := range k.SLO {
		c.Needs(wantsGoodput(s) && len(k.Goodput) == 0, "slo", "goodput", s.Text+" counts requests that meet the --goodput bounds")
	}
}

func (b *Bench) checkSim(c *checker) {
	s := &b.Sim
	if !s.Enabled {
		for _, f := range slices.Sorted(maps.Keys(b.Given)) {
			c.Needs(strings.HasPrefix(f, "sim-"), f, "sim", "it describes the embedded server")
		}
		return
	}
	for _, f := range []string{"base-url", "unix-socket", "host", "port"} {
		c.Clash(b.Given[f] == FromArgs, "sim", f, "the embedded server chooses its own address")
	}
	for _, f := range timetableFlags {
		c.Clash(b.Has(f) && s.Profile != "" && s.Profile != Timetable, "sim", f, "a simulated engine sets its own times")
	}
	c.Want(s.TokensPerChunk > 0, "sim-tokens-per-chunk", "%d is not above 0", s.TokensPerChunk)
	c.Want(s.Jitter >= 0 && s.Jitter <= 1, "sim-jitter", "%v is not between 0 and 1", s.Jitter)
	c.Want(s.OutputVary >= 0 && s.OutputVary <= 1, "sim-output-vary", "%v is not between 0 and 1", s.OutputVary)
	c.Want(s.OutputLen >= 0, "sim-output-len", "%d is negative", s.OutputLen)
	c.Want(s.MaxRunning >= 0, "sim-max-running", "%d is negative", s.MaxRunning)
	c.Want(s.Reasoning >= 0, "sim-reasoning", "%d is negative", s.Reasoning)
	c.Want(s.ToolTokens >= 0, "sim-tool-tokens", "%d is negative", s.ToolTokens)
}
