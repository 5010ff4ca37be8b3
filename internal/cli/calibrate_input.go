package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/forecast/calibrate"
	"spate/internal/forecast/evidence"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/result"
	"spate/internal/result/runs"
	"spate/internal/safe/infile"
)

// material is what calibration works with.
type material struct {
	file   *predict.File
	steps  map[string][]evidence.Step // by group
	source string
	digest string
}

// gather reads rows files, and everything else as evidence.
func (o *calibrateOptions) gather(p Process, paths []string) (*material, error) {
	in := &material{file: &predict.File{Engines: map[string]profile.Facts{}}}
	var names, others []string
	sum := sha256.New()
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		data, ok := rowsFile(p, path)
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
		if err := in.evidence(p, o, others); err != nil {
			return nil, err
		}
		made, err := json.Marshal(in.file)
		if err != nil {
			return nil, fmt.Errorf("keeping the rows: %w", err)
		}
		sum.Write(made)
	}
	in.digest = hex.EncodeToString(sum.Sum(nil))
	return in, nil
}

// rowsFile is the content of a file that looks like rows.
func rowsFile(p Process, path string) ([]byte, bool) {
	if !strings.HasSuffix(path, ".json") {
		return nil, false
	}
	data, err := p.ReadFile(path)
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
func (in *material) add(f *predict.File) error {
	for name, facts := range f.Engines {
		if _, taken := in.file.Engines[name]; taken {
			return fmt.Errorf("another file has an engine of the name %q, too", name)
		}
		in.file.Engines[name] = facts
	}
	in.file.Rows = append(in.file.Rows, f.Rows...)
	return nil
}

// evidence reads results and logs, and tells what was left out.
func (in *material) evidence(p Process, o *calibrateOptions, paths []string) error {
	set, err := runs.Read(paths, p.Stdin)
	if err != nil {
		return err
	}
	logs, err := engineLogs(paths)
	if err != nil {
		return err
	}
	found, err := evidence.Collect(set.Entries, logs, o.given)
	if err != nil {
		return usage{"spate calibrate", err}
	}
	tellLeft(p, found.Left)
	for _, n := range found.Notes {
		say(p.Stderr, "note: %s\n", n)
	}
	steps := 0
	for _, list := range found.Steps {
		steps += len(list)
	}
	say(p.Stderr, "rows: %d of %d results; steps: %d\n", len(found.File.Rows), found.Results, steps)
	switch {
	case found.Results == 0 && steps == 0:
		return fmt.Errorf("nothing to calibrate with in %s: neither results nor steps of an engine (spate import shows what is read)", strings.Join(paths, ", "))
	case len(found.File.Rows) == 0 && len(found.Steps) == 0:
		return errors.New("every result was left out; the lines above say why, and which flag helps")
	}
	in.steps = found.Steps
	return in.add(found.File)
}

// tellLeft says what was left out and why, each reason once.
func tellLeft(p Process, list []evidence.Left) {
	var reasons []string
	ids := map[string][]string{}
	for _, l := range list {
		if ids[l.Reason] == nil {
			reasons = append(reasons, l.Reason)
		}
		ids[l.Reason] = append(ids[l.Reason], l.ID)
	}
	for _, r := range reasons {
		which := ids[r][0]
		if n := len(ids[r]) - 1; n > 0 {
			which += fmt.Sprintf(" and %d more", n)
		}
		say(p.Stderr, "left out %s: %s\n", which, r)
	}
}

// engineLogs reads the starts and steps of engines from files and folders.
func engineLogs(paths []string) ([]*evidence.Log, error) {
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
	var out []*evidence.Log
	for _, name := range files {
		logs, err := engineLog(name)
		if err != nil {
			return nil, fmt.Errorf("looking for engine logs: %w", err)
		}
		out = append(out, logs...)
	}
	return out, nil
}

func engineLog(name string) ([]*evidence.Log, error) {
	f, err := infile.Open(name, infile.MaxImport)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return evidence.ReadLog(name, f)
}

// ownFiles are the files of a run folder, which hold no engine's log.
var ownFiles = []string{result.RecordsFile, result.ResultFile, result.RunFile, result.EnvironmentFile, result.CommandFile}

// calibrate fits rows, with what steps tell; servers that only logged steps get a profile from these.
func (in *material) calibrate(o *calibrateOptions, progress func(string, ...any)) (*calibrate.Outcome, error) {
	opt := calibrate.Options{
		Source: in.source, Digest: in.digest, Seed: o.seed, Cross: o.cross, Only: o.only, Progress: progress,
	}
	told := map[string][]calibrate.Told{}
	var alone []*profile.Profile
	for _, name := range slices.Sorted(maps.Keys(in.steps)) {
		r, err := evidence.Regress(name, in.file.Engines[name], in.steps[name])
		if err != nil {
			return nil, fmt.Errorf("steps of %s: %w", name, err)
		}
		progress("%s: step time from %d steps, %.1f %% noise", name, r.Steps, 100*r.Noise)
		if in.hasRows(name) {
			told[name] = r.Told()
			continue
		}
		prof := r.Profile(in.source)
		prof.Provenance.Digest = in.digest
		alone = append(alone, prof)
	}
	if len(in.file.Rows) == 0 {
		return &calibrate.Outcome{Profiles: alone}, nil
	}
	run := func() (*calibrate.Outcome, error) { return calibrate.Run(in.file, opt) }
	if len(told) > 0 {
		run = func() (*calibrate.Outcome, error) { return calibrate.RunTold(in.file, told, opt) }
	}
	done, err := run()
	if err != nil {
		return nil, err
	}
	done.Profiles = append(done.Profiles, alone...)
	return done, nil
}

func (in *material) hasRows(group string) bool {
	return slices.ContainsFunc(in.file.Rows, func(r predict.Row) bool { return r.Group == group })
}

// stepsSummary tells what an engine's steps alone gave.
func stepsSummary(p Process, done *calibrate.Outcome) error {
	for _, prof := range done.Profiles {
		say(p.Stdout, "%s\n", prof.Name)
		for _, q := range prof.Params {
			state := fmt.Sprintf("%s to %s", round3(q.Low), round3(q.High))
			if !q.Free {
				state = "expected, not determined"
			}
			say(p.Stdout, "  %-10s %10s %-12s %s\n", q.Name, round3(q.Value), q.Unit, state)
		}
	}
	return nil
}

// saveRows keeps the rows that were made, for another day.
func saveRows(f *predict.File, path string) error {
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("writing the rows: %w", err)
	}
	if err := result.Save(path, append(data, '\n'), false); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	return nil
}
