// Package interop writes results in the forms other tools read. It computes bytes and names from
// plain values; bench fills them from a finished run and result puts them on disk.
//
// vllm.go holds the result file of vLLM's serving benchmark, key for key; pyjson.go prints it as
// Python would. Read vllm.go first.
package interop

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/pytext"
	"spate/internal/result"
)

// VLLM is what vLLM's result file tells of a run. A nil pointer is Python's None or an absent part.
type VLLM struct {
	Date           time.Time // in the zone it should print in
	Backend        string
	Label          string // empty: none
	ModelID        string
	TokenizerID    string // empty: none
	NumPrompts     int
	Metadata       []string // KEY=VALUE, as given
	RequestRate    float64  // +Inf: all at once
	Burstiness     float64
	MaxConcurrency *int
	Ramp           *VLLMRamp

	Duration             float64 // seconds
	Completed            int
	Failed               int
	TotalInput           int
	TotalOutput          int
	RequestThroughput    float64
	RequestGoodput       *float64 // nil without --goodput
	OutputThroughput     float64
	TotalTokenThroughput float64
	PeakTokensPerS       float64 // vLLM's one-second buckets
	PeakConcurrent       int     // likewise
	RTFx                 float64
	Pooling              *metrics.Pooling // nil where answers are generated: another set of keys

	Detail  *metrics.Detail // nil without --save-detailed
	Probe   *VLLMProbe
	Changes []VLLMRateChange
	Spec    *result.SpecDecode
	Metrics []VLLMMetric // the selected ones, in order
}

// VLLMRamp is a ramp-up of the request rate.
type VLLMRamp struct {
	Strategy   string
	Start, End int
}

// VLLMRateChange is one step of a ramp-up.
type VLLMRateChange struct {
	RPS int
	At  time.Time
}

// VLLMProbe is the outcome of --probe-request-rate, in milliseconds.
type VLLMProbe struct {
	Completed, Failed int
	Median, P99, Max  float64
}

// VLLMMetric is one latency metric in milliseconds.
type VLLMMetric struct {
	Name        string // ttft, tpot, itl or e2el
	Mean        float64
	Median      float64
	Std         float64
	Percentiles []VLLMPercentile
}

// VLLMPercentile is the value at one percentile.
type VLLMPercentile struct {
	P     float64 // 0 to 100
	Value float64
}

// Fill takes the figures vLLM knows from a summary. selected are the names of --percentile-metrics,
// percentiles those of --metric-percentiles.
func (v *VLLM) Fill(s *metrics.Summary, selected []string, percentiles []float64) {
	v.Duration = s.DurationS
	v.Completed, v.Failed = s.Completed, s.Failed
	v.TotalInput, v.TotalOutput = s.TotalInput, s.TotalOutput
	v.RequestThroughput, v.RequestGoodput = s.RequestThroughput, s.RequestGoodput
	v.OutputThroughput, v.TotalTokenThroughput = s.OutputThroughput, s.TotalTokenThroughput
	v.PeakTokensPerS, v.PeakConcurrent, v.RTFx, v.Pooling = s.MaxOutputPerS, s.MaxConcurrent, s.RTFx, s.Pooling
	if p := s.Probe; p.Completed > 0 {
		v.Probe = &VLLMProbe{p.Completed, p.Failed, p.Median, p.P99, p.Max}
	}
	v.Metrics = nil
	for _, name := range figure.Latencies() {
		if !slices.Contains(selected, name) || s.Pooling != nil && name != "e2el" {
			continue
		}
		f := figure.Get(name)
		of := func(r figure.Ref) float64 { return r.Of(s).V } // 0 where there is none, as in vLLM
		out := VLLMMetric{Name: name, Mean: of(f.Stat("mean")), Median: of(f.Stat("median")), Std: of(f.Stat("std"))}
		for _, p := range percentiles {
			out.Percentiles = append(out.Percentiles, VLLMPercentile{p, of(f.At(p))})
		}
		v.Metrics = append(v.Metrics, out)
	}
}

// detailKeys are the per-request arrays, which --save-detailed keeps.
var detailKeys = []string{"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"}

// Object lays the result out in vLLM's order.
func (v *VLLM) Object() (Object, error) {
	o := Object{
		{"date", v.stamp()},
		{"endpoint_type", v.Backend},
		{"backend", v.Backend},
		{"label", orNone(v.Label)},
		{"model_id", v.ModelID},
		{"tokenizer_id", orNone(v.TokenizerID)},
		{"num_prompts", v.NumPrompts},
	}
	for _, item := range v.Metadata {
		key, value, ok := strings.Cut(item, "=")
		if !ok {
			return nil, fmt.Errorf("metadata %q has no \"=\": give it as KEY=VALUE", item)
		}
		o.Set(strings.TrimSpace(key), strings.TrimSpace(value))
	}
	o.Set("request_rate", rate(v.RequestRate))
	o.Set("burstiness", v.Burstiness)
	o.Set("max_concurrency", intOrNone(v.MaxConcurrency))
	if r := v.Ramp; r != nil {
		o.Set("ramp_up_strategy", r.Strategy)
		o.Set("ramp_up_start_rps", r.Start)
		o.Set("ramp_up_end_rps", r.End)
	}
	if v.Pooling != nil {
		v.addPooling(&o)
	} else {
		v.addCounts(&o)
	}
	v.addOptional(&o)
	for _, m := range v.Metrics {
		m.add(&o)
	}
	if v.Detail == nil { // as vLLM: by name, so that metadata of such a name goes too
		for _, key := range detailKeys {
			o.Delete(key)
		}
	}
	return o, nil
}

