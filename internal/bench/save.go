package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/result/interop"
	"spate/internal/settings/flags"
	"spate/internal/view/chart"
)

// checkOutputs finds out before the run whether what it is to write beside its folder can be written.
func (s *session) checkOutputs() error {
	o := &s.Config.Output
	if !o.SaveResult && !o.AppendResult && !o.PlotTimeline && !o.PlotDatasetStats {
		return nil
	}
	v := interop.VLLM{}
	if err := result.Writable(filepath.Dir(v.FileName(o.ResultDir, cmp.Or(o.ResultFilename, "result.json")))); err != nil {
		return fmt.Errorf("--result-dir: %w", err)
	}
	return nil
}

// saveVLLM writes vLLM's result file, and its PyTorch variant, if they were asked for. It returns
// the paths written.
func (s *session) saveVLLM(kept *recorder.Spill) ([]string, error) {
	o := &s.Config.Output
	var recs []call.Record // in memory only for what shows single requests
	if o.SaveDetailed || o.PlotTimeline || o.PlotDatasetStats || s.Config.Load.RampUp != "" {
		recs = kept.List()
	}
	v := s.vllm(recs)
	plots, err := s.savePlots(v.FileName(o.ResultDir, o.ResultFilename), recs)
	if err != nil || !o.SaveResult && !o.AppendResult {
		return plots, err
	}
	data, err := s.encodeVLLM(v)
	if err != nil {
		return plots, fmt.Errorf("encode vLLM result: %w", err)
	}
	path := v.FileName(o.ResultDir, o.ResultFilename)
	if err := result.Save(path, data, o.AppendResult); err != nil {
		return plots, err
	}
	files := append([]string{path}, plots...)
	if !o.PyTorchBenchmarks {
		return files, nil
	}
	extra, err := v.EncodePyTorch(s.arguments(), v.ModelID)
	if err != nil {
		return files, fmt.Errorf("encode PyTorch result: %w", err)
	}
	path = interop.PyTorchFileName(path)
	return append(files, path), result.Save(path, extra, false)
}

// savePlots draws the pictures that were asked for, beside vLLM's result file.
func (s *session) savePlots(path string, recs []call.Record) ([]string, error) {
	o := &s.Config.Output
	base := strings.TrimSuffix(path, filepath.Ext(path))
	var files []string
	save := func(name string, draw func(io.Writer) error) error {
		var b bytes.Buffer
		if err := draw(&b); err != nil {
			return err
		}
		files = append(files, name)
		return result.Save(name, b.Bytes(), false)
	}
	if o.PlotTimeline {
		title := fmt.Sprintf("%s, %s", s.Config.Scrub(s.whole.target.model), s.whole.load.text)
		if err := save(base+".timeline.html", func(w io.Writer) error { return chart.Timeline(w, title, recs, o.TimelineITL) }); err != nil {
			return files, err
		}
	}
	if o.PlotDatasetStats {
		var in, out []int
		for i := range recs {
			if recs[i].Phase == call.Measure && !recs[i].Retried {
				in, out = append(in, recs[i].Asked.N), append(out, recs[i].AskedOut)
			}
		}
		return files, save(base+".dataset_stats.png", func(w io.Writer) error { return chart.Lengths(w, in, out) })
	}
	return files, nil
}

// vllm is the run as vLLM's result file tells it.
func (s *session) vllm(recs []call.Record) *interop.VLLM {
	c, r := s.Config, s.run
	v := &interop.VLLM{
		Date: s.clock.Start().Local(), Backend: s.whole.target.backend, Label: c.Output.Label,
		ModelID: c.Scrub(s.whole.target.model), TokenizerID: c.Scrub(s.whole.tokens.id), NumPrompts: numPrompts(c.Load.NumPrompts, r.Tally.Due),
		RequestRate: float64(c.Load.RequestRate), Burstiness: float64(c.Load.Burstiness),
		MaxConcurrency: c.Load.MaxConcurrency, Spec: r.Spec,
		Summary: &r.Summary, Selected: r.Block.Metrics, Percentiles: c.Output.Percentiles,
	}
	safe := c.Redacted()
	for _, kv := range safe.Output.Metadata {
		v.Metadata = append(v.Metadata, kv.Key+"="+kv.Value)
	}
	if c.Load.RampUp != "" {
		v.Ramp = &interop.VLLMRamp{Strategy: string(c.Load.RampUp), Start: *c.Load.RampStart, End: *c.Load.RampEnd}
		v.Changes = s.rateChanges(recs)
	}
	if c.Output.SaveDetailed {
		d := metrics.Detailed(recs, r.Plan.Metrics())
		v.Detail = &d
	}
	return v
}

// numPrompts is what vLLM would have been told: the number asked for, or, where the run was bounded
// by time or by its file, as many as were sent.
func numPrompts(asked, sent int) int {
	if asked > 0 {
		return asked
	}
	return sent
}

// rateChanges are the times at which a ramp-up reached each whole rate: when the request was let go.
func (s *session) rateChanges(recs []call.Record) []interop.VLLMRateChange {
	sent := map[int]time.Duration{}
	for i := range recs {
		if recs[i].Phase == call.Measure && recs[i].Attempt == 0 {
			sent[recs[i].ID] = recs[i].Dispatched
		}
	}
	c := &s.Config.Load
	var out []interop.VLLMRateChange
	for step := range c.Ramp().Steps(s.whole.load.expect, float64(c.Burstiness), uint32(c.Seed)) {
		at := s.run.Plan.Start
		if len(out) > 0 {
			t, ok := sent[step.Request]
			if !ok {
				break
			}
			at = t
		}
		out = append(out, interop.VLLMRateChange{RPS: step.Rate, At: s.clock.Start().Add(at).Local()})
	}
	return out
}

// arguments are the settings as the PyTorch variant lists them.
func (s *session) arguments() interop.Object {
	o := interop.Object{}
	for _, a := range flags.Arguments(s.Config) {
		o.Set(a.Name, a.Value)
	}
	o.Set("model", s.whole.target.model)
	return o
}
