package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/observe"
	"spate/internal/judge/verdict"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
)

// Open reads the run in a folder. Where there is no readable result, as after a kill, it computes one
// from the plan and the records and says so in State and Notes. Nothing is written.
func Open(dir string) (*Run, error) {
	if err := checkFolder(dir); err != nil {
		return nil, err
	}
	data, err := infile.ReadFile(filepath.Join(dir, ResultFile), infile.MaxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return recoverRun(dir, "there is no "+ResultFile+": the run was killed, or is still running")
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	run, err := Decode(data)
	if newer := (*newerError)(nil); errors.As(err, &newer) {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, ResultFile), err)
	}
	if err != nil {
		return recoverRun(dir, fmt.Sprintf("%s cannot be read (%v)", ResultFile, err))
	}
	run.Dir = dir
	return run, nil
}

// checkFolder names the mistake in a path that is no run folder.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return infile.Missing("run folder %s does not exist", dir)
	}
	if err != nil {
		return fmt.Errorf("open run folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file: give the run's folder, %s", dir, filepath.Dir(dir))
	}
	for _, name := range []string{ResultFile, RunFile, RecordsFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not a run folder: it has none of %s, %s and %s", dir, ResultFile, RunFile, RecordsFile)
}

// newerError is a file from a later version, which must not be mistaken for a damaged one.
type newerError struct{ schema int }

func (e *newerError) Error() string {
	return fmt.Sprintf("written by a newer spate (schema %d; this one reads up to %d)", e.schema, Schema)
}

// Decode reads a run of this or any earlier version.
func Decode(data []byte) (*Run, error) {
	data = secret.Document(data, nil) // an earlier version, or another program, may have kept some
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	switch {
	case head.Schema > Schema:
		return nil, &newerError{head.Schema}
	case head.Schema < 1:
		return nil, errors.New("not a result of spate: it has no schema")
	}
	run := new(Run)
	if err := json.Unmarshal(data, run); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	if err := run.Plan.check(); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	return run, nil
}

// check says which value of a plan cannot be: what is computed from it must stay within bounds.
func (p *Plan) check() error {
	if p.Start < 0 || p.Start > call.MaxTime || p.End < 0 || p.End > call.MaxTime {
		return fmt.Errorf("plan: start_ns %d and end_ns %d: want times from 0 to %d", p.Start, p.End, int64(call.MaxTime))
	}
	if p.Due < 0 || p.Requests < 0 || p.MaxConcurrency != nil && (*p.MaxConcurrency < 0 || *p.MaxConcurrency > call.MaxCount) {
		return errors.New("plan: a count is below 0 or too large")
	}
	for _, q := range p.Percentiles {
		if !(q >= 0 && q <= 100) {
			return fmt.Errorf("plan: percentile %v: want 0 to 100", q)
		}
	}
	return nil
}

// recoverRun computes a result from what a run without one left behind.
func recoverRun(dir, why string) (*Run, error) {
	run, err := readPlan(dir)
	if err != nil {
		return nil, err
	}
	run.State, run.Dir = Recovered, dir
	run.Notes = append(run.Notes, why+"; the figures are computed from the requests that had finished")
	recs := recorder.NewSpill("") // the log may be larger than the memory
	defer func() { _ = recs.Close() }()
	damage, err := recs.Load(filepath.Join(dir, RecordsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if damage.Any() {
		run.Damage = &damage
		run.Notes = append(run.Notes, RecordsFile+": "+damage.String())
	}
	run.Plan.Due = 0 // what fell due after the last record is not known
	run.Plan.bound(recs)
	run.boundTenants(recs)
	run.Records = recorder.Stats{Accepted: int64(recs.Len()), Written: int64(recs.Len())}
	run.Compute(recs)
	if samples, err := observe.ReadSamples(dir); err == nil {
		run.Observe(samples, nil, 0)
	}
	// What the client saw of itself and of the server died with it; the checks on these say so.
	run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary, Workers: run.Judged(), Settings: run.Plan.Judge, Killed: true})
	if missing := run.Plan.Requests - run.Tally.Due; missing > 0 {
		run.Notes = append(run.Notes, fmt.Sprintf("%d of %d planned requests have no record", missing, run.Plan.Requests))
	}
	return run, nil
}

// bound takes the end of the measured part from the records, as for a run that ends by itself; its
// beginning is in the plan. A closed loop's requests may leave a moment before the one it begins with.
func (p *Plan) bound(recs call.Set) {
	if p.Start <= 0 {
		return // killed before it began, or by a version that did not say: both from the records
	}
	for r := range recs.All() {
		if r.Phase == call.Measure && r.Dispatched != call.Unset {
			p.Start = min(p.Start, r.Dispatched)
		}
	}
	p.End = LastEnd(recs, p.Start)
}

// LastEnd is the end of the last measured response.
func LastEnd(recs call.Set, start time.Duration) time.Duration {
	end := start
	for r := range recs.All() {
		if r.Phase == call.Measure && r.Outcome != call.Dropped {
			end = max(end, r.End)
		}
	}
	return end
}

// readPlan reads run.json. Without a readable one the records still say most.
func readPlan(dir string) (*Run, error) {
	blank := &Run{Schema: Schema, ID: filepath.Base(dir)}
	data, err := infile.ReadFile(filepath.Join(dir, RunFile), infile.MaxSettings)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			blank.Notes = []string{"there is no " + RunFile + ": settings are unknown"}
			return blank, nil
		}
		return nil, fmt.Errorf("read plan: %w", err)
	}
	run, err := Decode(data)
	if newer := (*newerError)(nil); errors.As(err, &newer) {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, RunFile), err)
	}
	if err != nil {
		blank.Notes = []string{fmt.Sprintf("%s cannot be read (%v): settings are unknown", RunFile, err)}
		return blank, nil
	}
	return run, nil
}
