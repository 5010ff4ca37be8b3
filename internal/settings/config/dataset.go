package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spate/internal/load/workload"
	"spate/internal/send/protocol"
)

// Dataset names.
const (
	DatasetRandom     = "random"
	DatasetShareGPT   = "sharegpt"
	DatasetSonnet     = "sonnet"
	DatasetCustom     = "custom"
	DatasetRepetition = "prefix_repetition"
	DatasetShared     = "generated-shared-prefix"
	DatasetBurstGPT   = "burstgpt"
	DatasetTimedTrace = "timed_trace"
	DatasetMooncake   = "mooncake"
	DatasetSpecBench  = "spec_bench"
	DatasetSpeedBench = "speed_bench"
	DatasetHF         = "hf"
	DatasetRandomMM   = "random-mm"
	DatasetRerank     = "random-rerank"
	DatasetImages     = "custom_image"
	DatasetAudio      = "custom_audio"
	DatasetMultiTurn  = "multi-turn"
	DatasetAgentic    = "agentic"
)

// Shared configures generated-shared-prefix.
type Shared struct {
	Groups       int     `json:"num_groups"`
	PerGroup     int     `json:"prompts_per_group"`
	SystemLen    int     `json:"system_prompt_len"`
	QuestionLen  int     `json:"question_len"`
	OutputLen    int     `json:"output_len"`
	RangeRatio   float64 `json:"range_ratio"` // lengths between this share and all of what was asked
	Ordered      bool    `json:"ordered"`
	Distribution string  `json:"group_distribution"` // uniform or zipf
	ZipfAlpha    float64 `json:"zipf_alpha"`
}

// Replay says how the times of a trace are followed.
type Replay struct {
	Speed  float64       `json:"speed"` // times as fast as recorded
	MaxGap time.Duration `json:"max_gap_ns"`
}

// Talk configures conversations: laws are as workload.ParseDist reads them.
type Talk struct {
	On       bool   `json:"-"` // --multi-turn: Resolve turns it into the dataset's name
	Turns    string `json:"turns"`
	NextLen  string `json:"next_len"`
	Think    string `json:"think_time_s,omitempty"`
	MaxTurns int    `json:"max_turns"`
}

// Talks reports whether the dataset holds conversations.
func (d *Dataset) Talks() bool { return d.Name == DatasetMultiTurn || d.Name == DatasetAgentic }

// Timed reports whether the dataset knows when its requests are due.
func (d *Dataset) Timed() bool {
	return slices.Contains([]string{DatasetTimedTrace, DatasetMooncake, DatasetBurstGPT}, d.Name)
}

// trace reports a dataset whose own times are followed unless the user says otherwise.
func (d *Dataset) trace() bool { return d.Name == DatasetTimedTrace || d.Name == DatasetMooncake }

// kind is the dataset's line in the table of datasets.
func (d *Dataset) kind() workload.Dataset {
	all := workload.Datasets()
	if i := slices.IndexFunc(all, func(k workload.Dataset) bool { return k.Name == d.Name }); i >= 0 {
		return all[i]
	}
	return workload.Dataset{}
}

// AllRows reports whether no number of requests means every row of the dataset.
func (d *Dataset) AllRows() bool { return d.kind().AllRows }

// SelfTimed reports whether requests go at the dataset's own times.
func (b *Bench) SelfTimed() bool { return b.Load.SelfTimed != nil && *b.Load.SelfTimed }

