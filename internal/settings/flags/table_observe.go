package flags

import "spate/internal/settings/config"

// observeFlags says what is watched while the run goes.
func observeFlags(b *config.Bench) []Def {
	o := &b.Observe
	return []Def{
		{
			Name: "observe-interval", Group: GroupObserve, Default: "1s", value: duration(&o.Interval),
			Help: "time between two samples of the server, its GPUs and this host",
		},
		{Name: "no-observe", Group: GroupObserve, value: toggle(&o.Off), Help: "do not sample the server, its GPUs and this host"},
		{
			Name: "server-metrics", Group: GroupObserve, Default: "auto", value: str(&o.ServerMetrics), Meta: "URL",
			Help: "the server's Prometheus page; auto is /metrics below the base URLs, off asks for none",
		},
		{
			Name: "server-log", Group: GroupObserve, Main: true, value: str(&o.ServerLog), Meta: "FILE",
			Help: "file the server writes its log to; the engine's stats lines in it are read as they come",
		},
		{
			Name: "gpu-metrics", Group: GroupObserve, Default: "auto", value: str(&o.GPUMetrics), Meta: "WHERE",
			Help: "power and use of GPUs: nvidia-smi, the URL of a DCGM exporter, or off; auto is nvidia-smi where it is there and the server is on this machine",
		},
		{
			Name: "price-per-hour", Group: GroupObserve, Main: true, Default: "0.0", value: finite(&o.PricePerHour), Meta: "PRICE",
			Help: "price of the server per hour, to compute the cost of a million tokens",
		},
	}
}
