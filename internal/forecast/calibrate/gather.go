package calibrate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/host/enginelog"
	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/safe/infile"
)

// Material is what calibration works with.
type Material struct {
	File *predict.File // rows that were measured

	steps  map[string][]enginelog.Step // by group
	source string
	digest string
}

// Reader reads what users have: rows files, results of any tool, engines' logs.
type Reader struct {
	ReadFile func(name string) ([]byte, error)
	Stdin    io.Reader
	Given    Given                            // what the user says of it
	Note     func(format string, args ...any) // told what was found and left out, a line each
}

// GivenError says that what the user says of the evidence cannot be.
type GivenError struct{ err error }

func (e *GivenError) Error() string { return e.err.Error() }

// Unwrap is why.
func (e *GivenError) Unwrap() error { return e.err }

// Gather reads rows files, and everything else as
func (r *Reader) Gather(paths []string) (*Material, error) {
	in := &Material{File: &predict.File{Engines: map[string]profile.Facts{}}}
	var names, others []string
	sum := sha256.New()
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		data, ok := r.rowsFile(path)
		if !ok {
			others = append(others, path)
			continue
		}
		f, err := predict.ParseRows(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := in.add(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		sum.Write(data)
	}
	in.source = strings.Join(names, ", ")
	if len(others) > 0 {
		if err := r.evidence(in, others); err != nil {
			return nil, err
		}
		made, err := json.Marshal(in.File)
		if err != nil {
			return nil, fmt.Errorf("keeping the rows: %w", err)
		}
		sum.Write(made)
	}
	in.digest = hex.EncodeToString(sum.Sum(nil))
	return in, nil
}

// rowsFile is the content of a file that looks like rows.
func (r *Reader) rowsFile(path string) ([]byte, bool) {
	if !strings.HasSuffix(path, ".json") {
		return nil, false
	}
	data, err := r.ReadFile(path)
	if err != nil {
		return nil, false // reading it as evidence says what is wrong
	}
	var head struct {
		Engines json.RawMessage `json:"engines"`
		Rows    json.RawMessage `json:"rows"`
	}
	err = json.Unmarshal(data, &head)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return data, bytes.Contains(data, []byte(`"engines"`)) // damaged rows should say so
	}
	return data, err == nil && head.Rows != nil && head.Engines != nil
}

// add joins the rows of another file.
func (in *Material) add(f *predict.File) error {
	for name, facts := range f.Engines {
		if _, taken := in.File.Engines[name]; taken {
			return fmt.Errorf("another file has an engine of the name %q, too", name)
		}
		in.File.Engines[name] = facts
	}
	in.File.Rows = append(in.File.Rows, f.Rows...)
	return nil
}

// evidence reads results and logs, and tells what was left out.
func (r *Reader) evidence(in *Material, paths []string) error {
	set, err := harvest.Find(paths, r.Stdin)
	if err != nil {
		return err
	}
	logs, err := engineLogs(paths)
	if err != nil {
		return err
	}
	found, err := Collect(set.Entries, logs, r.Given)
	if err != nil {
		return &GivenError{err}
	}
	r.tellLeft(found.Left)
	for _, n := range found.Notes {
		r.Note("note: %s", n)
	}
	steps := 0
	for _, list := range found.Steps {
		steps += len(list)
	}
	r.Note("rows: %d of %d results; steps: %d", len(found.File.Rows), found.Results, steps)
	switch {
	case found.Results == 0 && steps == 0:
		return fmt.Errorf("nothing to calibrate from in %s: neither results nor steps of an engine (spate import shows what is read)", strings.Join(paths, ", "))
	case len(found.File.Rows) == 0 && len(found.Steps) == 0:
		return errors.New("every result was left out; the lines above say why, and which flag helps")
	}
	in.steps = found.Steps
	return in.add(found.File)
}

// tellLeft says what was left out and why, each reason once.
func (r *Reader) tellLeft(list []Left) {
	var reasons []string
	ids := map[string][]string{}
	for _, l := range list {
		if ids[l.Reason] == nil {
			reasons = append(reasons, l.Reason)
		}
		ids[l.Reason] = append(ids[l.Reason], l.ID)
	}
	for _, why := range reasons {
		which := ids[why][0]
		if n := len(ids[why]) - 1; n > 0 {
			which += fmt.Sprintf(" and %d more", n)
		}
		r.Note("left out %s: %s", which, why)
	}
}

// engineLogs reads the starts and steps of engines from files and folders.
func engineLogs(paths []string) ([]*Log, error) {
	var files []string
	for _, path := range paths {
		if path == "-" {
			continue // read once already
		}
		err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !slices.Contains(ownFiles, d.Name()) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("looking for engine logs: %w", err)
		}
	}
	var out []*Log
	for _, name := range files {
		logs, err := readEngineLog(name)
		if err != nil {
			return nil, fmt.Errorf("looking for engine logs: %w", err)
		}
		out = append(out, logs...)
	}
	return out, nil
}

func readEngineLog(name string) ([]*Log, error) {
	f, err := infile.Open(name, infile.MaxImport)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return ReadLog(name, f)
}

// ownFiles are the files of a run folder, which hold no engine's log.
var ownFiles = []string{result.RecordsFile, result.ResultFile, result.RunFile, result.EnvironmentFile, result.CommandFile}

// Calibrate fits rows, with what steps tell; servers that only logged steps get a profile from these. The source is
// filled in.
func (in *Material) Calibrate(opt Options) (*Outcome, error) {
	opt.Source, opt.Digest = in.source, in.digest
	known := map[string][]Known{}
	var alone []*profile.Profile
	for _, name := range slices.Sorted(maps.Keys(in.steps)) {
		r, err := Regress(name, in.File.Engines[name], in.steps[name])
		if err != nil {
			return nil, fmt.Errorf("steps of %s: %w", name, err)
		}
		opt.Progress("%s: step time from %d steps, %.1f %% noise", name, r.Steps, 100*r.Noise)
		if in.hasRows(name) {
			known[name] = r.Known()
			continue
		}
		prof := r.Profile(in.source)
		prof.Provenance.Digest = in.digest
		alone = append(alone, prof)
	}
	if len(in.File.Rows) == 0 {
		return &Outcome{Profiles: alone}, nil
	}
	run := func() (*Outcome, error) { return Run(in.File, opt) }
	if len(known) > 0 {
		run = func() (*Outcome, error) { return RunKnown(in.File, known, opt) }
	}
	done, err := run()
	if err != nil {
		return nil, err
	}
	done.Profiles = append(done.Profiles, alone...)
	return done, nil
}

func (in *Material) hasRows(group string) bool {
	return slices.ContainsFunc(in.File.Rows, func(r predict.Row) bool { return r.Group == group })
}
