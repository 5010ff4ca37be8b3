package flags

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/load/lengths"
	"spate/internal/settings/config"
)

func parse(t *testing.T, args ...string) *config.Bench {
	t.Helper()
	r, err := Parse(args, Options{})
	if err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return r.Bench
}

func TestParseForms(t *testing.T) {
	cases := map[string]struct {
		args string
		ok   func(*config.Bench) bool
	}{
		"underscores":          {"--num_prompts 5", func(b *config.Bench) bool { return b.Load.NumPrompts == 5 }},
		"equals":               {"--num-prompts=5", func(b *config.Bench) bool { return b.Load.NumPrompts == 5 }},
		"last one wins":        {"--num-prompts 5 --num-prompts 6", func(b *config.Bench) bool { return b.Load.NumPrompts == 6 }},
		"several values":       {"--goodput ttft:200 tpot:50", func(b *config.Bench) bool { return len(b.Check.Goodput) == 2 && b.Check.Goodput[1].MS == 50 }},
		"several then flag":    {"--goodput ttft:200 tpot:50 --port 1", func(b *config.Bench) bool { return len(b.Check.Goodput) == 2 && b.Target.Port == 1 }},
		"repeated list":        {"--header A=b --header C=d", func(b *config.Bench) bool { return len(b.Target.Headers) == 2 }},
		"sim alone":            {"--sim --num-prompts 5", func(b *config.Bench) bool { return b.Sim.Enabled && b.Sim.Profile == "" && !b.Timetabled() }},
		"sim with a profile":   {"--sim Qwen3-8B@A10", func(b *config.Bench) bool { return b.Sim.Enabled && b.Sim.Profile == "Qwen3-8B@A10" }},
		"sim with times":       {"--sim --sim-ttft 5ms", func(b *config.Bench) bool { return b.Sim.Enabled && b.Timetabled() }},
		"sim timetable":        {"--sim=timetable", func(b *config.Bench) bool { return b.Sim.Enabled && b.Timetabled() }},
		"no sim":               {"--num-prompts 5", func(b *config.Bench) bool { return !b.Sim.Enabled }},
		"empty list":           {"--metadata --port 1", func(b *config.Bench) bool { return b.Output.Metadata == nil && b.Has("metadata") }},
		"abbreviation":         {"--num-p 5", func(b *config.Bench) bool { return b.Load.NumPrompts == 5 }},
		"abbreviation vllm's":  {"--output 5", func(b *config.Bench) bool { return *b.Dataset.OutputLen == 5 }},
		"abbreviation ours":    {"--stag 3s@1", func(b *config.Bench) bool { return len(b.Load.Stages) == 1 }},
		"abbreviation of both": {"--conf x.yaml", nil},
		"infinite":             {"--request-rate inf --burstiness Infinity", func(b *config.Bench) bool { return b.Load.RequestRate.Inf() && b.Load.Burstiness.Inf() }},
		"exponent":             {"--request-rate 1e2", func(b *config.Bench) bool { return b.Load.RequestRate == 100 }},
		"python digits":        {"--num-prompts 1_000", func(b *config.Bench) bool { return b.Load.NumPrompts == 1000 }},
		"negative value":       {"--presence-penalty -0.5 --frequency-penalty -1", func(b *config.Bench) bool { return *b.Body.PresencePenalty == -0.5 && *b.Body.FrequencyPenalty == -1 }},
		"switch":               {"--save-result --ignore_eos", func(b *config.Bench) bool { return b.Output.SaveResult && b.Body.IgnoreEOS }},
		"switch said off":      {"--save-result=false", func(b *config.Bench) bool { return !b.Output.SaveResult }},
		"json":                 {`--extra-body {"a":[1,2]}`, func(b *config.Bench) bool { return string(b.Body.Extra) == `{"a":[1,2]}` }},
		"dotted":               {"--extra-body.top_k 5 --extra-body.x.y=true --extra-body.s text", func(b *config.Bench) bool { return string(b.Body.Extra) == `{"s":"text","top_k":5,"x":{"y":true}}` }},
		"dotted underscore":    {"--extra_body.max_tokens 5", func(b *config.Bench) bool { return string(b.Body.Extra) == `{"max_tokens":5}` }},
		"dotted list":          {"--extra-body.stop+ a,b --extra-body.stop+ c", func(b *config.Bench) bool { return string(b.Body.Extra) == `{"stop":["a","b","c"]}` }},
		"dotted over whole":    {`--extra-body.a 2 --extra-body {"a":1,"b":1}`, func(b *config.Bench) bool { return string(b.Body.Extra) == `{"a":2,"b":1}` }},
		"dot in value":         {"--base-url=http://1.2.3.4:80", func(b *config.Bench) bool { return b.Target.BaseURLs[0] == "http://1.2.3.4:80" }},
		"several urls":         {"--base-url http://a http://b,http://c --url http://d", func(b *config.Bench) bool { return len(b.Target.BaseURLs) == 4 }},
		"ratio as json": {`--random-range-ratio {"input":0.1,"output":0.2}`, func(b *config.Bench) bool {
			return b.Dataset.Random.RangeRatio == lengths.Ratio{Input: 0.1, Output: 0.2}
		}},
		"endpoint type": {"--endpoint-type openai-chat --backend vllm", func(b *config.Bench) bool {
			return b.Target.Backend == config.OpenAIChat && b.Target.Endpoint == config.ChatPath
		}},
		"endpoint type aiperf": {"--endpoint-type chat", func(b *config.Bench) bool { return b.Target.Backend == config.OpenAIChat }},
		"old dataset":          {"--dataset ./sg.json", func(b *config.Bench) bool { return b.Dataset.Name == "sharegpt" && b.Dataset.Path == "./sg.json" }},
		"old skip template":    {"--custom-skip-chat-template --best-of 1 --use-beam-search", func(b *config.Bench) bool { return b.Dataset.SkipChatTemplate && *b.Body.BestOf == 1 }},
		"isl and osl":          {"--isl 10 --osl 20", func(b *config.Bench) bool { return b.Dataset.Random.InputLen == 10 && b.Dataset.Random.OutputLen == 20 }},
		"concurrency":          {"--concurrency 8", func(b *config.Bench) bool { return *b.Load.MaxConcurrency == 8 && b.Has("max-concurrency") }},
		"parallel": {"--parallel 8 --number 10 --rate 3", func(b *config.Bench) bool {
			return *b.Load.MaxConcurrency == 8 && b.Load.NumPrompts == 10 && b.Load.RequestRate == 3
		}},
		"arrival constant":    {"--arrival-pattern constant", func(b *config.Bench) bool { return b.Load.Burstiness.Inf() }},
		"arrival poisson":     {"--request-rate-mode poisson", func(b *config.Bench) bool { return b.Load.Burstiness == 1 }},
		"duration":            {"--duration 90 --rate 2", func(b *config.Bench) bool { return b.Load.Duration == 90*time.Second && b.Load.NumPrompts == 0 }},
		"duration and count":  {"--duration 1m --num-prompts 9", func(b *config.Bench) bool { return b.Load.NumPrompts == 9 }},
		"max time in minutes": {"--max-time-per-run 2 --rate 2", func(b *config.Bench) bool { return b.Load.Duration == 2*time.Minute }},
		"grace for ever":      {"--duration 1m --grace-period inf --rate 2", func(b *config.Bench) bool { return b.Load.GracePeriod == config.Forever }},
		"warmup count":        {"--warmup 10", func(b *config.Bench) bool { return b.Load.NumWarmups == 10 }},
		"warmup time":         {"--warmup 30s --rate 2", func(b *config.Bench) bool { return b.Load.WarmupDuration == 30*time.Second }},
		"extra inputs":        {"--extra-inputs min_tokens:5 tag:x", func(b *config.Bench) bool { return string(b.Body.Extra) == `{"min_tokens":5,"tag":"x"}` }},
		"ttft sla":            {"--ttft-sla-ms 200", func(b *config.Bench) bool { return b.Check.Goodput[0] == config.Limit{Metric: "ttft", MS: 200} }},
		"ui words":            {"--ui dashboard", func(b *config.Bench) bool { return b.Output.UI == config.UILive }},
		"short model":         {"-m x", func(b *config.Bench) bool { return b.Model.ID == "x" }},
		"slo list":            {"--slo p99_ttft<500ms,rps>1 error_rate<1%", func(b *config.Bench) bool { return len(b.Check.SLO) == 3 }},
		"percentiles": {"--metric-percentiles 50,99.9 --percentile-metrics ttft,e2el", func(b *config.Bench) bool {
			return b.Output.Percentiles[1] == 99.9 && b.Output.PercentileMetrics[1] == "e2el"
		}},
		"ready check":       {"--ready-check-timeout-sec 600", func(b *config.Bench) bool { return b.Target.ReadyTimeout == 10*time.Minute }},
		"later, at default": {"--prefix-repetition-prefix-len 256 --hf-split=", func(b *config.Bench) bool { return b.Dataset.PrefixRepetition.PrefixLen == 256 }},
		"stages":            {"--stages 30s@2,60s@8", func(b *config.Bench) bool { return b.Load.Stages[1].To == 8 && b.Load.NumPrompts == 0 }},
		"sim":               {"--sim --sim-ttft 20ms --sim-tokens-per-chunk 4", func(b *config.Bench) bool { return b.Sim.Enabled && b.Sim.TTFT == 20*time.Millisecond }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.ok == nil {
				_, err := Parse(strings.Fields(c.args), Options{ReadFile: noFile})
				if err == nil || !strings.Contains(err.Error(), "--config") {
					t.Fatalf("got %v, want --config to be meant", err)
				}
				return
			}
			if b := parse(t, strings.Fields(c.args)...); !c.ok(b) {
				t.Errorf("%s gave %+v", c.args, b)
			}
		})
	}
}

