package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/safe/infile"
)

// ErrUnknown is the reason when the store has no result of an id. Like a file that is not there, it is the mistake of who
// named it.
var ErrUnknown = infile.Missing("no such result")

// ID finds the one result a user means: by its id, by the beginning of it, or by its end after a dash,
// where run folders have their four letters. "last" is the latest.
func (s *Store) ID(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return "", fmt.Errorf("%w: the id is empty", ErrUnknown)
	}
	ids, err := s.texts(ctx, "SELECT id FROM spate_runs ORDER BY id")
	if err != nil {
		return "", err
	}
	if slices.Contains(ids, ref) {
		return ref, nil
	}
	for _, matches := range []func(id string) bool{
		func(id string) bool { return strings.HasPrefix(id, ref) },
		func(id string) bool { return strings.HasSuffix(id, "-"+ref) },
	} {
		found := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !matches(id) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return "", s.ambiguous(ctx, ref, found)
		}
	}
	if ref == "last" {
		items, err := s.List(ctx, Filter{Limit: 1})
		if err == nil && len(items) == 1 {
			return items[0].ID, nil
		}
		return "", errors.Join(fmt.Errorf("%w: store %s is empty", ErrUnknown, s.place), err)
	}
	return "", fmt.Errorf("%w as %q in store %s%s", ErrUnknown, ref, s.place, nearest.Hint(ref, ids))
}

// candidates is how many of several results an error names.
const candidates = 12

func (s *Store) ambiguous(ctx context.Context, ref string, ids []string) error {
	shown := ids[:min(len(ids), candidates)]
	items, err := s.List(ctx, Filter{IDs: shown, Sort: "id"})
	if err != nil {
		return err
	}
	var list strings.Builder
	for i := range items {
		_, _ = fmt.Fprintf(&list, "\n  %s  %s", items[i].ID, items[i].Name) // into memory
	}
	if more := len(ids) - len(shown); more > 0 {
		_, _ = fmt.Fprintf(&list, "\n  and %d more", more)
	}
	return fmt.Errorf("%q is the beginning or end of %d ids; type more of the one you mean:%s", ref, len(ids), list.String())
}

// Get reads one result, by what ID accepts. Where the folder of a run is gone its entry has no records,
// and all else.
func (s *Store) Get(ctx context.Context, ref string) (Item, result.Entry, error) {
	id, err := s.ID(ctx, ref)
	if err != nil {
		return Item{}, result.Entry{}, err
	}
	items, err := s.List(ctx, Filter{IDs: []string{id}})
	if err != nil {
		return Item{}, result.Entry{}, err
	}
	if len(items) == 0 { // removed since
		return Item{}, result.Entry{}, fmt.Errorf("%w as %q in store %s", ErrUnknown, ref, s.place)
	}
	entries, err := s.Entries(ctx, items)
	if err == nil && len(entries) == 0 {
		err = fmt.Errorf("%w as %q in store %s", ErrUnknown, ref, s.place)
	}
	if err != nil {
		return Item{}, result.Entry{}, err
	}
	return items[0], entries[0], nil
}

