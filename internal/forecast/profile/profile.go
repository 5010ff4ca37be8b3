// Package profile keeps what is known about one server: the engine's facts, its scheduler settings,
// the coefficients of its step time and front end, and where these came from. Profiles are made by
// package calibrate, stored as JSON files, and turned into simulated servers (package sim/cluster) by
// package predict. Those of the reference reports ship in the binary. Start with Profile.
package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"spate/internal/sim"
	"spate/internal/sim/cluster"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/latency"
)

// Schema is the version of the file format.
const Schema = 1

// Profile is one server as the simulator sees it.
type Profile struct {
	Schema     int        `json:"schema"`
	Name       string     `json:"name"`
	Calibrated bool       `json:"calibrated"`
	Engine     Facts      `json:"engine"`
	Sim        sim.Config `json:"scheduler"`
	Cost       Cost       `json:"cost"`
	Jitter     float64    `json:"jitter,omitempty"` // sigma of log-normal noise on every step
	Params     []Param    `json:"parameters,omitempty"`
	Set        []Cost     `json:"within_noise,omitempty"` // other parameter vectors that fit as well
	Provenance Provenance `json:"provenance"`

	settings engineconf.Settings // of a server that was never measured ...
	computed *engineconf.Conf    // ... and what they come to; see OfPair
}

// Cost is everything that takes time.
type Cost struct {
	Step   latency.Reference `json:"step"`
	Front  cluster.Front     `json:"front"`
	Gap    float64           `json:"client_gap_ns,omitempty"` // client's time to send one request of a burst
	Disagg *cluster.Disagg   `json:"disaggregated,omitempty"`
	Blocks int               `json:"num_gpu_blocks"`
}

// Param is one fitted number.
type Param struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"` // of the set within noise
	High  float64 `json:"high"`
	Prior float64 `json:"prior"` // what physics or habit expects
	Free  bool    `json:"fitted"`
	Note  string  `json:"note,omitempty"`
}

// Provenance says how a profile was made.
type Provenance struct {
	Source  string   `json:"source,omitempty"` // file the rows came from
	Digest  string   `json:"digest,omitempty"` // SHA-256 of it
	Rows    []string `json:"rows,omitempty"`   // fitted
	LeftOut []string `json:"left_out,omitempty"`
	Shared  []string `json:"shared_with,omitempty"` // groups fitted together with this one
	Fit     Errors   `json:"fit_error_pct,omitempty"`
	Cross   Errors   `json:"leave_one_out_error_pct,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Errors are mean absolute errors in percent by metric.
type Errors map[string]float64

// Facts are what is known of an engine, as rows files state it. Unknown facts are zero.
type Facts struct {
	Engine        string  `json:"engine"`
	Version       string  `json:"version,omitempty"`
	GPU           string  `json:"gpu,omitempty"`
	GPUs          int     `json:"gpus,omitempty"`
	TP            int     `json:"tensor_parallel,omitempty"`
	Nodes         int     `json:"nodes,omitempty"`
	Model         string  `json:"model,omitempty"`
	DType         string  `json:"dtype,omitempty"`
	KVTokens      int     `json:"kv_tokens,omitempty"`
	MaxSeqs       int     `json:"max_num_seqs,omitempty"`
	MaxTokens     int     `json:"max_num_batched_tokens,omitempty"`
	MaxModelLen   int     `json:"max_model_len,omitempty"`
	Chunked       *bool   `json:"chunked_prefill,omitempty"`
	PrefixCaching *bool   `json:"prefix_caching,omitempty"`
	Disagg        *Disagg `json:"disaggregated,omitempty"`
	Note          string  `json:"note,omitempty"`
}

// Disagg says how a server separates prompts from decoding.
type Disagg struct {
	Prefill   int    `json:"prefill"`
	Decode    int    `json:"decode"`
	Transport string `json:"transport"`
	NICs      int    `json:"nics"`
	Proxy     string `json:"proxy,omitempty"`
}

// Known reports whether model and GPU are, so that physics can say what to expect.
func (f *Facts) Known() bool { return f.Model != "" && f.GPU != "" }

// Cluster is the simulated server under one of its parameter vectors.
func (p *Profile) Cluster(c *Cost, seed uint64) cluster.Config {
	if p.Computed() {
		out := p.cluster(c, seed)
		out.Log = time.Hour
		return out
	}
	conf := p.Sim
	conf.Blocks = c.Blocks
	step := c.Step
	engine := cluster.Engine{Sim: conf, Model: &step, Jitter: p.Jitter}
	out := cluster.Config{Engines: []cluster.Engine{engine}, Front: c.Front, Seed: seed, Log: time.Hour}
	if c.Disagg == nil {
		return out
	}
	d := *c.Disagg
	facts := p.Engine.Disagg
	prefill, decode := 1, 1
	if facts != nil {
		prefill, decode = max(1, facts.Prefill), max(1, facts.Decode)
	}
	for range decode - 1 {
		out.Engines = append(out.Engines, engine)
	}
	d.Prefill = nil
	for range prefill {
		d.Prefill = append(d.Prefill, engine)
	}
	out.Disagg = &d
	return out
}

// Decode reads a profile file.
func Decode(data []byte) (*Profile, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var p Profile
	if err := dec.Decode(&p); err != nil {
		return nil, fmt.Errorf("reading a profile: %w", err)
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("reading a profile: schema %d is not %d, the one this version writes", p.Schema, Schema)
	}
	if p.Name == "" {
		return nil, fmt.Errorf("reading a profile: it has no name")
	}
	conf := p.Sim
	conf.Blocks = p.Cost.Blocks
	if err := conf.Check(); err != nil {
		return nil, fmt.Errorf("reading profile %s: %w", p.Name, err)
	}
	return &p, nil
}

// Encode writes a profile file.
func (p *Profile) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing profile %s: %w", p.Name, err)
	}
	return append(data, '\n'), nil
}
