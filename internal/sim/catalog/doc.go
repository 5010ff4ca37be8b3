// Package catalog knows the models, GPUs, links and engine versions a simulated server can be made
// of, and what follows from them: parameter counts, weight and KV bytes, the KV budget of a
// deployment, an engine version's defaults, and the mistakes it refuses to start with.
//
// The facts are data files (data/*.json); models are stored as the values of their config.json, so
// a user's own config.json goes the same way. Nothing here computes a step time: internal/sim/latency
// does, from the figures this package hands it.
//
// Read model.go first, then version.go and budget.go.
package catalog
