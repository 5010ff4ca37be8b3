package config

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/figure"
	"spate/internal/load/lengths"
	"spate/internal/load/schedule"
	"spate/internal/load/workload"
)

// good is a Bench that Validate accepts.
func good() *Bench {
	return &Bench{
		Target:  Target{Backend: OpenAI, Host: "127.0.0.1", Port: 8000, Endpoint: CompletionsPath, Route: RoundRobin},
		Load:    Load{NumPrompts: 10, Settings: schedule.Settings{RequestRate: Float(math.Inf(1)), Burstiness: 1}},
		Dataset: Dataset{Name: DatasetRandom, Settings: workload.Settings{Random: workload.Random{InputLen: 8, OutputLen: 8, Meaning: workload.RatioAuto}}},
		Output:  Output{Percentiles: []float64{99}, UI: UIAuto},
		Check:   Check{SteadyThreshold: 0.95},
		Given:   map[string]Source{},
	}
}

func ptr[T any](v T) *T { return &v }

func given(b *Bench, flags ...string) {
	for _, f := range flags {
		b.Given[f] = FromArgs
	}
}

func TestValidateNamesTheFlags(t *testing.T) {
	cases := map[string]struct {
		change func(*Bench)
		flags  []string // of the only problem; none: valid
	}{
		"as it is":                {func(*Bench) {}, nil},
		"rate zero":               {func(b *Bench) { b.Load.RequestRate = 0 }, []string{"request-rate"}},
		"rate negative":           {func(b *Bench) { b.Load.RequestRate = -1 }, []string{"request-rate"}},
		"burstiness zero":         {func(b *Bench) { b.Load.Burstiness = 0 }, []string{"burstiness"}},
		"burstiness infinite":     {func(b *Bench) { b.Load.Burstiness = Float(math.Inf(1)) }, nil},
		"no requests":             {func(b *Bench) { b.Load.NumPrompts = 0 }, []string{"num-prompts"}},
		"no slots":                {func(b *Bench) { b.Load.MaxConcurrency = ptr(0) }, []string{"max-concurrency"}},
		"launch timeout alone":    {func(b *Bench) { given(b, "launch-timeout") }, []string{"launch-timeout", "launch"}},
		"launch log alone":        {func(b *Bench) { given(b, "launch-log") }, []string{"launch-log", "launch"}},
		"launch gpus alone":       {func(b *Bench) { b.Launch.GPUs = "0"; given(b, "launch-gpus") }, []string{"launch-gpus", "launch"}},
		"launch memory alone":     {func(b *Bench) { given(b, "launch-gpu-memory-used-ok") }, []string{"launch-gpu-memory-used-ok", "launch"}},
		"launch gpus of all runs": {func(b *Bench) { b.Given["launch-gpus"] = FromEnv }, nil},
		"launch gpus with it":     {func(b *Bench) { b.Launch.Command = "x"; given(b, "launch", "launch-gpus") }, nil},
		"launch gpus for an arm": {func(b *Bench) {
			b.Repeat.Arms = []Arm{{Name: "a", URL: "http://x"}, {Name: "b", Flags: []string{"--launch", "x"}}}
			given(b, "launch-gpus")
		}, nil},
		"launch timeout negative": {func(b *Bench) { b.Launch.Command, b.Launch.Ready = "x", -1 }, []string{"launch-timeout"}},
		"recordings": {func(b *Bench) {
			b.Dataset = Dataset{Name: DatasetHF, Path: "x", Settings: workload.Settings{HF: workload.Hub{ASRMinSec: 5, ASRMaxSec: 4}}}
		}, []string{"asr-min-audio-len-sec", "asr-max-audio-len-sec"}},
		"seed too large":          {func(b *Bench) { b.Load.Seed = 1 << 32 }, []string{"seed"}},
		"port":                    {func(b *Bench) { b.Target.Port = 70000; given(b, "port") }, []string{"port"}},
		"base url":                {func(b *Bench) { b.Target.BaseURLs = []string{"ftp://x"} }, []string{"base-url"}},
		"base url without scheme": {func(b *Bench) { b.Target.BaseURLs = []string{"gpu:8000"} }, nil},
		"ramp with rate": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd, b.Load.RequestRate = schedule.RampLinear, ptr(1), ptr(5), 3
		}, []string{"ramp-up-strategy", "request-rate"}},
		"ramp down": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd = schedule.RampLinear, ptr(5), ptr(1)
		}, []string{"ramp-up-start-rps", "ramp-up-end-rps"}},
		"ramp from zero": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd = schedule.RampExponential, ptr(0), ptr(1)
		}, []string{"ramp-up-start-rps", "ramp-up-strategy"}},
		"ramp without end": {func(b *Bench) { b.Load.RampUp, b.Load.RampStart = schedule.RampLinear, ptr(1) }, []string{"ramp-up-strategy", "ramp-up-end-rps"}},
		"ramp end alone":   {func(b *Bench) { b.Load.RampEnd = ptr(1) }, []string{"ramp-up-end-rps", "ramp-up-strategy"}},
		"ramp by time": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd, b.Load.Duration = schedule.RampLinear, ptr(1), ptr(2), 1
		}, []string{"ramp-up-strategy", "num-prompts"}},
		"stages with rate":     {func(b *Bench) { b.Load.Stages, b.Load.RequestRate = schedule.Stages{{For: 1, From: 1, To: 1}}, 2 }, []string{"stages", "request-rate"}},
		"stages with duration": {func(b *Bench) { b.Load.Stages, b.Load.Duration = schedule.Stages{{For: 1, From: 1, To: 1}}, 2 }, []string{"stages", "duration"}},
		"stages slept": {func(b *Bench) {
			b.Load.Stages, b.Load.Pacing = schedule.Stages{{For: 1, From: 1, To: 1}}, schedule.PacingSlept
		}, []string{"pacing", "stages"}},
		"ramp slept": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd, b.Load.Pacing = schedule.RampLinear, ptr(1), ptr(5), schedule.PacingSlept
		}, []string{"pacing", "ramp-up-strategy"}},
		"ramp scheduled": {func(b *Bench) {
			b.Load.RampUp, b.Load.RampStart, b.Load.RampEnd, b.Load.Pacing = schedule.RampLinear, ptr(1), ptr(5), schedule.PacingScheduled
		}, nil},
		"rate slept":            {func(b *Bench) { b.Load.RequestRate, b.Load.Pacing = 2, schedule.PacingSlept }, nil},
		"burst slept":           {func(b *Bench) { b.Load.Pacing = schedule.PacingSlept }, nil},
		"two warm-ups":          {func(b *Bench) { b.Load.NumWarmups, b.Load.WarmupDuration, b.Load.RequestRate = 1, 1, 2 }, []string{"num-warmups", "warmup-duration"}},
		"time without a rate":   {func(b *Bench) { b.Load.Duration = 1 }, []string{"duration", "request-rate"}},
		"time of a closed loop": {func(b *Bench) { b.Load.Duration, b.Load.MaxConcurrency = 1, ptr(2) }, nil},
		"warm-up of a burst":    {func(b *Bench) { b.Load.WarmupDuration = 1 }, []string{"warmup-duration", "request-rate"}},
		"ratio out of range":    {func(b *Bench) { b.Dataset.Random.RangeRatio = lengths.Ratio{Input: 2, Output: 2} }, []string{"random-range-ratio"}},
		"path with random":      {func(b *Bench) { b.Dataset.Path = "x.json" }, []string{"dataset-path", "dataset-name"}},
		"sharegpt without path": {func(b *Bench) { b.Dataset.Name = DatasetShareGPT }, []string{"dataset-name", "dataset-path"}},
		"custom not jsonl": {func(b *Bench) {
			b.Dataset.Name, b.Dataset.Path, b.Dataset.Custom.OutputLen = DatasetCustom, "x.json", 1
		}, []string{"dataset-path"}},
		"custom all rows": {func(b *Bench) {
			b.Dataset.Name, b.Dataset.Path, b.Dataset.Custom.OutputLen, b.Load.NumPrompts = DatasetCustom, "x.jsonl", -1, 0
		}, nil},
		"custom all rows, the other way": {func(b *Bench) {
			b.Dataset.Name, b.Dataset.Path, b.Dataset.Custom.OutputLen, b.Load.NumPrompts = DatasetCustom, "x.jsonl", -1, -1
		}, nil},
		"sonnet prefix too long": {func(b *Bench) {
			b.Dataset.Name, b.Dataset.Sonnet = DatasetSonnet, workload.Sonnet{InputLen: 100, OutputLen: 10, PrefixLen: 100}
		}, []string{"sonnet-input-len", "sonnet-prefix-len"}},
		"head refuses ratio 1": {func(b *Bench) {
			b.Dataset.Random.RangeRatio, b.Dataset.Random.Meaning = lengths.Ratio{Input: 0, Output: 1}, workload.RatioHead
		}, []string{"random-range-ratio"}},
		"auto takes ratio 1": {func(b *Bench) { b.Dataset.Random.RangeRatio = lengths.Ratio{Input: 1, Output: 1} }, nil},
		"ids in chat": {func(b *Bench) {
			b.Target.Backend, b.Body.PromptTokenIDs = OpenAIChat, true
		}, []string{"prompt-token-ids", "backend"}},
		"chat to completions": {func(b *Bench) { b.Target.Backend = OpenAIChat; given(b, "endpoint") }, []string{"backend", "endpoint"}},
		"completions to chat": {func(b *Bench) { b.Target.Endpoint = ChatPath; given(b, "endpoint") }, []string{"backend", "endpoint"}},
		"insecure with ca":    {func(b *Bench) { b.Target.Insecure, b.Target.CACert = true, "x" }, []string{"insecure", "ca-cert"}},
		"raw with http 2":     {func(b *Bench) { b.Client.HTTPClient, b.Client.HTTPVersion = ClientRaw, HTTP2 }, []string{"http-client", "http-version"}},
		"two output wishes":   {func(b *Bench) { b.Output.NoOutput, b.Output.OutputDir = true, "d" }, []string{"no-output", "output-dir"}},
		"goodput twice":       {func(b *Bench) { b.Check.Goodput = []Limit{{TTFT, 1}, {TTFT, 2}} }, []string{"goodput"}},
		"goodput objective without bounds": {func(b *Bench) {
			b.Check.SLO = []figure.Objective{{Metric: "request_goodput", Op: ">", Bound: 1, Text: "goodput>1"}}
		}, []string{"slo", "goodput"}},
		"sim flag without sim": {func(b *Bench) { given(b, "sim-ttft") }, []string{"sim-ttft", "sim"}},
		"sim jitter":           {func(b *Bench) { b.Sim = Sim{Enabled: true, TokensPerChunk: 1, Jitter: 2} }, []string{"sim-jitter"}},
		"sim with url": {func(b *Bench) {
			b.Sim = Sim{Enabled: true, TokensPerChunk: 1}
			b.Target.BaseURLs = []string{"http://x"}
			given(b, "base-url")
		}, []string{"sim", "base-url"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := good()
			c.change(b)
			b.Resolve()
			err := b.Validate()
			if c.flags == nil {
				if err != nil {
					t.Fatalf("Validate() = %v, want no problem", err)
				}
				return
			}
			var problems Problems
			_ = errors.As(err, &problems)
			if len(problems) != 1 || !slices.Equal(problems[0].Flags, c.flags) {
				t.Fatalf("Validate() = %+v, want one problem with %v", problems, c.flags)
			}
			for _, f := range c.flags {
				if !strings.Contains(err.Error(), "--"+f) {
					t.Errorf("%q does not name --%s", err, f)
				}
			}
		})
	}
}