// addPooling lays out what vLLM tells of a run that generated nothing.
func (v *VLLM) addPooling(o *Object) {
	o.Set("duration", v.Duration)
	o.Set("completed", v.Completed)
	o.Set("total_input_tokens", v.TotalInput)
	o.Set("total_input_sequences", v.Pooling.Inputs)
	o.Set("request_throughput", v.RequestThroughput)
	o.Set("input_sequence_throughput", v.Pooling.Throughput)
	o.Set("total_token_throughput", v.TotalTokenThroughput)
	if d := v.Detail; d != nil {
		o.Set("input_lens", d.InputLens)
		o.Set("errors", d.Errors)
	}
}

func (v *VLLM) addCounts(o *Object) {
	o.Set("duration", v.Duration)
	o.Set("completed", v.Completed)
	o.Set("failed", v.Failed)
	o.Set("total_input_tokens", v.TotalInput)
	o.Set("total_output_tokens", v.TotalOutput)
	o.Set("request_throughput", v.RequestThroughput)
	if v.RequestGoodput != nil {
		o.Set("request_goodput", *v.RequestGoodput)
	} else {
		o.Set("request_goodput", nil)
	}
	o.Set("output_throughput", v.OutputThroughput)
	o.Set("total_token_throughput", v.TotalTokenThroughput)
	if d := v.Detail; d != nil {
		o.Set("input_lens", d.InputLens)
		o.Set("output_lens", d.OutputLens)
		o.Set("ttfts", d.TTFTs)
		o.Set("itls", d.ITLs)
		o.Set("start_times", d.StartTimes)
		o.Set("generated_texts", d.Texts)
		o.Set("errors", d.Errors)
	}
	o.Set("max_output_tokens_per_s", v.PeakTokensPerS)
	o.Set("max_concurrent_requests", v.PeakConcurrent)
	o.Set("rtfx", v.RTFx)
}

func (v *VLLM) addOptional(o *Object) {
	if p := v.Probe; p != nil {
		o.Set("probe_completed", p.Completed)
		o.Set("probe_failed", p.Failed)
		o.Set("probe_median_e2el_ms", p.Median)
		o.Set("probe_p99_e2el_ms", p.P99)
		o.Set("probe_max_e2el_ms", p.Max)
	}
	if len(v.Changes) > 0 {
		events := make([]Object, len(v.Changes))
		for i, c := range v.Changes {
			events[i] = Object{{"rps", c.RPS}, {"timestamp", isoTime(c.At)}}
		}
		o.Set("rps_change_events", events)
	}
	if s := v.Spec; s != nil {
		o.Set("spec_decode_acceptance_rate", s.Rate)
		o.Set("spec_decode_acceptance_length", s.Length)
		o.Set("spec_decode_num_drafts", s.Drafts)
		o.Set("spec_decode_draft_tokens", s.DraftTokens)
		o.Set("spec_decode_accepted_tokens", s.Accepted)
		o.Set("spec_decode_per_position_acceptance_rates", s.PerPosition)
	}
}

func (m *VLLMMetric) add(o *Object) {
	o.Set("mean_"+m.Name+"_ms", m.Mean)
	o.Set("median_"+m.Name+"_ms", m.Median)
	o.Set("std_"+m.Name+"_ms", m.Std)
	for _, p := range m.Percentiles {
		o.Set("p"+PercentileWord(p.P)+"_"+m.Name+"_ms", p.Value)
	}
}

// Encode is the file's content: one object on one line, without an end of line.
func (v *VLLM) Encode() ([]byte, error) {
	o, err := v.Object()
	if err != nil {
		return nil, err
	}
	return AppendPython(nil, o)
}

// FileName is the name vLLM gives the file: resultFilename when set, else one made of the run's main
// settings; under dir when set.
func (v *VLLM) FileName(dir, resultFilename string) string {
	name := resultFilename
	if name == "" {
		name = v.autoName()
	}
	if dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func (v *VLLM) autoName() string {
	label := v.Label
	if label == "" {
		label = v.Backend
	}
	load := pytext.Float(v.RequestRate) + "qps"
	if r := v.Ramp; r != nil {
		load = fmt.Sprintf("ramp-up-%s-%dqps-%dqps", r.Strategy, r.Start, r.End)
	}
	if v.MaxConcurrency != nil {
		load += "-concurrency" + strconv.Itoa(*v.MaxConcurrency)
	}
	return fmt.Sprintf("%s-%s-%s-%s.json", label, load, modelInName(v.ModelID), v.stamp())
}

// maxModelInName bounds the model's part of a file's name: file systems take 255 bytes for all of it.
const maxModelInName = 120

// modelInName is the last part of a model's id, which may be what a server says: cut to a length that file systems
// take, and without what they do not.
func modelInName(id string) string {
	id = id[strings.LastIndexByte(id, '/')+1:]
	id = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\\' || r == utf8.RuneError {
			return '-'
		}
		return r
	}, id)
	if len(id) > maxModelInName {
		id = strings.ToValidUTF8(id[:maxModelInName], "")
	}
	return id
}

func (v *VLLM) stamp() string {
	return v.Date.Format("20060102-150405")
}

// isoTime is Python's isoformat of a time without zone: microseconds, left out when there are none.
func isoTime(t time.Time) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

// PercentileWord is a percentile as vLLM prints it: 99, 99.9.
func PercentileWord(p float64) string {
	if p == math.Trunc(p) {
		return strconv.FormatFloat(p, 'f', 0, 64)
	}
	return pytext.Float(p)
}

func rate(r float64) any {
	if math.IsInf(r, 1) {
		return "inf"
	}
	return r
}

func orNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func intOrNone(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}
