package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/safe/secret"
)

// Kept says what became of an entry that was put.
type Kept struct {
	ID  string
	New bool // false: the store had it already
}

// Put keeps a result and returns its id. Putting the same one again changes nothing, except that the
// place its records lie at now is noted, and that a run gets the result it did not have before.
func (s *Store) Put(ctx context.Context, e result.Entry) (id string, err error) {
	kept, err := s.PutAll(ctx, []result.Entry{e})
	if err != nil {
		return "", err
	}
	return kept[0].ID, nil
}

// PutAll keeps results, all of them or none.
func (s *Store) PutAll(ctx context.Context, entries []result.Entry) ([]Kept, error) {
	rows := make([]row, len(entries))
	for i := range entries {
		var err error
		if rows[i], err = s.newRow(&entries[i]); err != nil {
			return nil, fmt.Errorf("put %s: %w", entries[i].ID, err)
		}
	}
	var kept []Kept
	err := s.write(ctx, "put results", func(tx *sql.Tx) error {
		kept = nil // a transaction that is tried again begins anew
		for i := range rows {
			k, err := s.putRow(ctx, tx, &rows[i])
			if err != nil {
				return err
			}
			kept = append(kept, k)
		}
		return nil
	})
	return kept, err
}

// row is an entry as the tables hold it.
type row struct {
	Item
	base                          string // what the id begins with
	config, environment, document string
	entry                         *result.Entry // for its figures
	files                         bool          // its folder or source is there
}

func (s *Store) newRow(e *result.Entry) (row, error) {
	r := row{Item: describe(e), entry: e}
	r.Host, r.Added = s.host, time.Now()
	if r.base = r.Key[:12]; e.ID != "" && e.Format == result.FormatSpate {
		r.base = clean(e.ID)
	}
	if e.Run == nil {
		r.Source = clean(e.Source.File) // a file, or standard input
		if path := absolute(r.Source); exists(path) {
			r.Source, r.files = path, true
		}
	} else {
		r.Folder = absolute(e.Run.Dir)
		r.files = r.Folder != "" && exists(r.Folder)
		r.config, r.environment = discreet(e.Run.Config), discreet(e.Run.Environment)
	}
	var err error
	r.document, err = document(*e)
	return r, err
}

// document is what an entry has besides what stands in other columns and tables: figures, settings and environment.
func document(e result.Entry) (string, error) {
	e.Key = result.Identity(&e)
	if e.Run != nil {
		run := *e.Run
		run.Config, run.Environment = nil, nil
		for _, f := range e.Metrics {
			if ref, err := figure.Find(f.Name); err == nil {
				ref.Put(&run.Summary, 0) // see entry, which puts it back
			}
		}
		e.Run = &run
	}
	e.Metrics, e.Extra = nil, nil
	doc, err := result.Encode(&e)
	return discreet(doc), err
}

// absolute is a path that still leads there from another working folder.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(filepath.FromSlash(path)); err == nil {
		return clean(abs)
	}
	return clean(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// clean is text both databases take: Postgres refuses zero bytes and broken UTF-8.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// discreet is a JSON text without what looks like a secret: logs hold launch commands with tokens, and a
// store may be a team's.
func discreet(doc []byte) string { return string(secret.Document([]byte(clean(string(doc))), nil)) }

func (s *Store) putRow(ctx context.Context, tx *sql.Tx, r *row) (Kept, error) {
	var id, state string
	found := false
	err := s.each(ctx, tx, "SELECT id, state FROM spate_runs WHERE identity = ?", []any{r.Key}, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&id, &state)
	})
	if err != nil {
		return Kept{}, fmt.Errorf("look for %s: %w", r.base, err)
	}
	if found {
		return Kept{ID: id}, s.refresh(ctx, tx, id, state, r)
	}
	if r.ID, err = s.freeID(ctx, tx, r); err != nil {
		return Kept{}, fmt.Errorf("find an id for %s: %w", r.base, err)
	}
	if err := s.insert(ctx, tx, r); err != nil {
		return Kept{}, fmt.Errorf("write %s: %w", r.ID, err)
	}
	return Kept{ID: r.ID, New: true}, nil
}

// freeID is the run's own name, unless another run has it: folders named by users are not unique.
func (s *Store) freeID(ctx context.Context, tx *sql.Tx, r *row) (string, error) {
	for _, id := range []string{r.base, r.base + "-" + r.Key[:6]} {
		taken := false
		err := s.each(ctx, tx, "SELECT id FROM spate_runs WHERE id = ?", []any{id}, func(*sql.Rows) error {
			taken = true
			return nil
		})
		if err != nil || !taken {
			return id, err
		}
	}
	return r.base + "-" + r.Key, nil
}