// resolveDataset fills what depends on which dataset it is.
func (b *Bench) resolveDataset(note func(string, ...any)) {
	d := &b.Dataset
	if d.Talk.On && !d.Talks() {
		if b.Has("dataset-name") {
			note("--multi-turn takes the conversations of the file, not its first turns: dataset multi-turn")
		}
		d.Name = DatasetMultiTurn
	}
	b.resolveSpread()
	switch d.Name {
	case "custom_mm":
		d.Name = DatasetImages // its name before vLLM 0.24
	case DatasetMooncake:
		if !b.Has("timed-trace-chunk-hash-size") {
			d.TimedTrace.ChunkHashSize = 512
		}
		if !b.Has("timed-trace-sec-multiplier") {
			d.TimedTrace.SecMultiplier = 0.001
		}
	case DatasetMultiTurn, DatasetAgentic:
		if d.Path != "" && !b.Has("num-prompts") {
			b.Load.NumPrompts = 0 // every conversation of the file
		}
	case DatasetShared:
		if !b.Has("num-prompts") {
			b.Load.NumPrompts = 0 // as many as the groups have
		}
	}
	if d.trace() && b.Load.SelfTimed == nil {
		yes := true
		b.Load.SelfTimed = &yes
		if b.Has("request-rate") {
			note("--request-rate is not used: the trace's own times are (--no-self-timed uses the rate)")
		}
	}
	if d.Name == DatasetRandom || d.Name == DatasetRandomMM || d.Name == DatasetShared || d.trace() {
		b.Body.IgnoreEOS = true // vLLM and SGLang ask for exact lengths whenever prompts are synthetic
	}
}

// resolveSpread turns standard deviations into laws.
func (b *Bench) resolveSpread() {
	d := &b.Dataset
	if d.InputStd > 0 && d.InputDist == "" {
		d.InputDist = workload.Dist{Law: "normal", A: float64(d.Random.InputLen), B: d.InputStd}.String()
	}
	if d.OutputStd > 0 && d.OutputDist == "" {
		d.OutputDist = workload.Dist{Law: "normal", A: float64(d.Random.OutputLen), B: d.OutputStd}.String()
	}
}

// random reports a dataset whose text is random tokens.
func (d *Dataset) random() bool {
	return d.Name == DatasetRandom || d.Name == DatasetRandomMM || d.Name == DatasetRerank
}

// checkSpread holds the rules of lengths that follow a law.
func (b *Bench) checkSpread(c *checker) {
	d := &b.Dataset
	for _, law := range []struct{ flag, text string }{{"input-len", d.InputDist}, {"output-len", d.OutputDist}} {
		if law.text == "" {
			continue
		}
		_, err := workload.ParseDist(law.text)
		c.want(err == nil, law.flag, "%v", err)
		c.clash(!slices.Contains([]string{DatasetRandom, DatasetRandomMM, DatasetMultiTurn}, d.Name), law.flag, "dataset-name", "only random prompts have lengths by a law")
		c.clash(b.Has("random-range-ratio"), law.flag, "random-range-ratio", "both say how lengths are spread")
		c.clash(d.Joint != "", law.flag, "seq-dist", "both say how lengths are spread")
	}
	c.want(d.Talk.MaxTurns >= 0, "max-turns", "%d is negative", d.Talk.MaxTurns)
	c.clash(b.Has("think-time") && !d.Talks(), "think-time", "dataset-name", "only conversations (multi-turn, agentic) have turns")
	c.needs(d.Name == DatasetMultiTurn && d.Path == "" && b.Load.NumPrompts <= 0 && b.Load.Duration == 0 && len(b.Load.Stages) == 0,
		"dataset-name", "num-prompts", "made-up conversations have no number of their own")
	c.want(d.InputStd >= 0, "isl-stddev", "%v is negative", d.InputStd)
	c.want(d.OutputStd >= 0, "osl-stddev", "%v is negative", d.OutputStd)
	if d.Joint != "" {
		_, err := workload.ParseBuckets(d.Joint)
		c.want(err == nil, "seq-dist", "%v", err)
		c.clash(d.Name != DatasetRandom && d.Name != DatasetRandomMM, "seq-dist", "dataset-name", "only random prompts have lengths by weight")
	}
}

