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

	Summary     *metrics.Summary // its figures, which the catalogue of package figure reads
	Selected    []string         // names of --percentile-metrics
	Percentiles []float64        // those of --metric-percentiles

	Detail  *metrics.Detail // nil without --save-detailed
	Changes []VLLMRateChange
	Spec    *result.SpecDecode
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

// generated and pooled are the keys of a run's figures in vLLM's order, pooled for a run that generated nothing; arrays
// of single requests stand where the empty key is.
var (
	generated = []string{
		"duration", "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
		"output_throughput", "total_token_throughput", "", "max_output_tokens_per_s", "max_concurrent_requests", "rtfx",
	}
	pooled = []string{
		"duration", "completed", "total_input_tokens", "total_input_sequences", "request_throughput", "input_sequence_throughput",
		"total_token_throughput", "",
	}
)

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
	v.addFigures(&o)
	v.addOptional(&o)
	v.addLatencies(&o)
	if v.Detail == nil { // as vLLM: by name, so that metadata of such a name goes too
		for _, key := range detailKeys {
			o.Delete(key)
		}
	}
	return o, nil
}

func (v *VLLM) addFigures(o *Object) {
	keys := generated
	if v.Summary.Pooling != nil {
		keys = pooled
	}
	for _, key := range keys {
		switch key {
		case "":
			v.addDetail(o)
		case "total_input_sequences":
			o.Set(key, v.Summary.Pooling.Inputs)
		default:
			o.Set(key, number(figure.Must(key), v.Summary))
		}
	}
}

// number is a figure as the file has it: counts are whole, goodput is None without objectives, and what the run has not
// is zero.
func number(r figure.Ref, s *metrics.Summary) any {
	value := r.Of(s)
	switch {
	case r.Unit == figure.Count:
		return int(value.V)
	case !value.OK && r.Name == "request_goodput":
		return nil
	}
	return value.V
}

func (v *VLLM) addDetail(o *Object) {
	d := v.Detail
	if d == nil {
		return
	}
	o.Set("input_lens", d.InputLens)
	if v.Summary.Pooling == nil {
		o.Set("output_lens", d.OutputLens)
		o.Set("ttfts", d.TTFTs)
		o.Set("itls", d.ITLs)
		o.Set("start_times", d.StartTimes)
		o.Set("generated_texts", d.Texts)
	}
	o.Set("errors", d.Errors)
}

func (v *VLLM) addOptional(o *Object) {
	if p := &v.Summary.Probe; p.Completed > 0 {
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

// addLatencies lays out the selected latencies; what the run has not is zero.
func (v *VLLM) addLatencies(o *Object) {
	for _, name := range figure.Latencies() {
		if !slices.Contains(v.Selected, name) || v.Summary.Pooling != nil && name != "e2el" {
			continue
		}
		f := figure.Get(name)
		for _, stat := range []string{"mean", "median", "std"} {
			o.Set(stat+"_"+name+"_ms", f.Stat(stat).Of(v.Summary).V)
		}
		for _, p := range v.Percentiles {
			o.Set("p"+PercentileWord(p)+"_"+name+"_ms", f.At(p).Of(v.Summary).V)
		}
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
