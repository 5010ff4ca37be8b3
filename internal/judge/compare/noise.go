package compare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"spate/internal/judge/stats"
	"spate/internal/result"
)

// noiseSchema is the version of noise files.
const noiseSchema = 1

// Noise is what equal runs have taught: how far their figures lie apart, by host, server and workload.
type Noise struct {
	Schema int     `json:"schema"`
	Places []Place `json:"places"`
}

// Place is one workload against one server from one host.
type Place struct {
	Host     string    `json:"host"`
	Server   string    `json:"server"`
	Workload string    `json:"workload"` // digest of the settings figures depend on
	Text     string    `json:"text"`     // the workload for people
	Updated  time.Time `json:"updated"`
	Runs     []string  `json:"runs"` // ids of what was learned from, so that nothing counts twice
	Metrics  []Learned `json:"metrics"`
}

// Learned is the scatter of one metric: squared distances of log values from their mean. Sums and degrees
// of freedom of later lessons are added to those of earlier ones.
type Learned struct {
	Name       string  `json:"metric"`
	SumSquares float64 `json:"sum_of_squared_logs"`
	DF         int     `json:"degrees_of_freedom"`
}

// Floor is the difference in percent that two equal runs stay below 95 times in 100.
func (l *Learned) Floor() float64 { return 100 * math.Expm1(l.band(1, 1)) }

// band is that difference on the scale of logarithms, between means of ka and kb runs.
func (l *Learned) band(ka, kb int) float64 {
	if l.DF == 0 {
		return 0
	}
	s := l.scatter(ka, kb)
	return stats.CriticalT(s.df, Confidence) * s.se
}

func (l *Learned) scatter(ka, kb int) scatter {
	variance := l.SumSquares / float64(l.DF)
	return scatter{se: math.Sqrt(variance * (1/float64(ka) + 1/float64(kb))), df: float64(l.DF)}
}

// ReadNoise decodes a noise file; no bytes are an empty one.
func ReadNoise(data []byte) (*Noise, error) {
	n := &Noise{Schema: noiseSchema}
	if len(data) == 0 {
		return n, nil
	}
	if err := json.Unmarshal(data, n); err != nil {
		return nil, fmt.Errorf("decode noise file: %w", err)
	}
	if n.Schema > noiseSchema {
		return nil, fmt.Errorf("the noise file has version %d; this version of spate reads %d", n.Schema, noiseSchema)
	}
	for i := range n.Places {
		for _, l := range n.Places[i].Metrics {
			if l.DF < 0 || !(l.SumSquares >= 0) || math.IsInf(l.SumSquares, 0) {
				return nil, fmt.Errorf("the noise file's entry for %s of %s is damaged", l.Name, n.Places[i].Text)
			}
		}
	}
	return n, nil
}

// Encode writes a noise file.
func (n *Noise) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(n, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode noise file: %w", err)
	}
	return append(data, '\n'), nil
}

// Learn takes the scatter of runs that should be equal. They must be spate's own, comparable, and at
// least two of them new.
func (n *Noise) Learn(samples []Sample, now time.Time) (*Place, error) {
	defs, err := readMetrics(append(DefaultMetrics(), "total_token_throughput", "p90_ttft_ms", "p90_tpot_ms", "p90_itl_ms", "p90_e2el_ms"))
	if err != nil {
		return nil, err
	}
	group, err := equalRuns(samples, defs)
	if err != nil {
		return nil, err
	}
	place := n.place(group[0].entry)
	fresh := slices.DeleteFunc(group, func(t *measured) bool { return slices.Contains(place.Runs, t.entry.ID) })
	if len(fresh) < 2 {
		return nil, fmt.Errorf("%d of the %d runs are new: at least two are needed to learn from", len(fresh), len(samples))
	}
	for _, t := range fresh {
		place.Runs = append(place.Runs, t.entry.ID)
	}
	for _, d := range defs {
		if xs := logValues(fresh, d.name); len(xs) == len(fresh) {
			sd := stats.Std(xs)
			place.add(d.name, float64(sd*sd)*float64(len(xs)), len(xs)-1)
		}
	}
	place.Updated = now
	return place, nil
}