// checkMedia holds the rules of batches, rankings, pictures and sound.
func (b *Bench) checkMedia(c *checker) {
	d, p := &b.Dataset, b.Target.Backend.Protocol()
	r, mm := d.Random, d.RandomMM
	c.want(r.BatchSize > 0 || !b.Has("random-batch-size"), "random-batch-size", "%d is not above 0", r.BatchSize)
	c.clash(r.BatchSize > 1 && d.Name == DatasetRandom && !b.Target.Backend.Pools(), "random-batch-size", "backend",
		fmt.Sprintf("%s answers one prompt at a time; embedding servers take several", b.Target.Backend))
	switch d.Name {
	case DatasetRerank:
		c.clash(!b.Target.Backend.Pools(), "dataset-name", "backend", "random-rerank needs a server that ranks: use --backend vllm-rerank")
	case DatasetRandomMM:
		c.clash(!b.Target.Backend.Chat(), "dataset-name", "backend", "pictures go into chat messages: use --backend openai-chat")
		_, err := workload.ParseSizes(mm.Buckets)
		c.want(err == nil, "random-mm-bucket-config", "%v", err)
		_, err = mm.Limit()
		c.want(err == nil, "random-mm-limit-mm-per-prompt", "%v", err)
		c.want(mm.BaseItems >= 0, "random-mm-base-items-per-request", "%d is negative", mm.BaseItems)
		c.want(mm.ItemsRatio >= 0 && mm.ItemsRatio <= 1, "random-mm-num-mm-items-range-ratio", "%v is not between 0 and 1", mm.ItemsRatio)
	case DatasetImages:
		c.clash(!b.Target.Backend.Chat(), "dataset-name", "backend", "images go into chat messages: use --backend openai-chat")
	case DatasetAudio:
		c.clash(!b.Target.Backend.Chat() && p.Family != protocol.Audio, "dataset-name", "backend", "audio goes to --backend openai-audio, or into the messages of openai-chat")
	}
}

// Limit is the most pictures a request may have.
func (m *RandomMM) Limit() (int, error) {
	limit := map[string]int{}
	if len(m.LimitPerPrompt) > 0 {
		if err := json.Unmarshal(m.LimitPerPrompt, &limit); err != nil {
			return 0, fmt.Errorf("%s is not an object of whole numbers", m.LimitPerPrompt)
		}
	}
	if n, ok := limit["image"]; ok {
		return max(0, n), nil
	}
	return 255, nil
}

// checkPath holds the dataset's rule on --dataset-path.
func (b *Bench) checkPath(c *checker) {
	d, k := &b.Dataset, b.Dataset.kind()
	c.needs(k.Path == workload.NeedsPath && d.Path == "", "dataset-name", "dataset-path", fmt.Sprintf("%s reads a file: %s", d.Name, k.About))
	noFile := k.Path == workload.NoPath || d.Name == DatasetRandom && !b.Output.CutsConversations()
	c.clash(k.Name != "" && noFile && d.Path != "", "dataset-path", "dataset-name",
		d.Name+" prompts come from no file; name the dataset the file is, such as --dataset-name sharegpt")
}

