package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

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
	b.checkShape(c)
	b.checkDataset(c)
	b.checkBody(c)
	b.checkOutput(c)
	b.checkSim(c)
	b.checkRepeat(c)
	b.checkObserve(c)
	if len(c.found) == 0 {
		return nil
	}
	return c.found
}

type checker struct{ found Problems }

// want records a problem with one flag unless ok.
func (c *checker) want(ok bool, flag, format string, args ...any) {
	if !ok {
		c.found = append(c.found, Problem{[]string{flag}, "--" + flag + ": " + fmt.Sprintf(format, args...)})
	}
}

// clash records that two flags cannot both be given.
func (c *checker) clash(both bool, a, b, why string) {
	if both {
		c.found = append(c.found, Problem{[]string{a, b}, fmt.Sprintf("--%s and --%s contradict each other: %s", a, b, why)})
	}
}

// needs records that one flag makes no sense without another.
func (c *checker) needs(missing bool, flag, other, why string) {
	if missing {
		c.found = append(c.found, Problem{[]string{flag, other}, fmt.Sprintf("--%s needs --%s: %s", flag, other, why)})
	}
}

func (b *Bench) checkTarget(c *checker) {
	t := &b.Target
	c.want(t.Port > 0 && t.Port < 65536, "port", "%d is not a port between 1 and 65535", t.Port)
	for _, u := range t.BaseURLs {
		c.want(validURL(u), "base-url", "%q is not a URL such as http://localhost:8000", secret.Text(u))
	}
	c.want(t.Backend != "", "backend", "no backend named")
	path, _, _ := strings.Cut(t.Endpoint, "?")
	path = strings.TrimRight(path, "/")
	want := t.Backend.Protocol().Suffix
	switch chat := strings.HasSuffix(path, "chat/completions"); {
	case chat && want == "completions":
		c.clash(true, "backend", "endpoint", fmt.Sprintf("%q takes messages: use --backend openai-chat", t.Endpoint))
	default:
		c.clash(!strings.HasSuffix(path, want), "backend", "endpoint", fmt.Sprintf("%s needs an endpoint that ends in %s, not %q", t.Backend, want, t.Endpoint))
	}
	c.clash(t.UnixSocket != "" && len(t.BaseURLs) > 1, "unix-socket", "base-url", "one socket is one server")
	c.clash(t.Insecure && t.CACert != "", "insecure", "ca-cert", "one skips the check that the other one sets up")
	c.clash(b.Client.HTTPClient == ClientRaw && b.Client.HTTPVersion == HTTP2, "http-client", "http-version",
		"the raw client speaks HTTP/1.1 only; use --http-client std for HTTP/2")
	c.want(b.Client.Retries >= 0, "retries", "%d is negative", b.Client.Retries)
	c.want(b.Client.MaxResponse >= 0, "max-response-bytes", "%d is negative: name the most bytes an answer may have, or 0 for the usual bound", b.Client.MaxResponse)
	c.want(t.ReadyTimeout >= 0, "ready-check-timeout-sec", "cannot be negative")
}