func noFile(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func TestParseMistakes(t *testing.T) {
	cases := map[string]struct {
		args string
		want []string // all in the message
	}{
		"misspelt":               {"--modle x", []string{"--modle", "did you mean --model?"}},
		"misspelt alias":         {"--concurency 5", []string{"--concurrency (--max-concurrency)"}},
		"nothing near":           {"--zzzzqq 1", []string{"unknown flag --zzzzqq"}},
		"ambiguous":              {"--num 5", []string{"ambiguous", "--num-prompts", "--num-warmups"}},
		"not a number":           {"--port 80a", []string{"--port", `"80a"`, "whole number"}},
		"not whole":              {"--num-prompts 1.5", []string{"--num-prompts", "whole number"}},
		"not a float":            {"--request-rate fast", []string{"--request-rate", `"fast"`, "not a number"}},
		"not a number at all":    {"--request-rate nan", []string{"not a number"}},
		"a sweep":                {"--concurrency 1,8,64", []string{"--concurrency", "sweep"}},
		"choice":                 {"--backend opnai", []string{"--backend", `"opnai"`, "openai, vllm, openai-chat", `did you mean "openai"?`}},
		"choice with alias":      {"--api chatt", []string{"--api (--backend)", "chatt"}},
		"dataset dashed":         {"--dataset-name prefix-repetition", []string{"is not one of", `did you mean "prefix_repetition"?`}},
		"later flag":             {"--tokenizer-revision x", []string{"--tokenizer-revision: spate does not support it", "downloads"}},
		"two profiles":           {"--sim a@b c@d", []string{"--sim", "c@d", "second"}},
		"profile and times":      {"--sim Qwen3-8B@A10 --sim-ttft 5ms", []string{"--sim", "--sim-ttft"}},
		"later level":            {"--confidence-level 0.9", []string{"spate does not support", "intervals other than 95 %"}},
		"times of its own":       {"--no-self-timed", []string{"--self-timed", "only traces"}},
		"missing value":          {"--model", []string{"--model needs a value"}},
		"missing before flag":    {"--model --port 5", []string{"--model needs a value", `"--port" looks like a flag`}},
		"stray word":             {"--save-result true", []string{`"true"`, "--save-result is a switch"}},
		"stray after one":        {"--model a b", []string{`"b"`, "--model takes one value"}},
		"stray at start":         {"hello", []string{`unexpected argument "hello"`}},
		"dotted on plain":        {"--model.x 5", []string{"only JSON flags"}},
		"dotted empty":           {"--extra-body..x 5", []string{"empty"}},
		"json broken":            {"--extra-body {a:1}", []string{"--extra-body", "JSON object"}},
		"json not object":        {"--extra-body [1]", []string{"JSON object"}},
		"goodput malformed":      {"--goodput ttft=200", []string{"--goodput", "NAME:MILLISECONDS"}},
		"goodput name":           {"--goodput duration:20", []string{"ttft, tpot, e2el"}},
		"header malformed":       {"--header Foo", []string{"--header", "KEY=VALUE"}},
		"stages malformed":       {"--stages 30s", []string{"--stages", "DURATION@RATE"}},
		"duration malformed":     {"--duration soon", []string{"--duration", `"soon"`, "30s"}},
		"metric":                 {"--percentile-metrics ttft,e2e", []string{`"e2e"`, `did you mean "e2el"`}},
		"contradiction":          {"--stages 3s@1 --request-rate 2", []string{"--stages and --request-rate contradict"}},
		"two contradictions":     {"--sim --base-url http://x --insecure --ca-cert f", []string{"--sim and --base-url", "--insecure and --ca-cert"}},
		"pacing":                 {"--pacing sleept", []string{"--pacing", `"sleept"`, "scheduled, slept", `did you mean "slept"?`}},
		"pacing of a ramp":       {"--pacing slept --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2", []string{"--pacing and --ramp-up-strategy"}},
		"pacing of stages":       {"--pacing slept --stages 3s@2", []string{"--pacing and --stages"}},
		"pacing of a trace":      {"--pacing slept --dataset-name mooncake --dataset-path x.jsonl", []string{"--pacing and --self-timed"}},
		"ramp and rate":          {"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 2 --request-rate 3", []string{"--ramp-up-strategy and --request-rate"}},
		"burstiness":             {"--burstiness 0", []string{"--burstiness", "not above 0"}},
		"negative rate":          {"--request-rate -1", []string{"--request-rate", "-1"}},
		"path with random":       {"--dataset-path x.json", []string{"--dataset-path and --dataset-name"}},
		"one letter":             {"-u 5", []string{"-u", "--url", "--max-concurrency"}},
		"dataset name as path":   {"--dataset sharegpt", []string{"--dataset-name"}},
		"warmup nonsense":        {"--warmup lots", []string{"--warmup", "30s"}},
		"config twice":           {"--config a --config b", []string{"--config is given twice"}},
		"config missing":         {"--config nowhere.yaml", []string{"--config", "nowhere.yaml"}},
		"secret is not repeated": {"--header Authorization:Bearer s3cr3t-Value", []string{"REDACTED"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.Fields(c.args), Options{ReadFile: noFile})
			if err == nil {
				t.Fatal("accepted")
			}
			var bad *Error
			var problems config.Problems
			if !errors.As(err, &bad) && !errors.As(err, &problems) {
				t.Errorf("%T is not a usage error", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%q repeats a secret", err)
			}
		})
	}
}

func fileOptions(text string) Options {
	return Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }}
}

