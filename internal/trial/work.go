package trial

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spate/internal/result"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

// Names within a folder.
const (
	JournalFile = "journal.jsonl" // what happened, a line each
	runsDir     = "runs"          // a run folder for each measurement
	asideDir    = ".interrupted"  // run folders that did not get to their result
)

// Work is a folder in which something long is done in several sittings: a journal that survives a
// kill, and run folders that are complete or set aside. Only one process has it open.
type Work struct {
	Dir     string
	Journal []Entry // of earlier sittings

	lock *os.File
	log  *os.File
}

// Entry is a line of the journal.
type Entry struct {
	At    time.Time       `json:"at"`
	Event string          `json:"event"`
	Key   string          `json:"key,omitempty"`
	Error string          `json:"error,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// Open opens the folder, making it if need be.
func Open(dir string) (*Work, error) {
	if err := os.MkdirAll(filepath.Join(dir, runsDir), 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	w := &Work{Dir: dir}
	var err error
	if w.lock, err = os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("open lock of %s: %w", dir, err)
	}
	if err := lock(w.lock); err != nil {
		return nil, errors.Join(fmt.Errorf("another spate process is using %s: %w", dir, err), w.lock.Close())
	}
	if err := w.openJournal(filepath.Join(dir, JournalFile)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close releases the folder.
func (w *Work) Close() error {
	var err error
	if w.log != nil {
		err = w.log.Close()
	}
	return errors.Join(err, w.lock.Close())
}

// openJournal reads the journal and cuts off a last line that a kill left torn.
func (w *Work) openJournal(path string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read journal: %w", err)
	}
	whole := 0
	for rest := data; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			break
		}
		var e Entry
		if json.Unmarshal(line, &e) != nil {
			break
		}
		w.Journal = append(w.Journal, e)
		whole, rest = whole+len(line)+1, after
	}
	if w.log, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	if err := w.log.Truncate(int64(whole)); err != nil {
		return fmt.Errorf("mend journal: %w", err)
	}
	if _, err := w.log.Seek(int64(whole), 0); err != nil {
		return fmt.Errorf("mend journal: %w", err)
	}
	return nil
}

// Note adds a line to the journal; it is on disk when Note returns.
func (w *Work) Note(e Entry) error {
	e.At = time.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode journal line: %w", err)
	}
	if _, err := w.log.Write(append(secret.Document(line, nil), '\n')); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := w.log.Sync(); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Save writes a file of the folder whole or not at all.
func (w *Work) Save(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	path := filepath.Join(w.Dir, name)
	tmp, err := os.CreateTemp(w.Dir, ".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = tmp.Write(append(secret.Document(data, nil), '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // it was not put in place
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Load reads a file that Save wrote into a folder; nil when there is none.
func Load[T any](dir, name string) (*T, error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the folder was begun with: %w", err)
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return v, nil
}

// ChangedError says that a folder was begun with other settings than the present ones.
type ChangedError struct {
	Begun   string // what was begun with what: "the sweep in results/x was begun with another plan"
	Changes []string
	Way     string // what the user can do
}

func (e *ChangedError) Error() string {
	const most = 6
	list := e.Changes
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(e.Changes)-most))
	}
	return e.Begun + ": " + strings.Join(list, "; ") + "\n" + e.Way
}

// NoteData is Note for an event that something is to be known of when the work goes on.
func (w *Work) NoteData(event, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode journal line: %w", err)
	}
	return w.Note(Entry{Event: event, Key: key, Data: data})
}

// RunDir is the folder of a measurement.
func (w *Work) RunDir(key string) string { return filepath.Join(w.Dir, runsDir, key) }

// Finished reads the result of a measurement, nil when there is none that came to its planned end. One
// without a single success says nothing about the server, and is made again.
func (w *Work) Finished(key string) *result.Run {
	run := w.Result(key)
	if run == nil || run.State != result.Complete || run.Summary.Completed == 0 {
		return nil
	}
	return run
}

// Done is Finished without reading all of the result.
func (w *Work) Done(key string) bool {
	data, err := os.ReadFile(filepath.Join(w.RunDir(key), result.ResultFile))
	if err != nil {
		return false
	}
	var head struct {
		State   result.State `json:"state"`
		Summary struct {
			Completed int `json:"completed"`
		} `json:"summary"`
	}
	return json.Unmarshal(data, &head) == nil && head.State == result.Complete && head.Summary.Completed > 0
}

// Result reads the result of a measurement however it ended, nil when none was written.
func (w *Work) Result(key string) *result.Run {
	dir := w.RunDir(key)
	data, err := os.ReadFile(filepath.Join(dir, result.ResultFile))
	if err != nil {
		return nil
	}
	run, err := result.Decode(data)
	if err != nil {
		return nil
	}
	run.Dir = dir
	return run
}

// Claim makes room for a measurement: what an interrupted one left is set aside. It returns the
// folder, which is not there yet, and how many attempts there were before.
func (w *Work) Claim(key string) (dir string, before int, err error) {
	dir = w.RunDir(key)
	aside := filepath.Join(w.Dir, asideDir)
	for before = 0; ; before++ {
		if _, err := os.Lstat(filepath.Join(aside, fmt.Sprintf("%s.%d", key, before+1))); err != nil {
			break
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return dir, before, nil
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", 0, fmt.Errorf("set %s aside: %w", dir, err)
	}
	before++
	if err := os.Rename(dir, filepath.Join(aside, fmt.Sprintf("%s.%d", key, before))); err != nil {
		return "", 0, fmt.Errorf("set %s aside: %w", dir, err)
	}
	return dir, before, nil
}

// Differences names the fields in which two values differ as JSON, with both of their values.
func Differences(was, is any) []string {
	fields := func(v any) map[string]string {
		raw, err := json.Marshal(v)
		out := map[string]string{}
		var m map[string]json.RawMessage
		if err != nil || json.Unmarshal(raw, &m) != nil {
			return out
		}
		for k, v := range m {
			out[k] = string(v)
		}
		return out
	}
	a, b := fields(was), fields(is)
	all := maps.Clone(a)
	maps.Copy(all, b)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if a[k] != b[k] {
			out = append(out, fmt.Sprintf("%s was %s and is %s", k, cmp.Or(a[k], "not given"), cmp.Or(b[k], "not given")))
		}
	}
	return out
}

// Place gives the run of a key its folder, and prompts that no attempt before has left in the server's prefix cache.
func (w *Work) Place(key string, cfg *config.Bench, how Cache) error {
	dir, before, err := w.Claim(key)
	if err != nil {
		return err
	}
	cfg.Output.OutputDir = dir
	if how == Salt {
		salt(cfg, fmt.Sprintf("%s.%d", key, before))
	}
	return nil
}

// Cache is what keeps the prompts of one run out of the prefix cache of the next.
type Cache string

// Ways to treat the prefix cache between runs.
const (
	Salt  Cache = "salt"  // every run's prompts begin differently
	Reset Cache = "reset" // the server is asked to forget
	Keep  Cache = "keep"  // nothing
)

// salt makes the prompts of a run begin as no other's do, unless the user gave a salt. Salts are of one length, so
// that prompts are, too.
func salt(cfg *config.Bench, name string) {
	if cfg.Has("salt") && cfg.Dataset.Salt != "auto" {
		return
	}
	sum := sha256.Sum256([]byte(name))
	cfg.Dataset.Salt = hex.EncodeToString(sum[:4])
}
