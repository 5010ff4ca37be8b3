// Package predict replays workloads on simulated servers: rows of published benchmark tables, with
// the history of the server process they ran in, or a workload of the user's own. Profiles
// (package profile) describe the servers, sim/cluster runs them, and the figures that come out carry
// vLLM's names, so that they can stand beside measured ones. Package calibrate searches with it.
// Start with rows.go, then replay.go.
package predict

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/forecast/profile"
)

// File is a set of benchmark rows and the engines they were measured on.
type File struct {
	Engines map[string]profile.Facts `json:"engines"`
	Rows    []Row                    `json:"rows"`
}

// Row is one run of a benchmark.
type Row struct {
	ID       string      `json:"id"`
	Group    string      `json:"group"` // key of its engine
	Workload Workload    `json:"workload"`
	Order    int         `json:"order"`                   // position among the runs of its process
	Process  string      `json:"process"`                 // runs of one process share its prefix cache; empty: a process of its own
	Known    bool        `json:"process_known,omitempty"` // its process did nothing before its first row
	Metrics  Metrics     `json:"metrics"`                 // nil: not shown
	Log      []LogSample `json:"engine_log,omitempty"`
}

// Workload is what a run sent.
type Workload struct {
	Prompts   int     `json:"num_prompts"`
	Rate      Rate    `json:"request_rate"`
	Slots     int     `json:"max_concurrency,omitempty"`
	Dataset   string  `json:"dataset"`
	Input     int     `json:"input_len"`
	Output    int     `json:"output_len"`
	Cap       int     `json:"output_cap,omitempty"` // answers end by themselves, at the latest here
	Prefix    int     `json:"prefix_len,omitempty"`
	Spread    float64 `json:"input_spread,omitempty"`  // lengths are uniform within this share of their mean ...
	OutSpread float64 `json:"output_spread,omitempty"` // ... instead of all equal
	Shape     float64 `json:"burstiness,omitempty"`    // of arrivals at a rate; 0: one, Poisson
	IgnoreEOS bool    `json:"ignore_eos"`
	Client    string  `json:"client,omitempty"`
	Seed      *uint32 `json:"seed,omitempty"`
	WarmupS   float64 `json:"warmup_time_s,omitempty"` // latency of one lone request before the run
	In        int     `json:"total_input_tokens,omitempty"`
	Out       int     `json:"total_output_tokens,omitempty"`
	Completed int     `json:"completed,omitempty"`
	Sent      []Sent  `json:"sent,omitempty"` // every request, where each is known; then the rest only describes
}

// Sent is one request of a run that was recorded.
type Sent struct {
	AtMS   float64 `json:"at_ms"`
	In     int     `json:"in"`
	Out    int     `json:"out"`
	Limit  int     `json:"limit,omitempty"`  // on its output, where it is above Out
	Cached int     `json:"cached,omitempty"` // prompt tokens that the server had
}

// LogSample is one line of the engine's own log during a run.
type LogSample struct {
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
	KV      float64 `json:"kv_usage_pct"`
	Hit     float64 `json:"prefix_hit_pct"`
}

// Rate is requests per second; all at once is infinite.
type Rate float64

// Burst reports whether all requests are sent at once.
func (r Rate) Burst() bool { return r == 0 || math.IsInf(float64(r), 1) }

// UnmarshalJSON takes a number or "inf".
func (r *Rate) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch x := v.(type) {
	case nil:
		*r = 0
	case float64:
		*r = Rate(x)
	case string:
		if !strings.EqualFold(x, "inf") {
			return fmt.Errorf("request rate %q is neither a number nor \"inf\"", x)
		}
		*r = Rate(math.Inf(1))
	default:
		return fmt.Errorf("request rate %s is neither a number nor \"inf\"", data)
	}
	if *r < 0 || math.IsNaN(float64(*r)) {
		return fmt.Errorf("request rate %s is negative", data)
	}
	return nil
}

