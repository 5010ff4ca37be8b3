package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"spate/internal/result"
	"spate/internal/result/harvest"
	"spate/internal/safe/infile"
)

// Finder finds the results a user means by whatever names results: files and folders, ids of the store
// or their beginnings, "last", queries such as label:engine=x or model:Qwen*, and "-" for standard input.
// The store is opened only when it is needed, and never made.
type Finder struct {
	Where string // of the store, as Locate gives it; None or empty: there is none
	Stdin io.Reader

	// Problems gathers what is wrong with files and which runs have lost their folder.
	Problems []result.Problem

	store *Store
}

// Resolve returns the results in the order of the references. Each must give at least one.
func (f *Finder) Resolve(ctx context.Context, refs []string) ([]result.Entry, error) {
	var out []result.Entry
	for _, ref := range refs {
		found, err := f.one(ctx, ref)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no result found", ref)
		}
		out = append(out, found...)
	}
	return out, nil
}

// Close closes the store, if it was needed.
func (f *Finder) Close() error {
	if f.store == nil {
		return nil
	}
	s := f.store
	f.store = nil
	return s.Close()
}

// fileLine is how results without a name of their own are called: file:line.
var fileLine = regexp.MustCompile(`^(.+):([0-9]+)$`)

func (f *Finder) one(ctx context.Context, ref string) ([]result.Entry, error) {
	if ref == "-" {
		return f.files(ref, 0)
	}
	if _, err := os.Stat(ref); err == nil {
		return f.files(ref, 0)
	}
	if m := fileLine.FindStringSubmatch(ref); m != nil {
		if _, err := os.Stat(m[1]); err == nil {
			line, _ := strconv.Atoi(m[2]) // digits only; one too large finds nothing
			return f.files(m[1], line)
		}
	}
	if err := f.open(ctx, ref); err != nil {
		return nil, err
	}
	filter := Filter{Sort: "started"}
	if IsQuery(ref) {
		query, err := ParseQuery(ref)
		if err != nil {
			return nil, err
		}
		query.Sort = filter.Sort
		filter = query
	} else {
		id, err := f.store.ID(ctx, ref)
		if errors.Is(err, ErrUnknown) {
			return nil, infile.Missing("%s is neither a file nor a folder: %w%s", ref, err, harvest.NearestFile(ref))
		}
		if err != nil {
			return nil, err
		}
		filter.IDs = []string{id}
	}
	return f.stored(ctx, filter)
}

// files reads results that lie about; line picks the one that begins there.
func (f *Finder) files(path string, line int) ([]result.Entry, error) {
	set, err := harvest.Find([]string{path}, f.Stdin)
	if err != nil {
		return nil, err
	}
	f.Problems = append(f.Problems, set.Problems...)
	if line == 0 {
		return set.Entries, nil
	}
	for i := range set.Entries {
		if set.Entries[i].Source.Line == line {
			return set.Entries[i : i+1], nil
		}
	}
	return nil, fmt.Errorf("%s has no result that begins on line %d", path, line)
}

func (f *Finder) open(ctx context.Context, ref string) error {
	switch {
	case f.store != nil:
		return nil
	case f.Where == "" || f.Where == None:
		return infile.Missing("%s does not exist, and there is no store to look in", ref)
	case !Exists(f.Where):
		return infile.Missing("%s is neither a file nor a folder, and there is no store at %s yet%s", ref, f.Where, harvest.NearestFile(ref))
	}
	var err error
	f.store, err = Open(ctx, f.Where)
	return err
}

func (f *Finder) stored(ctx context.Context, filter Filter) ([]result.Entry, error) {
	items, err := f.store.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if note := f.store.Lost(&items[i]); note != "" {
			f.Problems = append(f.Problems, result.Problem{File: items[i].Folder, Line: 1, Kind: result.Note, Text: note})
		}
	}
	return f.store.Entries(ctx, items)
}

// Lost says in words that a run's records cannot be read here, and why; empty when nothing is missing.
func (s *Store) Lost(it *Item) string {
	switch s.Records(it) {
	case RecordsGone:
		return fmt.Sprintf("%s: its folder %s was moved or deleted, only the summary is left (spate import NEW-FOLDER tells the store where it is now)", it.ID, it.Folder)
	case RecordsAway:
		return fmt.Sprintf("%s: its records are on %s in %s, only the summary is here", it.ID, it.Host, it.Folder)
	}
	return ""
}
