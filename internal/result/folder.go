package result

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spate/internal/call/recorder"
	"spate/internal/safe/secret"
)

// The files of a run folder.
const (
	RunFile         = "run.json"         // the run as planned, written before the first request; when it began, soon after
	RecordsFile     = "records.jsonl"    // one line per attempt, as they end
	ResultFile      = "result.json"      // everything, written at the end
	CommandFile     = "command.txt"      // the command, ready to paste
	EnvironmentFile = "environment.json" // where it ran
)

// DefaultRoot is where run folders go when no place is named.
const DefaultRoot = "spate-runs"

// Options of a new run folder.
type Options struct {
	Dir    string              // the folder itself; empty makes a new one under Root
	Root   string              // empty means DefaultRoot
	Text   bool                // keep the text of answers in the records
	Redact func(string) string // takes secrets out of a string; every string in every file goes through it
}

// Folder is a run folder being written.
type Folder struct {
	Dir string
	Log *recorder.Log

	redact func(string) string
}

// Create makes the folder of a run that is about to start, names the run after it, and writes down
// what is known so far. It never touches an earlier run.
func Create(run *Run, opt Options) (*Folder, error) {
	f := &Folder{redact: opt.Redact}
	if f.redact == nil {
		f.redact = func(s string) string { return s }
	}
	var err error
	if opt.Dir != "" {
		f.Dir, err = opt.Dir, claim(opt.Dir)
	} else {
		f.Dir, err = makeNew(f.redact(run.Server.Model), run.Started, opt.Root)
	}
	if err != nil {
		return nil, err
	}
	run.Schema, run.State, run.Dir = Schema, Running, f.Dir
	if abs, err := filepath.Abs(f.Dir); err == nil {
		run.ID = filepath.Base(abs)
	}
	if err := f.begin(run); err != nil {
		return nil, err
	}
	f.Log, err = recorder.Create(filepath.Join(f.Dir, RecordsFile), recorder.Options{Text: opt.Text})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// claim takes a folder the user named, which may be there but must not hold a run.
func claim(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("output folder %s is a file: name a folder", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	for _, name := range []string{RunFile, RecordsFile, ResultFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("output folder %s already holds a run (%s): name another, or none to get a new one", dir, name)
		}
	}
	return nil
}

// makeNew makes a folder that was not there: time, model, and four digits against two starts in one
// second.
func makeNew(model string, began time.Time, root string) (string, error) {
	if root == "" {
		root = DefaultRoot
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("make folder for runs: %w", err)
	}
	for range 100 {
		var salt [2]byte
		_, _ = rand.Read(salt[:]) // never fails
		dir := filepath.Join(root, folderName(model, began, hex.EncodeToString(salt[:])))
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make run folder: %w", err)
		}
	}
	return "", fmt.Errorf("no free name for a run folder in %s", root)
}

func folderName(model string, began time.Time, salt string) string {
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, model)
	model = strings.Trim(model[:min(len(model), 60)], ".-")
	if model == "" {
		model = "model"
	}
	return began.Format("20060102-150405") + "-" + model + "-" + salt
}

// begin writes what is there before the first request.
func (f *Folder) begin(run *Run) error {
	if err := f.writeJSON(RunFile, run); err != nil {
		return err
	}
	command := f.redact(ShellLine(run.Command)) + "\n"
	if err := f.write(CommandFile, []byte(command)); err != nil {
		return err
	}
	return f.environment(run)
}

// Began writes down when the measured part of a run began, without which a recovered run would have to
// take its first request for it. It does not touch the run it is given.
func (f *Folder) Began(run *Run, at time.Duration) error {
	planned := *run
	planned.Plan.Start = at
	return f.writeJSON(RunFile, &planned)
}

func (f *Folder) environment(run *Run) error {
	if len(run.Environment) == 0 {
		return nil
	}
	return f.writeJSON(EnvironmentFile, run.Environment)
}

// Finish closes the log and writes the result. Records that the log could not keep are counted in run.Records and named
// in a note; they are not an error, since the result is complete without them.
func (f *Folder) Finish(run *Run) error {
	if err := f.Log.Close(); err != nil {
		run.Notes = append(run.Notes, f.redact(err.Error()))
	}
	run.Records = f.Log.Stats()
	if err := f.environment(run); err != nil {
		return err
	}
	return f.writeJSON(ResultFile, run)
}

func (f *Folder) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return f.write(name, append(secret.Document(data, f.redact), '\n'))
}

// write puts a whole file in place at once: after a crash there is the old one or the new one, never
// half of one.
func (f *Folder) write(name string, data []byte) error {
	if err := writeAtomic(filepath.Join(f.Dir, name), data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeAtomic(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	err = fill(tmp, data)
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return err
	}
	return syncDir(dir)
}

func fill(tmp *os.File, data []byte) error {
	_, err := tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o600)
	}
	if err == nil {
		err = tmp.Sync()
	}
	return errors.Join(err, tmp.Close())
}

// syncDir makes the rename last. Some file systems cannot sync a folder, and the file is safe then
// as far as it can be.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// Writable reports why no file could be written into dir, which may still have to be made. It leaves nothing
// behind.
func Writable(dir string) error {
	dir = filepath.Clean(dir)
	for {
		info, err := os.Stat(dir)
		up := filepath.Dir(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is a file, not a folder", dir)
		}
		if err == nil || up == dir {
			break
		}
		dir = up
	}
	f, err := os.CreateTemp(dir, ".spate-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, errors.Unwrap(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Save writes another tool's result file, making its folder. With appendLine it goes on a new line
// after what is there, else it replaces it.
func Save(path string, data []byte, appendLine bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("save %s: %w", path, err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if appendLine {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		data = append([]byte{'\n'}, data...)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}

// ShellLine is a command as a shell reads it back.
func ShellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// ShellWord is a word as a shell reads it back.
func ShellWord(w string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !safe(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
