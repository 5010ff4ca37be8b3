package config

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"spate/internal/load/lengths"
	"spate/internal/load/workload"
	"spate/internal/safe/secret"
)

// Endpoints used when none is given.
const (
	CompletionsPath = "/v1/completions"
	ChatPath        = "/v1/chat/completions"
)

// Resolve fills what depends on several settings, and returns a line for each choice a user may not
// expect. It changes nothing the second time.
func (b *Bench) Resolve() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	b.resolveProtocol(note)
	for i, u := range b.Target.BaseURLs {
		if u != "" && !strings.Contains(u, "://") {
			u = "http://" + u
		}
		u = strings.TrimRight(u, "/")
		if base, ok := strings.CutSuffix(u, "/v1"); ok && strings.HasPrefix(b.Target.Endpoint, "/v1/") {
			note("--base-url %s is used without /v1, which the endpoint %s brings", secret.Text(u), b.Target.Endpoint)
			u = base
		}
		b.Target.BaseURLs[i] = u
	}
	if len(b.Output.PercentileMetrics) == 0 {
		b.Output.PercentileMetrics = []Metric{TTFT, TPOT, ITL}
		if b.Target.Backend.Pools() {
			b.Output.PercentileMetrics = []Metric{E2EL}
		}
	}
	if b.Output.DisableTQDM && b.Output.UI == UIAuto {
		b.Output.UI = UINone
	}
	if o := &b.Output; !o.SaveResult && !o.AppendResult && (o.SaveDetailed || o.ResultDir != "" || o.ResultFilename != "") {
		note("vLLM's result JSON is written only with --save-result; spate's own run folder holds everything")
	}
	b.resolveLoad()
	b.Dataset.SetLengths(b.Dataset.InputLen, b.Dataset.OutputLen)
	b.resolveRatio(note)
	b.resolveDataset(note)
	return notes
}

// resolveProtocol takes endpoint and port from the backend where the user gave none. A script that sends
// SGLang's name to an OpenAI endpoint means SGLang's server there, as vLLM's older clients did.
func (b *Bench) resolveProtocol(note func(string, ...any)) {
	t := &b.Target
	path, _, _ := strings.Cut(t.Endpoint, "?")
	path = strings.TrimRight(path, "/")
	if b.Has("endpoint") && t.Backend == "sglang" && strings.HasSuffix(path, "completions") {
		t.Backend = "sglang-oai"
		if strings.HasSuffix(path, "chat/completions") {
			t.Backend = "sglang-oai-chat"
		}
		note("--backend sglang with --endpoint %s speaks SGLang's OpenAI protocol: %s", t.Endpoint, t.Backend)
	}
	p := t.Backend.Protocol()
	if !b.Has("endpoint") && p.Path != "" {
		t.Endpoint = p.Path
	}
	if !b.Has("port") && p.Port > 0 {
		t.Port = p.Port
	}
}

// resolveLoad drops the default number of prompts where time bounds the run instead. A dataset of rows
// has another word for all of them, -1.
func (b *Bench) resolveLoad() {
	timed := b.Load.Duration > 0 || len(b.Load.Stages) > 0
	allRows := b.Load.NumPrompts < 0 && b.Dataset.Kind().AllRows
	if timed && !b.Has("num-prompts") || allRows {
		b.Load.NumPrompts = 0
	}
}

// resolveRatio decides which of the two opposite meanings of a range ratio a script has. Only the
// older one has a use for 1, where it says what 0 says today.
func (b *Bench) resolveRatio(note func(string, ...any)) {
	r := &b.Dataset.Random
	if r.Meaning != workload.RatioAuto {
		return
	}
	r.Meaning = workload.RatioHead
	if r.RangeRatio != (lengths.Ratio{Input: 1, Output: 1}) {
		return
	}
	r.RangeRatio = lengths.Ratio{}
	if b.Dataset.Name == DatasetRandom {
		note("--random-range-ratio 1 is read as scripts before vLLM 0.8.4 mean it: every length exactly as asked " +
			"(--range-ratio-meaning head or v6 decides otherwise)")
	}
}

// URLs are the base URLs to send to; with none given, vLLM's default address.
func (t *Target) URLs() []string {
	if len(t.BaseURLs) > 0 {
		return t.BaseURLs
	}
	return []string{"http://" + net.JoinHostPort(strings.Trim(t.Host, "[]"), strconv.Itoa(t.Port))}
}

// Sampling is the JSON object of the sampling settings that were given, nil when none was.
func (y *Body) Sampling() json.RawMessage {
	var fields []string
	add := func(name string, v any) {
		raw, err := json.Marshal(v)
		if err == nil && string(raw) != "null" {
			fields = append(fields, strconv.Quote(name)+":"+string(raw))
		}
	}
	add("top_p", y.TopP)
	add("top_k", y.TopK)
	add("min_p", y.MinP)
	add("temperature", y.Temperature)
	add("frequency_penalty", y.FrequencyPenalty)
	add("presence_penalty", y.PresencePenalty)
	add("repetition_penalty", y.RepetitionPenalty)
	if y.BestOf != nil && *y.BestOf > 1 {
		add("best_of", y.BestOf)
	}
	if len(fields) == 0 {
		return nil
	}
	return json.RawMessage("{" + strings.Join(fields, ",") + "}")
}

// Timetable as --sim asks for a timetable server.
const Timetable = "timetable"

// timetableFlags describe a timetable: any of them asks for one.
var timetableFlags = []string{
	"sim-ttft", "sim-itl", "sim-tokens-per-chunk", "sim-jitter", "sim-ttft-spread", "sim-prefill", "sim-max-running", "sim-prefix-cache",
}

// Timetabled reports whether the embedded server answers by a timetable instead of simulating an
// engine: when the user says so, or gives times.
func (b *Bench) Timetabled() bool {
	if b.Sim.Profile == Timetable {
		return true
	}
	for _, f := range timetableFlags {
		if b.Has(f) {
			return b.Sim.Profile == ""
		}
	}
	return false
}
