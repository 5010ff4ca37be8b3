package build

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"spate/internal/load/schedule"
	"spate/internal/load/trace"
	"spate/internal/load/workload"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
)

// Timed plans requests at the dataset's own times.
func Timed(c *config.Load, times []time.Duration) (*Arrivals, error) {
	p, err := schedule.Trace(times)
	if err != nil {
		return nil, err
	}
	a := &Arrivals{Plan: p, Text: fmt.Sprintf("%d requests at the times of the trace, over %v", len(times), times[len(times)-1].Round(time.Millisecond))}
	if c.MaxConcurrency != nil {
		a.Plan = a.Plan.Capped(*c.MaxConcurrency)
		a.Text += fmt.Sprintf(", %d at a time", *c.MaxConcurrency)
	}
	if c.Duration > 0 {
		a.Plan = a.Plan.For(c.Duration)
		a.Text += fmt.Sprintf(", for %v", c.Duration)
	}
	return a, nil
}

// others translates the datasets that have their own settings.
func others(w *workload.Config, c *config.Bench) {
	d := &c.Dataset
	w.Batch, w.Speech = d.Random.BatchSize, c.Target.Backend.Protocol().Family == protocol.Audio
	w.InDist, _ = workload.ParseDist(d.InputDist) // validated before; none for an empty one
	w.OutDist, _ = workload.ParseDist(d.OutputDist)
	if d.Joint != "" {
		w.Joint, _ = workload.ParseBuckets(d.Joint)
	}
	w.SelfTimed, w.TakesIDs = c.SelfTimed(), c.Target.Backend.Protocol().IDs
	w.Trace.Speed, w.Trace.MaxGap = d.Replay.Speed, d.Replay.MaxGap
	switch d.Name {
	case config.DatasetRerank:
		w.Input, w.Ratio, w.NoReranker = d.Random.InputLen, workload.Ratio(d.Random.RangeRatio), d.Random.NoReranker
	case config.DatasetRandomMM:
		w.Input, w.Output, w.Prefix, w.Ratio = d.Random.InputLen, d.Random.OutputLen, d.Random.PrefixLen, workload.Ratio(d.Random.RangeRatio)
		w.Media.Items, w.Media.Ratio = d.RandomMM.BaseItems, d.RandomMM.ItemsRatio
		w.Media.Sizes, _ = workload.ParseSizes(d.RandomMM.Buckets) // validated before
		w.Media.Limit, _ = d.RandomMM.Limit()
		w.Media.Videos = videos(d.RandomMM.LimitPerPrompt)
	case config.DatasetMultiTurn, config.DatasetAgentic:
		talk(w, d)
	case config.DatasetImages, config.DatasetAudio:
		w.Output, w.Media.Inline = d.Custom.OutputLen, d.Custom.EnsureClientSideData
	case config.DatasetRepetition:
		p := d.PrefixRepetition
		w.Prefix, w.Suffix, w.Groups, w.Output = p.PrefixLen, p.SuffixLen, p.NumPrefixes, p.OutputLen
	case config.DatasetShared:
		g := d.Shared
		w.Prefix, w.Suffix, w.Groups, w.PerGroup, w.Output = g.SystemLen, g.QuestionLen, g.Groups, g.PerGroup, g.OutputLen
		w.GroupRatio, w.NoShuffle = g.RangeRatio, w.NoShuffle || g.Ordered
		if g.Distribution == "zipf" {
			w.Zipf = g.ZipfAlpha
		}
		if c.Has("multi-turn-turns") {
			w.Talk.Turns, _ = workload.ParseDist(d.Talk.Turns) // validated before
			w.Talk.Think, _ = workload.ParseDist(d.Talk.Think)
			w.Talk.MaxTurns = d.Talk.MaxTurns
		}
	case config.DatasetTimedTrace, config.DatasetMooncake:
		t := d.TimedTrace
		w.Trace.Format = trace.Format{
			Labels: trace.Labels{Time: t.LabelTimestamp, In: t.LabelInput, Out: t.LabelOutput, Blocks: t.LabelHashIDs},
			Chunk:  t.ChunkHashSize, Unit: t.SecMultiplier,
		}
	case config.DatasetHF:
		h := d.HF
		w.HF = workload.HF{Name: h.Name, Subset: h.Subset, Split: h.Split, Whole: d.NoStream, MinDistance: h.BlazeditMin, MaxDistance: h.BlazeditMax, MinSeconds: float64(h.ASRMinSec)}
		if most := float64(h.ASRMaxSec); !math.IsInf(most, 1) {
			w.HF.MaxSeconds = most
		}
		if h.BFCLCategories != "" {
			w.HF.Categories = strings.FieldsFunc(h.BFCLCategories, func(r rune) bool { return r == ',' || r == ' ' })
		}
		if h.OutputLen != nil {
			w.Output = *h.OutputLen
		}
	case config.DatasetSpecBench:
		w.Output, w.Category = d.SpecBench.OutputLen, d.SpecBench.Category
	case config.DatasetSpeedBench:
		w.Output, w.Category, w.Subset = d.SpeedBench.OutputLen, d.SpeedBench.Category, d.SpeedBench.Subset
	}
}

// videos is the most videos a request may have.
func videos(limits json.RawMessage) int {
	limit := map[string]int{"video": 1}
	if json.Unmarshal(limits, &limit) != nil {
		return 1 // none given; others were validated before
	}
	return max(0, limit["video"])
}

// talk translates the settings of conversations. Answers are as long as the file says unless a length is asked
// for; made-up ones have the lengths of random prompts.
func talk(w *workload.Config, d *config.Dataset) {
	w.Talk.MaxTurns = d.Talk.MaxTurns
	w.Talk.Think, _ = workload.ParseDist(d.Talk.Think) // validated before; none for an empty one
	if w.Output = workload.FromData; d.OutputLen != nil {
		w.Output = *d.OutputLen
	}
	if d.Path != "" {
		return
	}
	w.Talk.Turns, _ = workload.ParseDist(d.Talk.Turns)
	w.Talk.NextIn, _ = workload.ParseDist(d.Talk.NextLen)
	w.Input, w.Output, w.Prefix = d.Random.InputLen, d.Random.OutputLen, d.Random.PrefixLen
}
