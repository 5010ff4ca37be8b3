package tune

import (
	"strings"
	"testing"
)

const plain = `
server: vllm
model: Qwen/Qwen3-8B
gpu: H100-SXM
version: 0.10.1
space:
  max-num-seqs: {int: [16, 512], log: true}
  enable-prefix-caching: switch
  env.VLLM_ATTENTION_BACKEND: [default, FLASHINFER]
workload: {random-input-len: 64, num-prompts: 10, max-concurrency: 4}
objective: throughput
`

func TestParseMistakes(t *testing.T) {
	for _, c := range []struct{ name, change, to, want string }{
		{"key", "objective:", "objectif:", `no key "objectif": did you mean "objective"?`},
		{"server", "server: vllm", "server: vlm", `did you mean "vllm"?`},
		{"objective", "throughput", "fastness", "not one of goodput"},
		{"space", "{int: [16, 512], log: true}", "{int: [512, 16]}", "empty"},
		{"kind", "{int: [16, 512], log: true}", "{ints: [1, 2]}", `did you mean "int"?`},
		{"log", "[16, 512]", "[0, 512]", "log scale begins above 0"},
		{"strategy", "objective:", "strategy: tpa\nobjective:", `did you mean "tpe"?`},
		{"flag gone", "enable-prefix-caching: switch", "scheduler-delay-factor: {float: [0, 1]}\n  swap-space: {int: [1, 8]}", ""},
		{"flag too new", "enable-prefix-caching: switch", "watermark: {float: [0, 0.1]}", "has no flag --watermark: it came with 0.24.0"},
		{"condition", "enable-prefix-caching: switch", "enable-prefix-caching: {switch: true, if: {block-size: 16}}", "must stand above"},
		{"no flags", "server: vllm", "server: {command: vllm serve}", "no {flags}"},
		{"constraint", "objective:", "constraints: [\"p99_tft<5\"]\nobjective:", "p99_tft"},
		{"cost", "throughput", "cost", "price_per_gpu_hour"},
		{"shares", "objective:", "shares: [1, 0.5]\nobjective:", "shares rise"},
		{"empty", plain, "", "empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(strings.Replace(plain, c.change, c.to, 1)))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestCommandLines(t *testing.T) {
	f, err := Parse("f.yaml", []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Line(f.Defaults()); got != "vllm serve Qwen/Qwen3-8B --port 8000" {
		t.Errorf("default: %s", got)
	}
	set := f.Defaults()
	if set["max-num-seqs"] != "1024" || set["enable-prefix-caching"] != "true" {
		t.Errorf("defaults of 0.10.1 on an H100: %v", set)
	}
	set["max-num-seqs"], set["enable-prefix-caching"], set["env.VLLM_ATTENTION_BACKEND"] = "64", "false", "FLASHINFER"
	want := "VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve Qwen/Qwen3-8B --port 8000 --max-num-seqs 64 --no-enable-prefix-caching"
	if got := f.Line(set); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	files, err := f.Deploy(set)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"server.service": "ExecStart=/usr/bin/env vllm serve Qwen/Qwen3-8B --port 8000 --max-num-seqs 64", "docker-compose.yaml": "vllm/vllm-openai:v0.10.1",
		"values.yaml": "nvidia.com/gpu: 1", "serve.sh": "exec env VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
}

// TestEngineSpaces: every engine's space is valid in every version, and its flags live as long as they did.
func TestEngineSpaces(t *testing.T) {
	for _, c := range []struct {
		engine, version string
		has, not        string
	}{
		{"vllm", "0.5.0", "scheduler-delay-factor", "async-scheduling"},
		{"vllm", "0.6.4", "num-scheduler-steps", "long-prefill-token-threshold"},
		{"vllm", "0.10.1", "scheduler-delay-factor", "watermark"},
		{"vllm", "0.28.0", "async-scheduling", "scheduler-delay-factor"},
		{"vllm", "", "async-scheduling", "num-scheduler-steps"},
		{"sglang", "", "mem-fraction-static", "tp-size"},
		{"lmdeploy", "", "cache-max-entry-count", "tp"},
		{"llama.cpp", "", "ubatch-size", "ctx-size"},
	} {
		t.Run(c.engine+" "+c.version, func(t *testing.T) {
			text := "server: " + c.engine + "\nmodel: m\nspace: " + c.engine + "\nworkload: {max-concurrency: 4}\nobjective: throughput\n"
			if c.version != "" {
				text += "version: " + c.version + "\n"
			}
			f, err := Parse("f.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]bool{}
			for _, k := range f.Knobs {
				names[k.Name] = true
			}
			if !names[c.has] || names[c.not] {
				t.Errorf("flags: %v", names)
			}
			if len(f.Command(f.Defaults(), "1", "")) == 0 {
				t.Error("no command")
			}
		})
	}
	if _, err := Parse("f.yaml", []byte(strings.Replace(plain, "server: vllm", "server: vllm\nfixed: {swap-space: 4}", 1))); err != nil {
		t.Errorf("swap space existed in 0.10.1: %v", err)
	}
}

// TestExamples: what ships can be read, and where its server can be simulated it is.
func TestExamples(t *testing.T) {
	for _, name := range []string{"reference.yaml", "small-sim.yaml", "vllm.yaml", "sglang.yaml", "llama-cpp.yaml", "lmdeploy.yaml"} {
		t.Run(name, func(t *testing.T) {
			f := example(t, name)
			for _, w := range f.Workloads {
				if _, err := resolve(w.Args); err != nil {
					t.Errorf("workload %s: %v", w.Name, err)
				}
			}
			if err := f.Forbidden(f.Defaults()); err != nil {
				t.Errorf("the default: %v", err)
			}
			if f.Server.Kind == "vllm" || f.Server.Kind == "sim" {
				if _, err := NewVirtual(f, nil, resolve); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRules(t *testing.T) {
	f := example(t, "reference.yaml")
	for _, c := range []struct{ name, flags, want string }{
		{"budget below context", "max-num-batched-tokens=1000 enable-chunked-prefill=false", "ValueError: max_num_batched_tokens (1000) is smaller than max_model_len (4096)"},
		{"budget below batch", "max-num-batched-tokens=1000 max-num-seqs=6091 enable-chunked-prefill=true", "ValueError: max_num_batched_tokens (1000) must be greater than or equal to max_num_seqs (6091)"},
		{"fine", "max-num-batched-tokens=1000 max-num-seqs=256 enable-chunked-prefill=true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, model := range []string{f.Model, "somebody/unknown"} { // by the engine's tables, and by the data file
				g := *f
				g.Model = model
				set := g.Defaults()
				for _, kv := range strings.Fields(c.flags) {
					name, value, _ := strings.Cut(kv, "=")
					set[name] = value
				}
				err := g.Forbidden(set)
				switch {
				case c.want == "" && err != nil:
					t.Errorf("%s: %v", model, err)
				case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
					t.Errorf("%s: %v, want %s", model, err, c.want)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte("space: vllm\nserver: {command: [a, '{flags}']}\nworkload: {a: [b, c]}\nobjective: p99_ttft_ms\nrate: 4\nmargin: 3%"))
	f.Add([]byte("space: {use: vllm, only: [block-size], x: {float: [0, 1], if: {block-size: [8]}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		if len(file.Knobs) == 0 || len(file.Workloads) == 0 {
			t.Error("a file that passed has nothing to search or to send")
		}
		_ = file.Line(file.Defaults())
	})
}
