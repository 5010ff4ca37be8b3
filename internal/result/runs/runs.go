// Package runs is how everything that looks at results sees them: one Entry per result, whether spate
// measured it, another tool's text held it or the simulator predicted it. read.go finds entries in files
// and folders with harvest and result; the store, comparisons, reports and explanations take them. Read
// this file first.
package runs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/result"
	"spate/internal/result/harvest"
)

// Entry is one result.
type Entry struct {
	ID     string // of the run; file:line where the result has no name of its own
	Name   string // short, for tables and legends; Label makes it unique in a set
	Labels map[string]string
	Key    string // Identity, where an export or the store tells it; empty elsewhere

	// Result has the figures under vLLM's names, as they were printed, and what is known around them.
	Result harvest.Result

	// Run is everything spate wrote down, nil for results of other tools.
	Run *result.Run
}

// FromRun is one of spate's own runs.
func FromRun(run *result.Run) Entry {
	return Entry{ID: run.ID, Name: run.ID, Labels: maps.Clone(run.Labels), Result: harvest.FromRun(run), Run: run}
}

// FromResult is a result found in another tool's file or text.
func FromResult(r harvest.Result) Entry {
	id := fmt.Sprintf("%s:%d", r.Source.File, r.Source.Line)
	name := harvest.Label(&r)
	if name == "" {
		name = fmt.Sprintf("%s:%d", filepath.Base(r.Source.File), r.Source.Line)
	}
	return Entry{ID: id, Name: name, Result: r}
}

// Float is a figure by its vLLM name.
func (e *Entry) Float(name string) (value float64, ok bool) { return e.Result.Metrics.Float(name) }

// Text is a figure as it was printed, empty when there is none.
func (e *Entry) Text(name string) string {
	f, _ := e.Result.Metrics.Get(name)
	return f.Text
}

// TheSetting is the name of the setting that stands for all others: what the author of a page or a run
// called the set-up. See Setting.
const TheSetting = "setting"

// Setting is a label or, where there is none of that name, a fact from the result's context, or what is known of
// the server: engine, gpu, version, a flag it was started with. TheSetting is
// the nearest heading above a result, or its --label.
func (e *Entry) Setting(name string) string {
	if v, ok := e.Labels[name]; ok {
		return v
	}
	if name != TheSetting {
		if v := e.Result.Context.Text(name); v != "" {
			return v
		}
		return e.server(name)
	}
	if f, ok := e.Result.Context.Get("headings"); ok {
		if texts, ok := f.Value.([]string); ok && len(texts) > 0 {
			return texts[len(texts)-1]
		}
	}
	return e.Setting("label")
}

// maxRecordLog is the largest log whose records are put into memory, where they take about twice as much.
const maxRecordLog = 4 << 30

// Records are the run's requests; nil where only summaries are known, and where the records are gone.
func (e *Entry) Records() ([]call.Record, error) {
	if e.Run == nil || e.Run.Dir == "" {
		return nil, nil
	}
	path := filepath.Join(e.Run.Dir, result.RecordsFile)
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
func (e *Entry) Measured() bool { return len(e.Result.Metrics) > 0 }
