package instance

import (
	"fmt"
	"strings"

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

// Named puts a simulated server together whose profile is model@gpu, one that ships, or a file, which read reads.
func Named(read func(name string) ([]byte, error), o Options) (*Instance, error) {
	if o.Profile == "" || strings.Contains(o.Profile, "@") {
		return Build(o)
	}
	found, err := profile.NamedShipped(func(name string) ([]byte, error) {
		data, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read the profile: %w", err)
		}
		return data, nil
	}, o.Profile)
	if err != nil {
		return nil, err
	}
	o.Base = FromProfile(found, o.Seed)
	return Build(o)
}