// checkGenerated holds the rules of datasets that make prompts with shared beginnings.
func (b *Bench) checkGenerated(c *checker) {
	p, g := b.Dataset.PrefixRepetition, b.Dataset.Shared
	switch b.Dataset.Name {
	case DatasetRepetition:
		c.want(p.PrefixLen >= 0, "prefix-repetition-prefix-len", "%d is negative", p.PrefixLen)
		c.want(p.SuffixLen >= 0, "prefix-repetition-suffix-len", "%d is negative", p.SuffixLen)
		c.want(p.PrefixLen+p.SuffixLen > 0, "prefix-repetition-suffix-len", "a prompt needs at least one token")
		c.want(p.NumPrefixes > 0, "prefix-repetition-num-prefixes", "%d is not above 0", p.NumPrefixes)
		c.want(p.OutputLen > 0, "prefix-repetition-output-len", "%d is not above 0", p.OutputLen)
		c.clash(b.Load.NumPrompts > 0 && b.Load.NumPrompts < p.NumPrefixes, "num-prompts", "prefix-repetition-num-prefixes",
			fmt.Sprintf("%d requests cannot have %d prefixes", b.Load.NumPrompts, p.NumPrefixes))
	case DatasetShared:
		c.want(g.Groups > 0, "gsp-num-groups", "%d is not above 0", g.Groups)
		c.want(g.PerGroup > 0, "gsp-prompts-per-group", "%d is not above 0", g.PerGroup)
		c.want(g.SystemLen >= 0, "gsp-system-prompt-len", "%d is negative", g.SystemLen)
		c.want(g.QuestionLen > 0, "gsp-question-len", "%d is not above 0", g.QuestionLen)
		c.want(g.OutputLen > 0, "gsp-output-len", "%d is not above 0", g.OutputLen)
		c.want(g.RangeRatio >= 0 && g.RangeRatio <= 1, "gsp-range-ratio", "%v is not between 0 and 1", g.RangeRatio)
		c.want(g.ZipfAlpha > 0, "gsp-zipf-alpha", "%v is not above 0", g.ZipfAlpha)
	}
}

// checkTrace holds the rules of traces.
func (b *Bench) checkTrace(c *checker) {
	d, l := &b.Dataset, &b.Load
	c.clash(l.SelfTimed != nil && !d.Timed(), "self-timed", "dataset-name", "only traces carry times of their own")
	if b.SelfTimed() {
		c.clash(l.RampUp != "", "self-timed", "ramp-up-strategy", "the trace says when requests go")
		c.clash(len(l.Stages) > 0, "self-timed", "stages", "the trace says when requests go")
	}
	c.want(d.Replay.Speed > 0 || !b.Has("trace-speed"), "trace-speed", "%v is not above 0; 2 is twice as fast", d.Replay.Speed)
	for _, f := range []string{"trace-speed", "trace-max-gap"} {
		c.needs(b.Has(f) && !b.SelfTimed(), f, "self-timed", "it changes the times of a trace")
	}
	if !d.trace() {
		return
	}
	c.want(d.TimedTrace.ChunkHashSize > 0, "timed-trace-chunk-hash-size", "%d is not above 0", d.TimedTrace.ChunkHashSize)
	c.want(d.TimedTrace.SecMultiplier > 0, "timed-trace-sec-multiplier", "%v is not above 0", d.TimedTrace.SecMultiplier)
}

// checkRows holds the rules of datasets whose rows are prompts.
func (b *Bench) checkRows(c *checker) {
	d := &b.Dataset
	switch d.Name {
	case DatasetCustom, DatasetImages, DatasetAudio:
		c.want(d.Path == "" || strings.HasSuffix(d.Path, ".jsonl"), "dataset-path", "%q does not end in .jsonl", d.Path)
		c.want(d.Custom.OutputLen > 0 || d.Custom.OutputLen == -1, "custom-output-len",
			"%d is neither above 0 nor -1 (take output_tokens from the row)", d.Custom.OutputLen)
	case DatasetSpecBench:
		c.want(d.SpecBench.OutputLen > 0, "spec-bench-output-len", "%d is not above 0", d.SpecBench.OutputLen)
	case DatasetHF:
		c.want(d.HF.OutputLen == nil || *d.HF.OutputLen > 0, "hf-output-len", "must be above 0")
		c.clash(d.HF.BlazeditMin > d.HF.BlazeditMax, "blazedit-min-distance", "blazedit-max-distance", "no distance lies between them")
		c.clash(d.HF.ASRMinSec > d.HF.ASRMaxSec, "asr-min-audio-len-sec", "asr-max-audio-len-sec", "no recording is as long as the one and as short as the other")
	case DatasetSpeedBench:
		c.want(d.SpeedBench.OutputLen > 0, "speed-bench-output-len", "%d is not above 0", d.SpeedBench.OutputLen)
	}
}
