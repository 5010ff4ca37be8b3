package tune

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"spate/internal/search/suggest"
)

// TestDataFiles: the spaces of engines are well formed: what a flag starts with is a value it may take, what
// depends on another flag stands below it, lifetimes are not empty, and rules are about flags there are.
func TestDataFiles(t *testing.T) {
	for _, engine := range Engines() {
		t.Run(engine, func(t *testing.T) {
			sf := readData(t, engine)
			if sf.Engine != engine || sf.Latest == "" {
				t.Errorf("it is of %q, latest %q", sf.Engine, sf.Latest)
			}
			flags, rules, err := engineSpace(engine, "")
			if err != nil {
				t.Fatal(err)
			}
			var space suggest.Space
			for i := range flags {
				space.Params = append(space.Params, flags[i].Param)
				checkFlag(t, &flags[i], sf.Latest)
			}
			if err := space.Validate(); err != nil {
				t.Error(err)
			}
			known := append(namesOf(flags), "max-model-len")
			for _, r := range rules {
				checkRule(t, r, known)
			}
		})
	}
}

func readData(t *testing.T, engine string) spaceFile {
	t.Helper()
	data, err := dataFiles.ReadFile("data/" + engine + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sf spaceFile
	if err := yaml.Unmarshal(data, &sf); err != nil {
		t.Fatal(err)
	}
	return sf
}

func checkFlag(t *testing.T, k *knownFlag, latest string) {
	t.Helper()
	if k.Name != strings.ToLower(k.Name) && !k.env() || strings.Contains(k.Name, "_") && !k.env() {
		t.Errorf("%s is not how a flag is written", k.Name)
	}
	if k.since != "" && k.until != "" && !older(k.since, k.until) {
		t.Errorf("%s came with %s and went with %s", k.Name, k.since, k.until)
	}
	if k.since != "" && older(latest, k.since) {
		t.Errorf("%s comes with %s, after the latest, %s", k.Name, k.since, latest)
	}
	if k.Default == "" {
		return
	}
	switch k.Kind {
	case suggest.Choice:
		if !slices.Contains(k.Values, k.Default) {
			t.Errorf("%s is %q by default, which is none of %q", k.Name, k.Default, k.Values)
		}
	case suggest.Switch:
		if _, err := strconv.ParseBool(k.Default); err != nil {
			t.Errorf("%s is a switch and %q by default", k.Name, k.Default)
		}
		if k.Default == "true" && k.Off == "" {
			t.Errorf("%s is on by default, and nothing turns it off", k.Name)
		}
	default:
		v, err := strconv.ParseFloat(k.Default, 64)
		if err != nil || v < k.Low || v > k.High {
			t.Errorf("%s is %s by default, outside %g to %g", k.Name, k.Default, k.Low, k.High)
		}
	}
}

func checkRule(t *testing.T, r ruleText, known []string) {
	t.Helper()
	rule, unless, _ := strings.Cut(r.Rule, " unless ")
	w := strings.Fields(rule)
	if len(w) < 3 || !slices.Contains([]string{">=", "<=", "%"}, w[1]) || !slices.Contains(known, w[0]) || !slices.Contains(known, w[2]) ||
		unless != "" && !slices.Contains(known, unless) || r.Error == "" {
		t.Errorf("%q is no rule about known flags", r.Rule)
	}
}

// TestEngineDefaults: what the argument parsers of these versions say.
func TestEngineDefaults(t *testing.T) {
	for _, c := range []struct{ engine, version, flag, want string }{ // want: "gone" has no such flag, "auto" no default
		{"vllm", "0.5.0", "num-scheduler-steps", "gone"},
		{"vllm", "0.6.0", "num-scheduler-steps", "1"},
		{"vllm", "0.10.0", "num-scheduler-steps", "1"},
		{"vllm", "0.10.1", "num-scheduler-steps", "gone"},
		{"vllm", "0.10.1", "scheduler-delay-factor", "0"},
		{"vllm", "0.11.0", "scheduler-delay-factor", "gone"},
		{"vllm", "0.9.1", "use-v2-block-manager", "false"},
		{"vllm", "0.10.0", "use-v2-block-manager", "gone"},
		{"vllm", "0.14.0", "swap-space", "4"},
		{"vllm", "0.19.0", "swap-space", "gone"},
		{"vllm", "0.14.0", "gpu-memory-utilization", "0.9"},
		{"vllm", "0.32.0", "gpu-memory-utilization", "0.92"},
		{"vllm", "0.32.0", "watermark", "0"},
		{"vllm", "0.14.0", "env.VLLM_ATTENTION_BACKEND", "default"},
		{"vllm", "0.16.0", "env.VLLM_ATTENTION_BACKEND", "gone"},
		{"vllm", "0.14.0", "attention-backend", "default"},
		{"sglang", "0.3.0", "disable-overlap-schedule", "gone"},
		{"sglang", "0.4.0", "schedule-policy", "lpm"},
		{"sglang", "0.4.4", "schedule-policy", "fcfs"},
		{"sglang", "0.5.1", "mem-fraction-static", "auto"},
		{"sglang", "0.5.1", "chunked-prefill-size", "auto"},
		{"sglang", "0.5.12", "cuda-graph-max-bs", "auto"},
		{"sglang", "0.5.20", "cuda-graph-max-bs", "gone"},
		{"sglang", "0.5.20", "cuda-graph-max-bs-decode", "auto"},
		{"sglang", "0.5.23", "max-prefill-tokens", "16384"},
		{"lmdeploy", "0.9.0", "max-batch-size", "auto"},
		{"lmdeploy", "0.9.0", "async", "gone"},
		{"lmdeploy", "0.18.0", "async", "1"},
		{"lmdeploy", "0.18.0", "cache-max-entry-count", "0.8"},
		{"llama.cpp", "11549", "flash-attn", "auto"},
		{"llama.cpp", "11549", "ubatch-size", "512"},
		{"llama.cpp", "11549", "parallel", "auto"},
	} {
		flags, _, err := engineSpace(c.engine, c.version)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(flags, func(k knownFlag) bool { return k.Name == c.flag })
		if i < 0 {
			t.Errorf("%s knows no %s", c.engine, c.flag)
			continue
		}
		got := flags[i].Default
		switch {
		case !flags[i].existed(c.version):
			got = "gone"
		case got == "":
			got = "auto"
		}
		if got != c.want {
			t.Errorf("%s %s: %s is %q, want %q", c.engine, c.version, c.flag, got, c.want)
		}
	}
	flags, _, err := engineSpace("sglang", "0.4.0")
	if err != nil {
		t.Fatal(err)
	}
	for i := range flags {
		if slices.Contains(flags[i].Values, "fa3") || slices.Contains(flags[i].Values, "fp8_e4m3") {
			t.Errorf("SGLang 0.4.0 has no such value of %s: %v", flags[i].Name, flags[i].Values)
		}
	}
}