// refresh notes where a known result lies now. A run that was killed and has been computed since, or
// was put before it ended, gets its figures; labels stay as users have made them.
func (s *Store) refresh(ctx context.Context, tx *sql.Tx, id, state string, r *row) error {
	if r.Run && state != string(result.Complete) && state != r.State {
		r.ID = id
		return s.replace(ctx, tx, r)
	}
	if !r.files {
		return nil
	}
	var err error
	if r.Run {
		err = s.exec(ctx, tx, "UPDATE spate_runs SET folder = ?, host = ? WHERE id = ?", r.Folder, r.Host, id)
	} else { // a run out of a table of figures has no folder, and must not lose the one that is known
		err = s.exec(ctx, tx, "UPDATE spate_runs SET source = ?, line = ?, host = ? WHERE id = ? AND folder = ''", r.Source, r.Line, r.Host, id)
	}
	if err != nil {
		return fmt.Errorf("note where %s lies: %w", id, err)
	}
	return nil
}

// replace writes a row anew, with the labels it has in the store.
func (s *Store) replace(ctx context.Context, tx *sql.Tx, r *row) error {
	r.Labels = map[string]string{}
	err := s.each(ctx, tx, "SELECT name, value FROM spate_labels WHERE run = ?", []any{r.ID}, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		r.Labels[name] = value
		return err
	})
	if err != nil {
		return fmt.Errorf("read the labels of %s: %w", r.ID, err)
	}
	if err := s.exec(ctx, tx, "DELETE FROM spate_runs WHERE id = ?", r.ID); err != nil {
		return fmt.Errorf("replace %s: %w", r.ID, err)
	}
	return s.insert(ctx, tx, r)
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, r *row) error {
	var started any
	if !r.Started.IsZero() {
		started = r.Started.UnixMicro()
	}
	err := s.fill(ctx, tx, "spate_runs (id, identity, name, format, tool, state, verdict, model, engine, backend, gpu, started, added,"+
		" command, folder, source, line, config, environment, entry, host, error)", [][]any{{
		r.ID, r.Key, r.Name, r.Format, r.Tool, r.State, r.Verdict, r.Model, r.Engine, r.Backend, r.GPU, started, r.Added.UnixMicro(),
		r.Command, r.Folder, r.Source, r.Line, r.config, r.environment, r.document, r.Host, r.Error,
	}})
	if err != nil {
		return err
	}
	var labels [][]any
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		labels = append(labels, []any{r.ID, clean(name), clean(r.Labels[name])})
	}
	if err := s.fill(ctx, tx, "spate_labels (run, name, value)", labels); err != nil {
		return err
	}
	return s.fillFigures(ctx, tx, r.ID, r.entry)
}

// fillFigures writes the figures of an entry.
func (s *Store) fillFigures(ctx context.Context, tx *sql.Tx, id string, e *result.Entry) error {
	var rows [][]any
	for extra, list := range []result.Figures{e.Metrics, e.Extra} {
		for place, f := range list {
			var value any
			if v, ok := f.Float(); ok {
				value = v
			}
			text := clean(f.Text)
			if f.Word {
				text = secret.Text(text)
			}
			rows = append(rows, []any{id, extra, place, clean(f.Name), text, value, secret.Text(clean(f.From))})
		}
	}
	return s.fill(ctx, tx, "spate_figures (run, extra, place, name, text, value, origin)", rows)
}

// fill inserts rows, many in one statement: over a network each statement is a journey.
func (s *Store) fill(ctx context.Context, tx *sql.Tx, into string, rows [][]any) error {
	for part := range slices.Chunk(rows, 200) {
		places := "(?" + strings.Repeat(", ?", len(part[0])-1) + ")"
		query := "INSERT INTO " + into + " VALUES " + places + strings.Repeat(", "+places, len(part)-1) + " ON CONFLICT DO NOTHING"
		if err := s.exec(ctx, tx, query, slices.Concat(part...)...); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	return nil
}

// describe takes out of an entry what lists show and filters ask for.
func describe(e *result.Entry) Item {
	r := e
	it := Item{
		Key: result.Identity(e), Name: clean(e.Name), Format: clean(r.Format), Started: e.Started(), Labels: e.Labels,
		Figures: r.Metrics, Line: r.Source.Line, Error: secret.Text(clean(r.Error)),
		Model: clean(e.Setting("model")), Backend: clean(e.Setting("backend")), Engine: clean(e.Engine()), GPU: clean(e.GPU()),
		Command: secret.Text(clean(commandOf(e))),
	}
	if run := e.Run; run != nil {
		it.Run, it.Tool, it.State, it.Verdict = true, clean(run.Tool), string(run.State), string(run.Verdict.Grade)
	}
	return it
}

func commandOf(e *result.Entry) string {
	if e.Run != nil {
		return result.ShellLine(secret.Args(e.Run.Command))
	}
	return e.Context.Text("command")
}