func equalRuns(samples []Sample, defs []def) ([]*measured, error) {
	var group []*measured
	for i := range samples {
		t := take(&samples[i], defs)
		if t.entry.Run == nil {
			return nil, fmt.Errorf("%s is not a run of spate: noise belongs to a host and a server, and this result does not name them", t.entry.Name)
		}
		group = append(group, t)
	}
	if len(group) < 2 {
		return nil, errors.New("noise is learned from two or more runs of the same settings")
	}
	for _, t := range group[1:] {
		if diffs := differences(group[0], t); len(diffs) > 0 {
			return nil, &NotComparable{diffs, "noise is learned from runs of the same settings: leave out those that differ; --force does not help here"}
		}
	}
	if bad := invalid(group); len(bad) > 0 {
		return nil, &NotComparable{bad, "nothing is learned from an INVALID run: leave it out or measure it again; --force does not help here"}
	}
	return group, nil
}

func (p *Place) add(name string, squares float64, df int) {
	i := slices.IndexFunc(p.Metrics, func(l Learned) bool { return l.Name == name })
	if i < 0 {
		p.Metrics = append(p.Metrics, Learned{Name: name})
		i = len(p.Metrics) - 1
	}
	p.Metrics[i].SumSquares += squares
	p.Metrics[i].DF += df
}

// place finds the entry of a run, or makes it.
func (n *Noise) place(e *result.Entry) *Place {
	host, server, workload := whereabouts(e.Run)
	for i := range n.Places {
		if p := &n.Places[i]; p.Host == host && p.Server == server && p.Workload == workload {
			return p
		}
	}
	n.Places = append(n.Places, Place{Host: host, Server: server, Workload: workload, Text: e.Run.Plan.Text})
	return &n.Places[len(n.Places)-1]
}

// learned is what is known for a metric of a pair: the larger where the sides differ.
func (n *Noise) learned(p pair, name string) *Learned {
	if n == nil {
		return nil
	}
	var best *Learned
	for _, t := range []*measured{p.a[0], p.b[0]} {
		if t.entry.Run == nil {
			continue
		}
		host, server, workload := whereabouts(t.entry.Run)
		for i := range n.Places {
			at := &n.Places[i]
			if at.Host != host || at.Server != server || at.Workload != workload {
				continue
			}
			k := slices.IndexFunc(at.Metrics, func(l Learned) bool { return l.Name == name && l.DF > 0 })
			if k >= 0 && (best == nil || at.Metrics[k].band(1, 1) > best.band(1, 1)) {
				best = &at.Metrics[k]
			}
		}
	}
	return best
}

func (n *Noise) knows(p pair) bool { return n.learned(p, "mean_e2el_ms") != nil }

// floor is the difference that means of as many equal runs show, on the scale of logarithms.
func (n *Noise) floor(p pair, name string) (float64, bool) {
	l := n.learned(p, name)
	if l == nil {
		return 0, false
	}
	return l.band(len(p.a), len(p.b)), true
}

// scatter is the learned standard error of a difference, for figures that have none of their own.
func (n *Noise) scatter(p pair, name string) (scatter, bool) {
	l := n.learned(p, name)
	if l == nil {
		return scatter{}, false
	}
	return l.scatter(len(p.a), len(p.b)), true
}

// whereabouts names host, server and workload of a run.
func whereabouts(run *result.Run) (host, server, workload string) {
	var env struct {
		Host struct {
			Name string `json:"name"`
		} `json:"host"`
	}
	_ = json.Unmarshal(run.Environment, &env) // a run without one has no host name
	return env.Host.Name, serverOf(run), workloadOf(run)
}

// serverOf leaves the port out: embedded servers and port-forwards have a new one every time.
func serverOf(run *result.Run) string {
	parts := []string{run.Server.Kind, run.Server.Model}
	for _, u := range run.Server.URLs {
		if parsed, err := url.Parse(u); err == nil {
			parts = append(parts, parsed.Hostname())
		}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, " ")
}

// workloadOf is a digest of the settings that figures depend on.
func workloadOf(run *result.Run) string {
	var tree map[string]json.RawMessage
	if json.Unmarshal(sampleless(run.Config), &tree) != nil {
		return ""
	}
	load := map[string]any{}
	_ = json.Unmarshal(tree["load"], &load) // sampleless wrote it
	delete(load, "request_id_prefix")
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(load) // maps are encoded in the order of their keys, and a hash takes everything
	for _, part := range []string{"dataset", "body", "client", "sim"} {
		_ = enc.Encode(tree[part])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
