package flags

import (
	"math"
	"strings"
	"testing"
)

// headFlags transcribes the flags of vllm bench serve at HEAD with their types and defaults. It is
// kept apart from the table on purpose: it is what the table must agree with.
const headFlags = `
backend choice openai
base-url str -
host str 127.0.0.1
port int 8000
endpoint str /v1/completions
header list -
insecure flag -
model str -
served-model-name str -
tokenizer str -
tokenizer-mode str auto
trust-remote-code flag -
skip-tokenizer-init flag -
num-prompts int 1000
request-rate float inf
burstiness float 1.0
max-concurrency int -
ramp-up-strategy choice -
ramp-up-start-rps int -
ramp-up-end-rps int -
num-warmups int 0
ready-check-timeout-sec int 0
probe-request-rate float 0.0
self-timed tri -
seed int 0
profile flag -
disable-tqdm flag -
request-id-prefix str -
lora-modules list -
lora-assignment choice random
ignore-eos flag -
logprobs int -
use-beam-search flag -
temperature float -
top-p float -
min-p float -
top-k int -
frequency-penalty float -
presence-penalty float -
repetition-penalty float -
extra-body json -
chat-template-kwargs json -
save-result flag -
save-detailed flag -
append-result flag -
result-dir str -
result-filename str -
metadata list -
label str -
percentile-metrics str -
metric-percentiles str 99
goodput list -
plot-timeline flag -
timeline-itl-thresholds str 25,50
plot-dataset-stats flag -
dataset-name choice random
dataset-path str -
input-len int -
output-len int -
no-stream flag -
no-oversample flag -
disable-shuffle flag -
skip-chat-template flag -
enable-multimodal-chat flag -
random-input-len int 1024
random-output-len int 128
random-prefix-len int 0
random-range-ratio str 0.0
random-batch-size int 1
no-reranker flag -
random-mm-base-items-per-request int 1
random-mm-num-mm-items-range-ratio float 0.0
random-mm-limit-mm-per-prompt json {"image": 255, "video": 1}
random-mm-bucket-config str {(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}
sonnet-input-len int 550
sonnet-output-len int 150
sonnet-prefix-len int 200
sharegpt-output-len int -
custom-output-len int 256
custom-ensure-client-side-data flag -
spec-bench-output-len int 256
spec-bench-category str -
speed-bench-dataset-subset choice qualitative
speed-bench-output-len int 4096
speed-bench-category str -
prefix-repetition-prefix-len int 256
prefix-repetition-suffix-len int 256
prefix-repetition-num-prefixes int 10
prefix-repetition-output-len int 128
hf-subset str -
hf-split str -
hf-name str -
hf-output-len int -
blazedit-min-distance float 0.0
blazedit-max-distance float 1.0
asr-min-audio-len-sec float 0.0
asr-max-audio-len-sec float inf
bfcl-categories str -
timed-trace-chunk-hash-size int 16
timed-trace-sec-multiplier float 1.0
timed-trace-label-timestamp str timestamp
timed-trace-label-input-length str input_length
timed-trace-label-output-length str output_length
timed-trace-label-hash-ids str hash_ids
`

func TestTableHasEveryFlagOfHead(t *testing.T) {
	byName := map[string]*Def{}
	for _, d := range Table() {
		byName[d.Name] = d
	}
	known := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(headFlags), "\n") {
		name, rest, _ := strings.Cut(line, " ")
		kind, def, _ := strings.Cut(rest, " ")
		known[name] = true
		d := byName[name]
		if d == nil || !d.VLLM {
			t.Errorf("--%s of HEAD is missing", name)
			continue
		}
		checkKind(t, d, kind)
		want := strings.TrimPrefix(def, "-")
		if kind == "flag" {
			want = "false"
		}
		if got := d.value.text(); got != want {
			t.Errorf("--%s defaults to %q, want %q", name, got, want)
		}
	}
	for _, d := range Table() {
		if d.VLLM && !known[d.Name] {
			t.Errorf("--%s is marked as a flag of HEAD and is none", d.Name)
		}
	}
}

func checkKind(t *testing.T, d *Def, kind string) {
	t.Helper()
	arities := map[string]arity{"flag": none, "tri": tri, "list": many}
	if d.Name != "base-url" && d.value.arity != arities[kind] {
		t.Errorf("--%s has arity %d, not that of %s", d.Name, d.value.arity, kind)
	}
	word, bad := map[string]string{"int": "7", "float": "0.5", "json": `{"a":1}`}[kind], "seven"
	if word == "" {
		return
	}
	if err := d.value.Set(word); err != nil {
		t.Errorf("--%s refuses %s: %v", d.Name, word, err)
	}
	if err := d.value.Set(bad); err == nil {
		t.Errorf("--%s takes %s", d.Name, bad)
	}
	if kind == "int" && d.Name != "ready-check-timeout-sec" {
		if err := d.value.Set("0.5"); err == nil {
			t.Errorf("--%s, a whole number, takes 0.5", d.Name)
		}
	}
	d.value.reset()
	if d.Default != "" {
		if err := d.value.Set(d.Default); err != nil {
			t.Error(err)
		}
	}
}

func TestDefaultsAreVLLMs(t *testing.T) {
	b := Defaults()
	if b.Target.Backend != "openai" || b.Target.Port != 8000 || b.Load.NumPrompts != 1000 ||
		!math.IsInf(float64(b.Load.RequestRate), 1) || b.Load.Burstiness != 1 || b.Dataset.Name != "random" ||
		b.Dataset.Random.InputLen != 1024 || b.Dataset.Random.OutputLen != 128 || b.Load.MaxConcurrency != nil || b.Body.Temperature != nil {
		t.Errorf("defaults: %+v", b)
	}
	b.Resolve()
	if err := b.Validate(); err != nil {
		t.Errorf("a run without flags is not valid: %v", err)
	}
}

// A name of ours must not take an abbreviation that vLLM's own parser understands.
func TestNoNameOfOursHidesAnAbbreviation(t *testing.T) {
	ix := newIndex(Table())
	for _, e := range ix.rest {
		fits := abbreviated(ix.vllm, e.spelling)
		if len(e.spelling) > 1 && len(fits) == 1 {
			t.Errorf("--%s means --%s in vLLM", e.spelling, fits[0].spelling)
		}
	}
}

func TestSpellingsAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, d := range Table() {
		names := []string{d.Name}
		for _, a := range d.Also {
			names = append(names, a.Name)
		}
		for _, n := range names {
			if other, again := seen[n]; again {
				t.Errorf("--%s belongs to --%s and --%s", n, other, d.Name)
			}
			seen[n] = d.Name
			if n != fold(strings.ToLower(n)) {
				t.Errorf("--%s is not lower case with dashes", n)
			}
		}
		if d.Help == "" || strings.HasSuffix(d.Help, ".") {
			t.Errorf("--%s: help %q", d.Name, d.Help)
		}
	}
}
