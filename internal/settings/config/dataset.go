package config

import (
	"fmt"

	"spate/internal/load/lengths"
	"spate/internal/load/workload"
	"spate/internal/send/protocol"
)

// Datasets named here; workload.Datasets lists them all.
const (
	DatasetRandom     = "random"
	DatasetShareGPT   = "sharegpt"
	DatasetSonnet     = "sonnet"
	DatasetCustom     = "custom"
	DatasetRepetition = "prefix_repetition"
	DatasetHF         = "hf"
	DatasetRandomMM   = "random-mm"
	DatasetImages     = "custom_image"
	DatasetMultiTurn  = "multi-turn"
)

// Kind is what is known of the dataset.
func (d *Dataset) Kind() workload.Dataset { return workload.Find(d.Name) }

// run is what the dataset's settings are read with.
func (b *Bench) run() *workload.Run {
	p := b.Target.Backend.Protocol()
	return &workload.Run{
		Settings: &b.Dataset.Settings, Path: b.Dataset.Path, N: b.Load.NumPrompts, OutputLen: b.Dataset.OutputLen,
		Backend: string(b.Target.Backend), Chat: b.Target.Backend.Chat(), Pools: b.Target.Backend.Pools(), Speech: p.Family == protocol.Audio, Has: b.Has,
	}
}

// Fill sets the values that follow from the dataset's own settings in the configuration of a workload.
func (b *Bench) Fill(w *workload.Config) { b.run().Fill(w) }

// SelfTimed reports whether requests go at the dataset's own times.
func (b *Bench) SelfTimed() bool { return b.Load.SelfTimed != nil && *b.Load.SelfTimed }

// resolveDataset fills what depends on which dataset it is.
func (b *Bench) resolveDataset(note func(string, ...any)) {
	d := &b.Dataset
	if d.Talk.On && !d.Kind().Talks {
		if b.Has("dataset-name") {
			note("--multi-turn takes the conversations of the file, not its first turns: dataset multi-turn")
		}
		d.Name = DatasetMultiTurn
	}
	b.resolveSpread()
	if d.Name == "custom_mm" {
		d.Name = DatasetImages // its name before vLLM 0.24
	}
	run, kind := b.run(), d.Kind()
	run.Resolve(d.Name)
	b.Load.NumPrompts = run.N
	if kind.Trace && b.Load.SelfTimed == nil {
		yes := true
		b.Load.SelfTimed = &yes
		if b.Has("request-rate") {
			note("--request-rate is not used: the trace's own times are (--no-self-timed uses the rate)")
		}
	}
	b.Body.IgnoreEOS = b.Body.IgnoreEOS || kind.Exact
}

// resolveSpread turns standard deviations into laws.
func (b *Bench) resolveSpread() {
	d := &b.Dataset
	if d.InputStd > 0 && d.InputDist == "" {
		d.InputDist = lengths.Dist{Law: "normal", A: float64(d.Random.InputLen), B: d.InputStd}.String()
	}
	if d.OutputStd > 0 && d.OutputDist == "" {
		d.OutputDist = lengths.Dist{Law: "normal", A: float64(d.Random.OutputLen), B: d.OutputStd}.String()
	}
}

// checkSpread holds the rules of lengths that follow a law.
func (b *Bench) checkSpread(c *checker) {
	d := &b.Dataset
	for _, law := range []struct{ flag, text string }{{"input-len", d.InputDist}, {"output-len", d.OutputDist}} {
		if law.text == "" {
			continue
		}
		_, err := lengths.ParseDist(law.text)
		c.Want(err == nil, law.flag, "%v", err)
		c.Clash(!d.Kind().Random && d.Name != DatasetMultiTurn, law.flag, "dataset-name", "only random prompts can have a distribution of lengths")
		c.Clash(b.Has("random-range-ratio"), law.flag, "random-range-ratio", "both set the spread of lengths")
		c.Clash(d.Joint != "", law.flag, "seq-dist", "both set the spread of lengths")
	}
	c.Want(d.Talk.MaxTurns >= 0, "max-turns", "%d is negative", d.Talk.MaxTurns)
	c.Clash(b.Has("think-time") && !d.Kind().Talks, "think-time", "dataset-name", "only conversations (multi-turn, agentic) have turns")
	c.Needs(d.Name == DatasetMultiTurn && d.Path == "" && b.Load.NumPrompts <= 0 && b.Load.Duration == 0 && len(b.Load.Stages) == 0,
		"dataset-name", "num-prompts", "nothing else limits the number of generated conversations")
	c.Want(d.InputStd >= 0, "isl-stddev", "%v is negative", d.InputStd)
	c.Want(d.OutputStd >= 0, "osl-stddev", "%v is negative", d.OutputStd)
	if d.Joint != "" {
		_, err := lengths.ParseBuckets(d.Joint)
		c.Want(err == nil, "seq-dist", "%v", err)
		c.Clash(!d.Kind().Random, "seq-dist", "dataset-name", "only random prompts can have weighted lengths")
	}
}

// checkPath holds the dataset's rule on --dataset-path.
func (b *Bench) checkPath(c *checker) {
	d, k := &b.Dataset, b.Dataset.Kind()
	c.Needs(k.Path == workload.NeedsPath && d.Path == "", "dataset-name", "dataset-path", fmt.Sprintf("%s reads a file: %s", d.Name, k.About))
	noFile := k.Path == workload.NoPath || d.Name == DatasetRandom && !b.Output.CutsConversations()
	c.Clash(k.Name != "" && noFile && d.Path != "", "dataset-path", "dataset-name",
		d.Name+" prompts do not come from a file; name the file's dataset, such as --dataset-name sharegpt")
}

// checkTrace holds the rules of traces.
func (b *Bench) checkTrace(c *checker) {
	d, l := &b.Dataset, &b.Load
	c.Clash(l.SelfTimed != nil && !d.Kind().Timed, "self-timed", "dataset-name", "only traces carry times of their own")
	c.Want(d.Replay.Speed > 0 || !b.Has("trace-speed"), "trace-speed", "%v is not above 0; 2 is twice as fast", d.Replay.Speed)
	for _, f := range []string{"trace-speed", "trace-max-gap"} {
		c.Needs(b.Has(f) && !b.SelfTimed(), f, "self-timed", "it changes the times of a trace")
	}
}
