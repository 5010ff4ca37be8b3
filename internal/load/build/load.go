// Package build translates settings (package config) into what is sent: a workload's configuration and a chat
// template. bench sends the result to a server, predict to a simulated one, so both
// mean the same by the same flags. It opens nothing and computes no prompt.
package build

import (
	"spate/internal/load/lengths"
	"spate/internal/load/media"
	"spate/internal/load/workload"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
)

// Workload translates the dataset's settings. open opens its file; untokenized behaves as vLLM without a
// tokenizer.
func Workload(c *config.Bench, open func(path string) (workload.File, error), untokenized bool) workload.Config {
	d, p := &c.Dataset, c.Target.Backend.Protocol()
	w := workload.Config{
		Dataset: d.Name, N: c.Load.NumPrompts, Seed: uint64(c.Load.Seed), Path: d.Path, Open: open,
		IDs: c.Body.PromptTokenIDs, TakesIDs: p.IDs, Chat: c.Target.Backend.Chat(), Speech: p.Family == protocol.Audio,
		SkipTemplate: d.SkipChatTemplate, SkipTokenizer: untokenized, NoOversample: d.NoOversample, NoShuffle: d.DisableShuffle,
		Salt: d.Salt, NamePrefix: c.Load.RequestIDPrefix, Era: workload.Head, SelfTimed: c.SelfTimed(),
	}
	if w.N == 0 && !d.Kind().AllRows {
		w.N, w.Endless = 1000, true // bounded by time
	}
	w.Endless = w.Endless || c.Load.NumPrompts == 0 && (c.Load.Duration > 0 || len(c.Load.Stages) > 0)
	w.InDist, _ = lengths.ParseDist(d.InputDist) // validated before; none for an empty one
	w.OutDist, _ = lengths.ParseDist(d.OutputDist)
	if d.Joint != "" {
		w.Joint, _ = lengths.ParseBuckets(d.Joint)
	}
	c.Fill(&w)
	w.HF.Whole = d.NoStream
	if w.Era == workload.V6 && c.Output.CutsConversations() {
		w.Least, w.LessSpecials = 1, c.Output.Compat == "sglang"
	}
	folders := media.New(d.Path, d.MediaPath)
	w.Media.Open = func(name string) (workload.File, error) {
		f, err := folders.Open(name)
		if err != nil {
			return nil, err // a nil *os.File would be a File
		}
		return f, nil
	}
	return w
}
