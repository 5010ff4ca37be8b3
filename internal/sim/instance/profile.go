package instance

import (
	"spate/internal/forecast/profile"
	"spate/internal/sim/engineconf"
)

// FromProfile takes a profile's facts and step times as what an instance is built on.
func FromProfile(p *profile.Profile, seed uint64) *Base {
	f := &p.Engine
	return &Base{
		Name: p.Name, Calibrated: p.Calibrated, Cluster: p.Cluster(&p.Cost, seed),
		Facts: engineconf.Settings{
			Engine: f.Engine, Version: f.Version, Model: f.Model, GPU: f.GPU, TP: f.TP, Nodes: f.Nodes, Chunked: f.Chunked, Watermark: -1,
		},
	}
}