// Entries reads the results of a list, in its order.
func (s *Store) Entries(ctx context.Context, items []Item) ([]result.Entry, error) {
	out := make([]result.Entry, 0, len(items))
	for part := range slices.Chunk(items, 100) {
		docs, err := s.documents(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("read results: store %s: %w", s.place, s.dialect.explain(err))
		}
		for i := range part {
			doc, ok := docs[part[i].ID]
			if !ok {
				continue // removed since
			}
			e, err := s.entry(&part[i], doc)
			if err != nil {
				return nil, fmt.Errorf("read %s: store %s: %w", part[i].ID, s.place, err)
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// rest is what only whole entries need of a result.
type rest struct {
	config, environment, document string
	figures                       [2]result.Figures // those of the catalogue, and others
}

func (s *Store) documents(ctx context.Context, items []Item) (map[string]*rest, error) {
	in, ids := idList(items)
	docs := map[string]*rest{}
	err := s.each(ctx, s.db, "SELECT id, config, environment, entry FROM spate_runs WHERE id IN "+in, ids, func(rows *sql.Rows) error {
		var id string
		d := &rest{}
		err := rows.Scan(&id, &d.config, &d.environment, &d.document)
		docs[id] = d
		return err
	})
	if err != nil {
		return nil, err
	}
	err = s.figures(ctx, "run IN "+in, ids, func(id string, extra int, f result.Figure) {
		if d := docs[id]; d != nil { // else it was put since
			d.figures[extra&1] = append(d.figures[extra&1], f)
		}
	})
	return docs, err
}

// figures reads figures in their order.
func (s *Store) figures(ctx context.Context, where string, args []any, each func(id string, extra int, f result.Figure)) error {
	query := "SELECT run, extra, name, text, value, origin FROM spate_figures WHERE " + where + " ORDER BY run, extra, place"
	return s.each(ctx, s.db, query, args, func(rows *sql.Rows) error {
		var id string
		var extra int
		var f result.Figure
		var value *float64
		err := rows.Scan(&id, &extra, &f.Name, &f.Text, &value, &f.From)
		switch {
		case value != nil:
			f.Value = *value
		default: // a word, or digits that are more than a float can hold
			printed := result.NewPrinted(f.Name, f.Text, f.From)
			if _, ok := printed.Float(); ok {
				printed = result.NewWord(f.Name, f.Text, f.From)
			}
			f = printed
		}
		each(id, extra, f)
		return err
	})
}

// entry puts a row together again.
func (s *Store) entry(it *Item, r *rest) (result.Entry, error) {
	e, err := result.DecodeEntry([]byte(r.document))
	if err != nil {
		return result.Entry{}, err
	}
	e.ID, e.Key, e.Labels = it.ID, it.Key, maps.Clone(it.Labels)
	e.Metrics, e.Extra = r.figures[0], r.figures[1]
	if e.Run == nil {
		if it.Source != "" {
			e.Source.File = it.Source
		}
		return e, nil
	}
	for _, f := range e.Metrics {
		if ref, err := figure.Find(f.Name); err == nil {
			ref.Put(&e.Run.Summary, f.Value)
		}
	}
	e.Run.Config, e.Run.Environment = raw(r.config), raw(r.environment)
	e.Run.Dir = ""
	if s.Records(it) == RecordsHere {
		e.Run.Dir = it.Folder
		e.Source.File = it.Folder
	}
	return e, nil
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// Tag sets and removes labels of a result, by its whole id.
func (s *Store) Tag(ctx context.Context, id string, set map[string]string, remove []string) error {
	return s.write(ctx, "label "+id, func(tx *sql.Tx) error {
		if err := s.need(ctx, tx, id); err != nil {
			return err
		}
		for _, name := range slices.Concat(remove, slices.Sorted(maps.Keys(set))) {
			if err := s.exec(ctx, tx, "DELETE FROM spate_labels WHERE run = ? AND name = ?", id, clean(name)); err != nil {
				return err
			}
		}
		var rows [][]any
		for _, name := range slices.Sorted(maps.Keys(set)) {
			rows = append(rows, []any{id, clean(name), clean(set[name])})
		}
		return s.fill(ctx, tx, "spate_labels (run, name, value)", rows)
	})
}

// Remove takes results out of the store, by their whole ids: all of them, or none when one is unknown.
// Files stay where they are.
func (s *Store) Remove(ctx context.Context, ids ...string) error {
	return s.write(ctx, "remove", func(tx *sql.Tx) error {
		for _, id := range ids {
			if err := s.need(ctx, tx, id); err != nil {
				return err
			}
			if err := s.exec(ctx, tx, "DELETE FROM spate_runs WHERE id = ?", id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) need(ctx context.Context, tx *sql.Tx, id string) error {
	found := false
	err := s.each(ctx, tx, "SELECT id FROM spate_runs WHERE id = ?", []any{id}, func(*sql.Rows) error {
		found = true
		return nil
	})
	if err == nil && !found {
		return fmt.Errorf("%w as %q", ErrUnknown, id)
	}
	return err
}