// MarshalJSON writes "inf" for a burst.
func (r Rate) MarshalJSON() ([]byte, error) {
	if r.Burst() {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// Metrics are figures under the names of vLLM's result files.
type Metrics map[string]float64

// UnmarshalJSON keeps the numbers.
func (m *Metrics) UnmarshalJSON(data []byte) error {
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw == nil {
		*m = nil
		return nil
	}
	*m = make(Metrics, len(raw))
	for k, v := range raw {
		if x, ok := v.(float64); ok {
			(*m)[k] = x
		}
	}
	return nil
}

// Limits on what a rows file may ask for, so that a typo does not take all memory.
const (
	maxPrompts = 1 << 21
	maxTokens  = 1 << 24
)

// ParseRows reads a rows file.
func ParseRows(data []byte) (*File, error) {
	var f File
	err := json.Unmarshal(data, &f)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		at := wrong.Field
		if at == "" {
			at = "the file"
		}
		return nil, fmt.Errorf("reading rows: %s is a JSON %s, which does not belong there; a rows file has \"engines\" and \"rows\"", at, wrong.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	if len(f.Rows) == 0 {
		return nil, fmt.Errorf("reading rows: there are none; a rows file has \"engines\" and \"rows\"")
	}
	if err := f.Complete(); err != nil {
		return nil, err
	}
	return &f, nil
}

// complete fills in what follows from the rest.
func (w *Workload) complete() error {
	if len(w.Sent) > 0 {
		return w.recorded()
	}
	if w.Completed == 0 {
		w.Completed = w.Prompts
	}
	n := w.Completed
	if n < 1 || n > maxPrompts {
		return fmt.Errorf("%d requests are not between 1 and %d", n, maxPrompts)
	}
	if w.In == 0 {
		w.In = w.Input * n
	}
	if w.Out == 0 {
		w.Out = w.Output * n
	}
	if w.In < n || w.Out < n || w.In/n > maxTokens || w.Out/n > maxTokens || w.Input > maxTokens || w.Output > maxTokens ||
		w.Input < 0 || w.Output < 0 || w.Cap < 0 || w.Slots < 0 {
		return fmt.Errorf("input and output lengths make no sense: %d and %d tokens in %d requests", w.In, w.Out, n)
	}
	return nil
}

// recorded fills in the totals of a recorded run.
func (w *Workload) recorded() error {
	n := len(w.Sent)
	w.Completed, w.In, w.Out = n, 0, 0
	last := 0.0
	for i := range w.Sent {
		s := &w.Sent[i]
		if s.In < 1 || s.Out < 1 || s.In > maxTokens || s.Out > maxTokens || s.Limit > maxTokens || !(s.AtMS >= last) || s.AtMS > 1e12 || n > maxPrompts {
			return fmt.Errorf("request %d of those sent makes no sense, or comes before the one ahead of it", i)
		}
		last = s.AtMS
		w.In += s.In
		w.Out += s.Out
	}
	return nil
}

// Complete checks rows that were made rather than read, and fills in what follows from the rest.
func (f *File) Complete() error {
	seen := map[string]bool{}
	for i := range f.Rows {
		r := &f.Rows[i]
		if r.ID == "" || seen[r.ID] {
			return fmt.Errorf("reading rows: row %d has no id of its own (%q)", i, r.ID)
		}
		seen[r.ID] = true
		if _, ok := f.Engines[r.Group]; !ok {
			return fmt.Errorf("reading row %s: its group %q is not among the engines", r.ID, r.Group)
		}
		if err := r.Workload.complete(); err != nil {
			return fmt.Errorf("reading row %s: %w", r.ID, err)
		}
	}
	return nil
}

// Groups lists the groups in order of their first row.
func (f *File) Groups() []string {
	var out []string
	for i := range f.Rows {
		if !slices.Contains(out, f.Rows[i].Group) {
			out = append(out, f.Rows[i].Group)
		}
	}
	return out
}
