package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"spate/internal/console"
	"spate/internal/result"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

// This file is how commands come to the store: with the place that a flag says, or the usual one.

// Help is that of the flag which says where the store is.
const Help = "the store: a folder, a file or a postgres:// URL (default SPATE_STORE, else ~/.local/share/spate)"

// keepTime is how long a finished run may take to get into the
const keepTime = time.Minute

// Keep puts results into the store at the place the user said, or the usual one. A store that cannot take
// them is told of and is no failure: what was measured is in its folder.
func Keep(ctx context.Context, p console.Process, said string, entries []result.Entry) []Kept {
	where, err := Locate(said, p.Getenv)
	if where == None || len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	var kept []Kept
	if err == nil {
		kept, err = putAll(ctx, where, entries)
	}
	if err == nil {
		return kept
	}
	console.Complain(p.Stderr, "warning", fmt.Errorf("not in the store: %w", err))
	for i := range entries {
		if run := entries[i].Run; run != nil && run.Dir != "" {
			p.Say("warning: nothing is lost: spate import %s puts it there later; --no-store does without\n", run.Dir)
			break
		}
	}
	return nil
}

func putAll(ctx context.Context, where string, entries []result.Entry) (kept []Kept, err error) {
	s, err := Open(ctx, where)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.PutAll(ctx, entries)
}

// KeepRun puts a run that was just measured into the store, as its folder has it: without secrets. chat is told its id.
func KeepRun(ctx context.Context, p console.Process, chat io.Writer, cfg *config.Bench, made *result.Run) {
	if cfg.Output.NoStore {
		return
	}
	run, err := finished(cfg, made)
	if err != nil {
		console.Complain(p.Stderr, "warning", fmt.Errorf("not in the store: %w", err))
		return
	}
	for _, k := range Keep(ctx, p, cfg.Output.Store, []result.Entry{result.FromRun(run)}) {
		console.Say(chat, "in the store as %s\n", k.ID)
	}
}

// finished is a run as its folder has it or, without one, with the secrets of its settings taken out.
func finished(cfg *config.Bench, run *result.Run) (*result.Run, error) {
	if run.Dir != "" {
		if kept, err := result.Open(run.Dir); err == nil {
			return kept, nil
		}
	}
	bare := *run
	bare.Schema = result.Schema // which only a folder gives it
	data, err := json.Marshal(&bare)
	if err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	return result.Decode(secret.Document(data, cfg.Scrub))
}

// KeepRuns puts runs into the store, unless their settings want none. Those that are there already stay as they are.
func KeepRuns(ctx context.Context, p console.Process, cfg *config.Bench, entries []result.Entry) {
	if cfg.Output.NoStore {
		return
	}
	if kept := Keep(ctx, p, cfg.Output.Store, entries); len(kept) > 0 {
		p.Say("%d %s in the store\n", len(kept), map[bool]string{true: "run is", false: "runs are"}[len(kept) == 1])
	}
}

// openStore opens the store for a command that looks into it. It does not make one.
func openStore(ctx context.Context, p console.Process, said string) (*Store, error) {
	where, err := Locate(said, p.Getenv)
	if err != nil {
		return nil, err
	}
	if where == None {
		return nil, errors.New("SPATE_STORE=none: there is no store; name one with --store")
	}
	if !Exists(where) {
		return nil, noStore(said, where)
	}
	return Open(ctx, where)
}

// noStore says that the store is not there: a mistake where the command line named it.
func noStore(said, where string) error {
	const text = "there is no store at %s yet: spate bench and spate import make it"
	if said != "" {
		return infile.Missing(text, where)
	}
	return fmt.Errorf(text, where)
}

// Use runs a command's work on the open
func Use(ctx context.Context, p console.Process, said string, do func(s *Store) error) (err error) {
	s, err := openStore(ctx, p, said)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

// NewFinder finds results for a command.
func NewFinder(p console.Process, said string) (*Finder, error) {
	where, err := Locate(said, p.Getenv)
	if err != nil {
		return nil, err
	}
	return &Finder{Where: where, Stdin: p.Stdin}, nil
}

// Tell names the files that are damaged.
func (f *Finder) Tell(p console.Process) {
	for _, problem := range f.Problems {
		if problem.Bad() {
			p.Say("%s\n", problem)
		}
	}
}

// Find is what references mean. Files that are damaged are told, and what could be read is shown.
func Find(ctx context.Context, p console.Process, said string, refs []string) ([]result.Entry, error) {
	finder, err := NewFinder(p, said)
	if err != nil {
		return nil, err
	}
	telling := p.Reading(refs)
	set, err := finder.Resolve(ctx, refs)
	telling.End()
	finder.Tell(p)
	return set, errors.Join(err, finder.Close())
}