func TestResolve(t *testing.T) {
	b := good()
	b.Target.Backend = OpenAIChat
	b.Target.BaseURLs = []string{"gpu:8000/", "https://h/"}
	b.Dataset.InputLen, b.Dataset.OutputLen = ptr(100), ptr(7)
	b.Load.Duration = time.Minute
	b.Output.DisableTQDM = true
	b.Resolve()
	if b.Target.Endpoint != ChatPath {
		t.Errorf("endpoint %q", b.Target.Endpoint)
	}
	if diff := cmp.Diff([]string{"http://gpu:8000", "https://h"}, b.Target.URLs()); diff != "" {
		t.Error(diff)
	}
	if b.Dataset.Random.InputLen != 100 || b.Dataset.Sonnet.InputLen != 100 || b.Dataset.Random.OutputLen != 7 ||
		b.Dataset.Custom.OutputLen != 7 || *b.Dataset.ShareGPT.OutputLen != 7 || *b.Dataset.HF.OutputLen != 7 {
		t.Errorf("lengths not handed on: %+v", b.Dataset)
	}
	if b.Load.NumPrompts != 0 {
		t.Errorf("a timed run kept the default count %d", b.Load.NumPrompts)
	}
	if !b.Body.IgnoreEOS || b.Output.UI != UINone || b.Dataset.Random.Meaning != workload.RatioHead {
		t.Errorf("ignore_eos %v, ui %v, meaning %v", b.Body.IgnoreEOS, b.Output.UI, b.Dataset.Random.Meaning)
	}
	before := *b
	if notes := b.Resolve(); len(notes) != 0 { // decisions are made once
		t.Errorf("second Resolve notes %v", notes)
	}
	if diff := cmp.Diff(before, *b); diff != "" {
		t.Errorf("second Resolve changed (-first +second):\n%s", diff)
	}
}