// checkLaunch holds the rules of a server that is started for the run. What the environment says of such servers may
// stand there for other runs.
func (b *Bench) checkLaunch(c *checker) {
	l := &b.Launch
	c.clash(l.Command != "" && b.Sim.Enabled, "launch", "sim", "each brings its own server")
	c.want(l.Ready >= 0, "launch-timeout", "cannot be negative")
	if l.Command != "" || slices.ContainsFunc(b.Repeat.Arms, Arm.launches) {
		return
	}
	for _, flag := range []string{"launch-timeout", "launch-log", "launch-gpus", "launch-gpu-memory-used-ok"} {
		c.needs(b.Has(flag) && b.Given[flag] != FromEnv, flag, "launch", "it is about a server that spate starts, and none is")
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
	c.clash(len(m.LoRAWeights) != len(m.LoRAModules), "lora-weights", "lora-modules",
		fmt.Sprintf("%d weights for %d names", len(m.LoRAWeights), len(m.LoRAModules)))
	c.clash(m.LoRAAssignment == AssignRoundRobin && b.Has("lora-assignment"), "lora-weights", "lora-assignment", "taking turns knows no weights")
	for _, w := range m.LoRAWeights {
		c.want(w > 0 && !math.IsInf(w, 0), "lora-weights", "%v is not a weight above 0", w)
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
	c.want(o.Interval == 0 || o.Interval >= shortestWatch, "observe-interval", "%v is shorter than %v; 0 watches nothing", o.Interval, shortestWatch)
	c.want(slices.Contains([]string{"", "auto", "off"}, o.ServerMetrics) || validURL(o.ServerMetrics), "server-metrics",
		"%q is neither auto, off nor a URL such as http://localhost:8000/metrics", secret.Text(o.ServerMetrics))
	c.want(slices.Contains([]string{"", "auto", "off", "nvidia-smi"}, o.GPUMetrics) || validURL(o.GPUMetrics), "gpu-metrics",
		"%q is neither auto, nvidia-smi, off nor the URL of a DCGM exporter such as http://localhost:9400/metrics", secret.Text(o.GPUMetrics))
	c.want(o.PricePerHour >= 0, "price-per-hour", "%v is negative", o.PricePerHour)
	c.clash(o.Off && o.ServerLog != "", "no-observe", "server-log", "one watches what the other one does not want watched")
}

func (b *Bench) checkLoad(c *checker) {
	l := &b.Load
	timed := l.Duration > 0 || len(l.Stages) > 0
	allRows := b.Dataset.AllRows()
	unasked := timed && !b.Has("num-prompts")
	c.want(l.NumPrompts > 0 || allRows || unasked, "num-prompts", "%d: at least one request is needed", l.NumPrompts)
	c.want(l.RequestRate > 0, "request-rate", "%v is not a rate above 0; use inf for no pacing, or --max-concurrency for a closed loop",
		float64(l.RequestRate))
	c.want(l.Burstiness > 0, "burstiness", "%v is not above 0; 1 is Poisson, inf is constant gaps", float64(l.Burstiness))
	burst := l.RequestRate.Inf() && l.MaxConcurrency == nil && l.RampUp == "" && len(l.Stages) == 0
	c.needs(l.Duration > 0 && l.NumPrompts <= 0 && burst, "duration", "request-rate",
		"without a rate, --max-concurrency or --num-prompts it would send without end")
	c.needs(l.WarmupDuration > 0 && burst, "warmup-duration", "request-rate",
		"all requests leave at once, so there is no load to warm up with; --max-concurrency makes one, and --num-warmups sends a number")
	c.want(l.MaxConcurrency == nil || *l.MaxConcurrency > 0, "max-concurrency", "must be at least 1; leave it out for no cap")
	c.want(l.NumWarmups >= 0, "num-warmups", "%d is negative", l.NumWarmups)
	c.clash(l.NumWarmups > 0 && l.WarmupDuration > 0, "num-warmups", "warmup-duration", "say how long to warm up in one way")
	c.want(l.ProbeRate >= 0 && !l.ProbeRate.Inf(), "probe-request-rate", "%v is not a finite rate", float64(l.ProbeRate))
	c.want(l.Seed >= 0 && l.Seed <= math.MaxUint32, "seed", "%d is not between 0 and %d", l.Seed, uint32(math.MaxUint32))
}

// checkShape holds the rules of ramps and stages.
func (b *Bench) checkShape(c *checker) {
	l := &b.Load
	paced := !l.RequestRate.Inf()
	if len(l.Stages) > 0 {
		c.clash(paced, "stages", "request-rate", "each stage has its own rate")
		c.clash(l.RampUp != "", "stages", "ramp-up-strategy", "a plan is staged or ramped, not both")
		c.clash(l.Duration > 0, "stages", "duration", "the stages already say how long the run is")
	}
	if l.Pacing == PacingSlept {
		c.clash(len(l.Stages) > 0, "pacing", "stages", "stages are held for set times, which sleeping from one send to the next would miss")
		c.clash(l.RampUp != "", "pacing", "ramp-up-strategy", "no client that sleeps from one send to the next has a ramp; leave out --pacing slept")
		c.clash(b.SelfTimed(), "pacing", "self-timed", "the trace says when requests go")
	}
	if l.RampUp == "" {
		c.needs(l.RampStart != nil, "ramp-up-start-rps", "ramp-up-strategy", "linear or exponential")
		c.needs(l.RampEnd != nil, "ramp-up-end-rps", "ramp-up-strategy", "linear or exponential")
		return
	}
	c.clash(paced, "ramp-up-strategy", "request-rate", "the ramp sets the rate")
	c.needs(l.RampStart == nil, "ramp-up-strategy", "ramp-up-start-rps", "the rate to begin with")
	c.needs(l.RampEnd == nil, "ramp-up-strategy", "ramp-up-end-rps", "the rate to end with")
	if l.RampStart == nil || l.RampEnd == nil {
		return
	}
	c.want(*l.RampStart >= 0, "ramp-up-start-rps", "%d is negative", *l.RampStart)
	c.want(*l.RampEnd >= 0, "ramp-up-end-rps", "%d is negative", *l.RampEnd)
	c.clash(*l.RampStart > *l.RampEnd, "ramp-up-start-rps", "ramp-up-end-rps",
		fmt.Sprintf("a ramp goes up, and %d is above %d", *l.RampStart, *l.RampEnd))
	c.clash(*l.RampStart == 0, "ramp-up-start-rps", "ramp-up-strategy", "a ramp starts above 0 requests per second")
	c.needs(l.NumPrompts == 0, "ramp-up-strategy", "num-prompts", "the ramp is spread over that many requests")
}

func (b *Bench) checkDataset(c *checker) {
	b.checkLengths(c)
	d := &b.Dataset
	b.checkPath(c)
	b.checkTrace(c)
	b.checkGenerated(c)
	b.checkRows(c)
	b.checkSpread(c)
	b.checkMedia(c)
	if d.random() {
		b.checkRandom(c)
	}
	switch d.Name {
	case DatasetSonnet:
		s := d.Sonnet
		c.want(s.OutputLen > 0, "sonnet-output-len", "%d is not above 0", s.OutputLen)
		c.want(s.PrefixLen >= 0, "sonnet-prefix-len", "%d is negative", s.PrefixLen)
		c.clash(s.InputLen <= s.PrefixLen, "sonnet-input-len", "sonnet-prefix-len",
			fmt.Sprintf("the prefix of %d tokens has to be shorter than the prompt of %d", s.PrefixLen, s.InputLen))
	case DatasetShareGPT:
		c.want(d.ShareGPT.OutputLen == nil || *d.ShareGPT.OutputLen > 0, "sharegpt-output-len", "must be above 0")
	}
}

// maxPrompt is the longest prompt, in tokens: twice the longest context any model has. Memory is bounded by it.
const maxPrompt = 20_000_000

// checkLengths refuses prompts that are too long to be made, whatever the dataset.
func (b *Bench) checkLengths(c *checker) {
	d := &b.Dataset
	for _, l := range []struct {
		flag   string
		tokens int
	}{
		{"random-input-len", d.Random.InputLen},
		{"random-prefix-len", d.Random.PrefixLen},
		{"sonnet-input-len", d.Sonnet.InputLen},
		{"prefix-repetition-prefix-len", d.PrefixRepetition.PrefixLen},
		{"prefix-repetition-suffix-len", d.PrefixRepetition.SuffixLen},
		{"gsp-system-prompt-len", d.Shared.SystemLen},
		{"gsp-question-len", d.Shared.QuestionLen},
	} {
		c.want(l.tokens <= maxPrompt, l.flag, "%d tokens are more than spate makes a prompt of: want %d or fewer", l.tokens, maxPrompt)
	}
}

func (b *Bench) checkRandom(c *checker) {
	r := b.Dataset.Random
	c.want(r.InputLen >= 0, "random-input-len", "%d is negative", r.InputLen)
	c.want(r.PrefixLen >= 0, "random-prefix-len", "%d is negative", r.PrefixLen)
	c.want(r.InputLen+r.PrefixLen > 0, "random-input-len", "a prompt needs at least one token")
	c.want(r.OutputLen > 0, "random-output-len", "%d is not above 0", r.OutputLen)
	ratios := []float64{r.RangeRatio.Input, r.RangeRatio.Output}
	for _, v := range slices.Compact(ratios) {
		if r.Meaning == RatioV6 {
			c.want(v >= 0 && v <= 1, "random-range-ratio", "%v is not between 0 and 1, as its older meaning wants", v)
			continue
		}
		c.want(v >= 0 && v < 1, "random-range-ratio", "%v is not at least 0 and below 1", v)
	}
}

func (b *Bench) checkBody(c *checker) {
	y := &b.Body
	c.clash(y.PromptTokenIDs && !b.Target.Backend.Protocol().IDs, "prompt-token-ids", "backend", fmt.Sprintf("%s takes text only", b.Target.Backend))
	c.clash(y.PromptTokenIDs && b.Model.SkipTokenizerInit, "prompt-token-ids", "skip-tokenizer-init", "ids come from the tokenizer")
	c.want(y.Temperature == nil || *y.Temperature >= 0, "temperature", "cannot be negative")
	c.want(y.TopP == nil || *y.TopP > 0 && *y.TopP <= 1, "top-p", "must be above 0 and at most 1")
	c.want(y.MinP == nil || *y.MinP >= 0 && *y.MinP <= 1, "min-p", "must be between 0 and 1")
	c.want(y.BestOf == nil || *y.BestOf > 0, "best-of", "must be at least 1")
}

func (b *Bench) checkOutput(c *checker) {
	o, k := &b.Output, &b.Check
	c.clash(o.NoOutput && o.OutputDir != "", "no-output", "output-dir", "one asks for no run folder, the other names it")
	c.want(k.SteadyThreshold > 0 && k.SteadyThreshold <= 1, "steady-state-threshold", "%v is not above 0 and at most 1", k.SteadyThreshold)
	c.want(k.SteadyMinWindow >= 0, "steady-state-min-window", "cannot be negative")
	seen := map[Metric]bool{}
	for _, l := range k.Goodput {
		c.want(!seen[l.Metric], "goodput", "%s is given twice", l.Metric)
		seen[l.Metric] = true
	}
	wantsGoodput := func(o Objective) bool { return o.Metric == "request_goodput" || o.Metric == "goodput_ratio" }
	for _, s := range k.SLO {
		c.needs(wantsGoodput(s) && len(k.Goodput) == 0, "slo", "goodput", s.Text+" counts requests that meet the --goodput bounds")
	}
}

func (b *Bench) checkSim(c *checker) {
	s := &b.Sim
	if !s.Enabled {
		for _, f := range slices.Sorted(maps.Keys(b.Given)) {
			c.needs(strings.HasPrefix(f, "sim-"), f, "sim", "it describes the embedded server")
		}
		return
	}
	for _, f := range []string{"base-url", "unix-socket", "host", "port"} {
		c.clash(b.Given[f] == FromArgs, "sim", f, "the embedded server chooses its own address")
	}
	for _, f := range timetableFlags {
		c.clash(b.Has(f) && s.Profile != "" && s.Profile != Timetable, "sim", f, "a simulated engine sets its own times")
	}
	c.want(s.TokensPerChunk > 0, "sim-tokens-per-chunk", "%d is not above 0", s.TokensPerChunk)
	c.want(s.Jitter >= 0 && s.Jitter <= 1, "sim-jitter", "%v is not between 0 and 1", s.Jitter)
	c.want(s.OutputVary >= 0 && s.OutputVary <= 1, "sim-output-vary", "%v is not between 0 and 1", s.OutputVary)
	c.want(s.OutputLen >= 0, "sim-output-len", "%d is negative", s.OutputLen)
	c.want(s.MaxRunning >= 0, "sim-max-running", "%d is negative", s.MaxRunning)
	c.want(s.Reasoning >= 0, "sim-reasoning", "%d is negative", s.Reasoning)
	c.want(s.ToolTokens >= 0, "sim-tool-tokens", "%d is negative", s.ToolTokens)
}
