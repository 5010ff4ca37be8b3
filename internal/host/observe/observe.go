// Package observe watches the server, its GPUs and this host while a run goes, and says afterwards what they did
// during the measured part. bench starts a Watch beside the driver; its samples go into the run folder as they
// come (file.go) and their summary (summary.go) into the result. It comes after probe, which knows what the
// engines call their counters, and enginelog, which reads their log lines; report draws the Series and explain
// reasons with the Summary.
//
// Read this file first, then watch.go (taking samples) and derive.go (turning them into series).
package observe

import "time"

// File is the name of the samples' file in a run folder.
const File = "series.jsonl"

// Series is one quantity over the run, ready to be drawn.
type Series struct {
	Name   string  `json:"name"`   // such as running, kv_usage, power
	Unit   string  `json:"unit"`   // requests, share, tokens/s, ms, W, ...
	Source string  `json:"source"` // server, log, gpu0, gpu1, ..., host
	Points []Point `json:"points"` // in order of time
}

// Point is the value at a time after the run's start, on the clock that all records are on.
type Point struct {
	At    time.Duration `json:"at_ns"`
	Value float64       `json:"value"`
}

// Sample is one look at one source.
type Sample struct {
	At     time.Duration
	Source string
	// Values are gauges as they were, and counters as they stood, which may have begun long before the run.
	Values map[string]float64
}