func TestConfigFile(t *testing.T) {
	const text = `
model: org/m
num_prompts: 50
request-rate: .inf
save-result: true
save-detailed: false
label: null
goodput: {ttft: 200, tpot: 50}
header:
  X-A: b
metadata: [a=b, c=d]
base-url: [http://a, http://b]
metric-percentiles: [50, 99.9]
extra-body:
  top_k: 5
  stop: [x]
chat-template-kwargs.enable_thinking: false
concurrency: 4
duration: 30s
random-range-ratio: {input: 0.1, output: 0.2}
`
	r, err := Parse([]string{"--config", "f.yaml", "--num-prompts", "7", "--goodput", "e2el:9", "--extra-body.top_k", "6"}, fileOptions(text))
	if err != nil {
		t.Fatal(err)
	}
	b := r.Bench
	if b.Model.ID != "org/m" || b.Load.NumPrompts != 7 || !b.Load.RequestRate.Inf() || !b.Output.SaveResult || b.Output.SaveDetailed {
		t.Errorf("scalars: %+v", b)
	}
	if diff := cmp.Diff([]config.Limit{{Metric: "e2el", MS: 9}}, b.Check.Goodput); diff != "" {
		t.Errorf("the command line's list does not replace the file's: %s", diff)
	}
	if len(b.Output.Metadata) != 2 || len(b.Target.BaseURLs) != 2 || b.Target.Headers[0].Value != "b" || !slices.Equal(b.Output.Percentiles, []float64{50, 99.9}) {
		t.Errorf("lists: %+v %+v", b.Output, b.Target)
	}
	if string(b.Body.Extra) != `{"stop":["x"],"top_k":6}` || string(b.Body.ChatTemplate) != `{"enable_thinking":false}` {
		t.Errorf("objects: %s %s", b.Body.Extra, b.Body.ChatTemplate)
	}
	if *b.Load.MaxConcurrency != 4 || b.Load.Duration != 30*time.Second || b.Dataset.Random.RangeRatio.Output != 0.2 {
		t.Errorf("load: %+v", b.Load)
	}
	if b.Given["model"] != config.FromFile || b.Given["num-prompts"] != config.FromArgs || b.Has("label") {
		t.Errorf("given: %v", b.Given)
	}
}

func TestConfigFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"num-promts: 5":                  "line 1: unknown key \"num-promts\": did you mean \"num-prompts\"?",
		"\nport: x":                      "line 2: port: \"x\" is not a whole number",
		"- a":                            "want a list of flag: value",
		"port: 1\nport: 2":               "line 2: port is already given on line 1",
		"port: {a: 1}":                   "nested keys",
		"port: [1, {a: 2}]":              "plain values",
		"config: x":                      "cannot be used in a config file",
		"save-result: maybe":             "neither true nor false",
		"save-result: [true]":            "not a list",
		"a: b: c":                        "config file f.yaml",
		"tokenizer-revision: x":          "spate does not support",
		"model.x: 1":                     "only JSON flags",
		"burstiness: -1":                 "--burstiness",
		"stages: 3s@1\nduration: 1":      "--stages and --duration",
		"num-prompts: 5\nnum_prompts: 6": "already given",
	} {
		_, err := Parse([]string{"--config=f.yaml"}, fileOptions(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "# nothing", "~"} {
		if _, err := Parse([]string{"--config=f.yaml"}, fileOptions(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestModelWeights(t *testing.T) {
	r, err := Parse([]string{"--lora-modules", "a", "b", "--model-weights", "3, 0.5"}, Options{})
	if err != nil || len(r.Bench.Model.LoRAWeights) != 2 || r.Bench.Model.LoRAWeights[0] != 3 || r.Bench.Model.LoRAWeights[1] != 0.5 {
		t.Fatalf("%+v, %v", r, err)
	}
	for args, want := range map[string]string{
		"--lora-weights 1":                                                    "1 weights for 0 names",
		"--lora-modules a b --lora-weights 1":                                 "1 weights for 2 names",
		"--lora-modules a b --lora-weights 1,0":                               "not a weight above 0",
		"--lora-modules a b --lora-weights 1,x":                               `is not a number`,
		"--lora-modules a b --lora-weights 1,1 --lora-assignment round-robin": "does not use weights",
	} {
		if _, err := Parse(strings.Fields(args), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"OPENAI_API_KEY": "k1", "SPATE_MAX_CONCURRENCY": "8", "SPATE_PORT": "1", "SPATE_HEADER": "A=b C=d", "SPATE_CONFIG": "f.yaml",
		"SPATE_SAVE_RESULT": "1", "SAVE_TO_PYTORCH_BENCHMARK_FORMAT": "1",
	}
	opt := fileOptions("port: 2\nhost: file")
	opt.Env = func(n string) (string, bool) { v, ok := env[n]; return v, ok }
	opt.IDPrefix = "bench-1-"
	r, err := Parse([]string{"--host", "args"}, opt)
	if err != nil {
		t.Fatal(err)
	}
	b := r.Bench
	if b.Target.APIKey.Reveal() != "k1" || *b.Load.MaxConcurrency != 8 || b.Target.Port != 2 || b.Target.Host != "args" ||
		len(b.Target.Headers) != 2 || !b.Output.SaveResult || !b.Output.PyTorchBenchmarks || b.Load.RequestIDPrefix != "bench-1-" {
		t.Errorf("got %+v", b)
	}
	if b.Given["max-concurrency"] != config.FromEnv || b.Given["port"] != config.FromFile {
		t.Errorf("given: %v", b.Given)
	}
	env["SPATE_API_KEY"] = "k2"
	if r, err := Parse(nil, opt); err != nil || r.Bench.Target.APIKey.Reveal() != "k2" {
		t.Errorf("SPATE_API_KEY does not beat OPENAI_API_KEY: %v", err)
	}
	delete(env, "SPATE_API_KEY")
	env["ANTHROPIC_API_KEY"] = "k3"
	for backend, want := range map[string]string{"anthropic": "k3", "openai": "k1"} {
		if r, err := Parse([]string{"--backend", backend}, opt); err != nil || r.Bench.Target.APIKey.Reveal() != want {
			t.Errorf("%s has another key than %s: %v", backend, want, err)
		}
	}
	delete(env, "ANTHROPIC_API_KEY")
	if r, err := Parse([]string{"--backend", "anthropic"}, opt); err != nil || r.Bench.Target.APIKey.Reveal() != "k1" {
		t.Errorf("anthropic has no key although there is one: %v", err)
	}
	env["SPATE_PORT"] = "x"
	if _, err := Parse(nil, opt); err == nil || !strings.Contains(err.Error(), "SPATE_PORT") {
		t.Errorf("got %v, want SPATE_PORT to be named", err)
	}
}

func TestNamespace(t *testing.T) {
	r, err := Parse([]string{
		"--model", "it's", "--request-rate", "2", "--goodput", "ttft:200", "tpot:50", "--header", "Authorization=Bearer s3cr3t", "--temperature", "0",
		"--base-url", "http://u:s3cr3t@h", "--extra-body", `{"a":[1,null,true,"x"],"b":{"c":1.5}}`, "--save-result", "--percentile-metrics", "ttft,itl",
	}, Options{IDPrefix: "bench-0-"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Namespace(seed=0, num_prompts=1000, dataset_name='random',", `model="it's"`, "request_rate=2.0", "goodput=['ttft:200', 'tpot:50']",
		"header=['Authorization=REDACTED']", "temperature=0.0", "top_p=None", "base_url='http://REDACTED@h'",
		"extra_body={'a': [1, None, True, 'x'], 'b': {'c': 1.5}}", "save_result=True", "percentile_metrics='ttft,itl'",
		"burstiness=1.0", "max_concurrency=None", "request_id_prefix='bench-0-'", "random_range_ratio='0.0'", "ignore_eos=False",
		"asr_max_audio_len_sec=inf", "metric_percentiles='99'",
	} {
		if !strings.Contains(r.Namespace, want) {
			t.Errorf("%q is missing in %s", want, r.Namespace)
		}
	}
	if strings.Contains(r.Namespace, "s3cr3t") || strings.Contains(r.Namespace, "sim_") {
		t.Errorf("shows too much: %s", r.Namespace)
	}
}
