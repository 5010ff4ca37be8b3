package result

import (
	"fmt"
	"os"
	"path/filepath"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/enginelog"
)

// The formats of results.
const (
	FormatVLLMBlock     = "vllm-block"
	FormatSGLangBlock   = "sglang-block"
	FormatLMDeployBlock = "lmdeploy-block"
	FormatTRTBlock      = "trtllm-block"
	FormatVLLMJSON      = "vllm-json"
	FormatPyTorchJSON   = "vllm-pytorch-json"
	FormatSGLangJSON    = "sglang-json"
	FormatTRTJSON       = "trtllm-json"
	FormatTRTBenchJSON  = "trtllm-bench-json"
	FormatTRTBench      = "trtllm-bench-report"
	FormatLMDeployCSV   = "lmdeploy-csv"
	FormatBackprop      = "backprop-json"
	FormatGenAIPerfJSON = "genai-perf-json"
	FormatGenAIPerfCSV  = "genai-perf-csv"
	FormatAIPerfJSON    = "aiperf-json"
	FormatAIPerfCSV     = "aiperf-csv"
	FormatGuideLLM      = "guidellm-json"
	FormatEvalScope     = "evalscope-json"
	FormatEvalScopeRank = "evalscope-percentiles"
	FormatLLMPerf       = "llmperf-json"
	FormatHFBench       = "inference-benchmarker-json"
	FormatSpate         = "spate-run"
	FormatFailedLaunch  = "failed-launch"
	FormatEngineLog     = "engine-log"
)

// Entry is one result in the form that everything that looks at results takes: the store, comparisons, tables, pages,
// charts and exports. spate measured it, another tool's text held it, or the simulator predicted it.
type Entry struct {
	ID     string            `json:"-"` // of the run; file:line where the result has no name of its own
	Name   string            `json:"-"` // short, for tables and legends; Label makes it unique in a set
	Key    string            `json:"-"` // Identity, where an export or the store tells it; empty elsewhere
	Labels map[string]string `json:"-"`

	Source    Source             `json:"source"`
	Format    string             `json:"format"`
	Context   Context            `json:"context"`
	Metrics   Figures            `json:"metrics,omitempty"` // under the names of the catalogue, which are vLLM's
	Extra     Figures            `json:"extra,omitempty"`   // figures that the catalogue does not have
	EngineLog []enginelog.Sample `json:"engine_log"`
	Launch    *string            `json:"launch"`          // the command that started the server, when this is its first result
	Error     string             `json:"error,omitempty"` // of a server that did not start
	Problems  []Problem          `json:"problems,omitempty"`

	// Run is everything spate wrote down, nil for results of other tools.
	Run *Run `json:"-"`
}

// Source is where a result was found. Lines count from 1.
type Source struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	EndLine int    `json:"end_line,omitempty"`
}

// Set is what was found in files and folders.
type Set struct {
	Entries  []Entry
	Problems []Problem // those that belong to no result
}

// Bad counts the problems that are more than notes.
func (s *Set) Bad() int {
	n := 0
	for p := range s.All() {
		if p.Bad() {
			n++
		}
	}
	return n
}

// All yields every problem, those of results with them.
func (s *Set) All() func(yield func(Problem) bool) {
	return func(yield func(Problem) bool) {
		for i := range s.Entries {
			for _, p := range s.Entries[i].Problems {
				if !yield(p) {
					return
				}
			}
		}
		for _, p := range s.Problems {
			if !yield(p) {
				return
			}
		}
	}
}

// Named is a result of another tool with an id and a name: where it was found, and what tells it from its neighbours.
func Named(e Entry) Entry {
	e.ID = fmt.Sprintf("%s:%d", e.Source.File, e.Source.Line)
	if e.Name = e.Label(); e.Name == "" {
		e.Name = fmt.Sprintf("%s:%d", filepath.Base(e.Source.File), e.Source.Line)
	}
	return e
}

// Float is a figure by its vLLM name.
func (e *Entry) Float(name string) (value float64, ok bool) { return e.Metrics.Float(name) }

// Text is a figure as it was printed, empty when there is none.
func (e *Entry) Text(name string) string {
	f, ok := e.Metrics.Get(name)
	if !ok {
		return ""
	}
	return f.String()
}

// TheSetting is the name of the setting that stands for all others: what the author of a page or a run
// called the set-up. See Setting.
const TheSetting = "setting"

// Setting is a label or, where there is none of that name, a fact from the result's context, or what is known of
// the server: engine, gpu, version, a flag it was started with. TheSetting is
// the nearest heading above a result, or its --label.
func (e *Entry) Setting(name string) string { return inWords(e.setting(name)) }

// Number is a setting that is a number, as the result has it: nothing is printed to be read again.
func (e *Entry) Number(name string) (float64, bool) { return number(e.setting(name)) }

func (e *Entry) setting(name string) any {
	if v, ok := e.Labels[name]; ok {
		return v
	}
	if name != TheSetting {
		if f, _ := e.Context.Get(name); inWords(f.Value) != "" {
			return f.Value
		}
		return e.server(name)
	}
	if f, ok := e.Context.Get("headings"); ok {
		if texts, ok := f.Value.([]string); ok && len(texts) > 0 {
			return texts[len(texts)-1]
		}
	}
	return e.setting("label")
}

// maxRecordLog is the largest log whose records are put into memory, where they take about twice as much.
const maxRecordLog = 4 << 30

// Records are the run's requests; nil where only summaries are known, and where the records are gone.
func (e *Entry) Records() ([]call.Record, error) {
	if e.Run == nil || e.Run.Dir == "" {
		return nil, nil
	}
	path := filepath.Join(e.Run.Dir, RecordsFile)
	if info, err := os.Stat(path); err == nil && info.Size() > maxRecordLog {
		return nil, fmt.Errorf("records of %s: %s has %d bytes, and what shows single requests holds them in memory, at most %d bytes of log; "+
			"the figures do not need it: write them as .md, .csv or .json", e.ID, path, info.Size(), int64(maxRecordLog))
	}
	recs, _, err := recorder.Read(path)
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", e.ID, err)
	}
	return recs, nil
}

// Measured reports whether the entry has figures; failed starts and bare engine logs have none.
func (e *Entry) Measured() bool { return len(e.Metrics) > 0 }
