package build

import (
	"testing"
	"time"

	"spate/internal/load/workload"
	"spate/internal/settings/config"
)

func TestWorkload(t *testing.T) {
	seven := 7
	for _, c := range []struct {
		name   string
		change func(*config.Bench)
		want   func(workload.Config) bool
	}{
		{"random", func(b *config.Bench) {
			b.Dataset.Random.InputLen, b.Dataset.Random.OutputLen, b.Dataset.Random.PrefixLen = 10, 20, 3
			b.Dataset.Random.Meaning = workload.RatioV6
		}, func(w workload.Config) bool {
			return w.Input == 10 && w.Output == 20 && w.Prefix == 3 && w.Era == workload.V6 && w.N == 5 && !w.Endless
		}},
		{"sonnet", func(b *config.Bench) { b.Dataset.Name, b.Dataset.Sonnet.InputLen = config.DatasetSonnet, 99 }, func(w workload.Config) bool { return w.Input == 99 }},
		{"sharegpt", func(b *config.Bench) { b.Dataset.Name, b.Dataset.ShareGPT.OutputLen = config.DatasetShareGPT, &seven }, func(w workload.Config) bool { return w.Output == 7 }},
		{"sharegpt as it is", func(b *config.Bench) { b.Dataset.Name = config.DatasetShareGPT }, func(w workload.Config) bool { return w.Output == workload.FromData }},
		{"bounded by time", func(b *config.Bench) { b.Load.NumPrompts, b.Load.Duration = 0, time.Second }, func(w workload.Config) bool { return w.Endless && w.N > 0 }},
		{"every row", func(b *config.Bench) {
			b.Dataset.Name, b.Load.NumPrompts, b.Dataset.Custom.OutputLen = config.DatasetCustom, 0, -1
		}, func(w workload.Config) bool { return w.N == 0 && !w.Endless && w.Output == -1 }},
	} {
		b := &config.Bench{}
		b.Dataset.Name, b.Load.NumPrompts = config.DatasetRandom, 5
		c.change(b)
		if w := Workload(b, nil, false); !c.want(w) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}