func TestResolveKeepsWhatWasGiven(t *testing.T) {
	b := good()
	b.Target.Backend, b.Target.Endpoint = OpenAIChat, "/api/chat/completions"
	b.Load.Duration = time.Minute
	given(b, "endpoint", "num-prompts")
	b.Resolve()
	if b.Target.Endpoint != "/api/chat/completions" || b.Load.NumPrompts != 10 {
		t.Errorf("endpoint %q, prompts %d", b.Target.Endpoint, b.Load.NumPrompts)
	}
}

func TestURLs(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:8000", "::1": "http://[::1]:8000", "[::1]": "http://[::1]:8000",
	} {
		target := Target{Host: host, Port: 8000}
		if got := target.URLs()[0]; got != want {
			t.Errorf("URLs(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second, "20ms": 20 * time.Millisecond, "0": 0, "1e2": 100 * time.Second,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-3s", "soon", "inf", "nan", "1e30", "5 minutes"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestStages(t *testing.T) {
	got, err := schedule.ParseStages("30s@2, 1m@2-8.5")
	want := schedule.Stages{{For: 30 * time.Second, From: 2, To: 2}, {For: time.Minute, From: 2, To: 8.5}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("ParseStages = %v, %v, want %v", got, err, want)
	}
	raw, err := json.Marshal(got)
	if err != nil || string(raw) != `"30s@2,1m0s@2-8.5"` {
		t.Errorf("Marshal = %s, %v", raw, err)
	}
	var back schedule.Stages
	if err := json.Unmarshal(raw, &back); err != nil || !slices.Equal(back, want) {
		t.Errorf("Unmarshal = %v, %v", back, err)
	}
	for _, text := range []string{"", "30s", "30s@inf", "0s@1", "30s@2,"} {
		if got, err := schedule.ParseStages(text); err == nil {
			t.Errorf("schedule.ParseStages(%q) = %v, want an error", text, got)
		}
	}
}

func TestSampling(t *testing.T) {
	y := Body{}
	if got := y.Sampling(); got != nil {
		t.Errorf("nothing set gives %s", got)
	}
	y = Body{Temperature: ptr(0.0), TopK: ptr(5), BestOf: ptr(1)}
	if got := string(y.Sampling()); got != `{"top_k":5,"temperature":0}` {
		t.Errorf("got %s", got)
	}
	y = Body{BestOf: ptr(2), RepetitionPenalty: ptr(1.1)}
	if got := string(y.Sampling()); got != `{"repetition_penalty":1.1,"best_of":2}` {
		t.Errorf("got %s", got)
	}
}

func TestParseLimit(t *testing.T) {
	if got, err := ParseLimit("ttft:200"); err != nil || got != (Limit{TTFT, 200}) {
		t.Errorf("ParseLimit = %v, %v", got, err)
	}
	for _, name := range []string{"itl", "max_itl", "first_token", "user_tokens_per_s"} {
		if got, err := ParseLimit(name + ":20"); err != nil || got != (Limit{Metric(name), 20}) {
			t.Errorf("ParseLimit(%s:20) = %v, %v", name, got, err)
		}
	}
	for text, want := range map[string]string{
		"ttft": "ttft:200", "tftt:2": `did you mean "ttft"`, "tpot:-1": "negative", "e2el:x": "milliseconds", "duration:5": "ttft, tpot, e2el, itl",
	} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLimit(%q) = %v, want %q in it", text, err, want)
		}
	}
}

func TestParseHeader(t *testing.T) {
	for text, want := range map[string]Header{
		"X-A=b": {"X-A", "b"}, "Authorization: Bearer a=b": {"Authorization", "Bearer a=b"}, "X=a:b": {"X", "a:b"}, "X=": {"X", ""},
	} {
		if got, err := ParseHeader(text); err != nil || got != want {
			t.Errorf("ParseHeader(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "X", "=v", "a b=c", "X=a\r\nY: b"} {
		if got, err := ParseHeader(text); err == nil {
			t.Errorf("ParseHeader(%q) = %v, want an error", text, got)
		}
	}
}

func TestFloatJSON(t *testing.T) {
	for f, want := range map[Float]string{2: "2", Float(math.Inf(1)): `"inf"`, 0.5: "0.5"} {
		raw, err := json.Marshal(f)
		if err != nil || string(raw) != want {
			t.Errorf("Marshal(%v) = %s, %v, want %s", float64(f), raw, err, want)
		}
		var back Float
		if err := json.Unmarshal(raw, &back); err != nil || back != f {
			t.Errorf("Unmarshal(%s) = %v, %v", raw, back, err)
		}
	}
}

func TestResolveNotes(t *testing.T) {
	b := good()
	b.Output.ResultDir = "d"
	b.Dataset.Random.RangeRatio = lengths.Ratio{Input: 1, Output: 1}
	notes := strings.Join(b.Resolve(), "\n")
	for _, want := range []string{"--save-result", "--random-range-ratio 1"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is missing in %q", want, notes)
		}
	}
	if b.Dataset.Random.RangeRatio != (lengths.Ratio{}) {
		t.Errorf("an old ratio of 1 became %v, want fixed lengths", b.Dataset.Random.RangeRatio)
	}
}

func TestSettingsReadBackFromJSON(t *testing.T) {
	b := good()
	b.Target.Headers = []Header{{"X-A", "b"}}
	b.Load.MaxConcurrency, b.Body.Temperature, b.Load.SelfTimed = ptr(3), ptr(0.0), ptr(false)
	b.Load.Stages = schedule.Stages{{For: time.Second, From: 1, To: 2}}
	b.Check.SLO = []figure.Objective{{Text: "p99_ttft<5", Stat: "p99", Metric: "ttft", Op: "<", Bound: 5, Unit: "ms", Pct: 99, IsPct: true}}
	b.Check.Goodput = []Limit{{TTFT, 1}}
	b.Body.Extra = json.RawMessage(`{"a":1}`)
	given(b, "model")
	raw, err := json.Marshal(b.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	var back Bench
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*b, back); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
}

func TestBaseURLWithVersionIsTakenWithout(t *testing.T) {
	b := Bench{Target: Target{Backend: OpenAI, Endpoint: CompletionsPath, BaseURLs: []string{"https://api.example.com/v1/"}}}
	notes := b.Resolve()
	if b.Target.BaseURLs[0] != "https://api.example.com" || len(notes) != 1 {
		t.Errorf("base URL %s, notes %q", b.Target.BaseURLs[0], notes)
	}
}
