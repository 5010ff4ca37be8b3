package store

import (
	"context"
	"database/sql"
	_ "embed" // for the migrations below
	"errors"
	"fmt"
	"strings"

	"spate/internal/result"
)

// migrations lead from an empty database to the schema of this version, one after the other. A store's
// version is how many it has seen. One that has shipped never changes, and none leads back.
var migrations = []string{runsSchema, hostSchema, figuresSchema}

//go:embed migrations/0001_runs.sql
var runsSchema string

//go:embed migrations/0002_host.sql
var hostSchema string

//go:embed migrations/0003_figures.sql
var figuresSchema string

// figuresVersion is the first schema in which entries have no figures of their own.
const figuresVersion = 3

// version is the schema's, 0 in an empty database.
func (s *Store) version(ctx context.Context, q querier) (int, error) {
	there, err := s.number(ctx, q, s.dialect.tables)
	if err != nil || there == 0 {
		return 0, err
	}
	return s.number(ctx, q, "SELECT version FROM spate_schema")
}

func (s *Store) number(ctx context.Context, q querier, query string) (n int, err error) {
	err = s.each(ctx, q, query, nil, func(row *sql.Rows) error { return row.Scan(&n) })
	return n, err
}

// migrate brings the schema up to date, in one step or not at all.
func (s *Store) migrate(ctx context.Context) error {
	have, err := s.version(ctx, s.db)
	if err != nil {
		return fmt.Errorf("read its version: %w", err)
	}
	switch {
	case have == len(migrations):
		return nil
	case have > len(migrations):
		return fmt.Errorf("it has schema %d, and this version of spate reads up to %d: a newer one has used it; update spate, or name another place with --store (nothing was changed)", have, len(migrations))
	case s.locked:
		return fmt.Errorf("it has schema %d and needs %d: %w", have, len(migrations), errReadOnly)
	}
	return s.patiently(ctx, func() error { return s.transact(ctx, func(tx *sql.Tx) error { return s.advance(ctx, tx) }) })
}

// advance runs the migrations that are missing. Another process may have run them by now.
func (s *Store) advance(ctx context.Context, tx *sql.Tx) error {
	have, err := s.version(ctx, tx)
	if err != nil {
		return fmt.Errorf("read its version: %w", err)
	}
	if have == 0 && s.dialect.strangers != "" {
		others, err := s.number(ctx, tx, s.dialect.strangers)
		if err != nil {
			return fmt.Errorf("look at its tables: %w", err)
		}
		if others > 0 {
			return errors.New("it is a database of another program, not a store")
		}
	}
	for i := have; i < len(migrations); i++ {
		if err := s.script(ctx, tx, migrations[i]); err != nil {
			return fmt.Errorf("bring its schema from %d to %d: %w", i, i+1, err)
		}
	}
	if have > 0 && have < figuresVersion {
		if err := s.moveFigures(ctx, tx); err != nil {
			return fmt.Errorf("bring its figures to schema %d: %w", figuresVersion, err)
		}
	}
	switch {
	case have == 0:
		err = s.script(ctx, tx, fmt.Sprintf("CREATE TABLE spate_schema (version BIGINT NOT NULL);\nINSERT INTO spate_schema VALUES (%d);", len(migrations)))
	case have < len(migrations):
		err = s.script(ctx, tx, fmt.Sprintf("UPDATE spate_schema SET version = %d", len(migrations)))
	}
	if err != nil {
		return fmt.Errorf("note its schema: %w", err)
	}
	return nil
}

// script runs statements that end in a semicolon and a new line.
func (s *Store) script(ctx context.Context, tx *sql.Tx, text string) error {
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := s.exec(ctx, tx, strings.TrimSuffix(statement, ";")); err != nil {
			return err
		}
	}
	return nil
}

// moveFigures takes the figures out of the entries that earlier versions wrote, and writes their rows anew. Entries
// that cannot be read stay as they are.
func (s *Store) moveFigures(ctx context.Context, tx *sql.Tx) error {
	var ids []string
	err := s.each(ctx, tx, "SELECT id FROM spate_runs", nil, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	for _, id := range ids {
		if err == nil {
			err = s.moveFiguresOf(ctx, tx, id)
		}
	}
	return err
}

func (s *Store) moveFiguresOf(ctx context.Context, tx *sql.Tx, id string) error {
	var doc string
	err := s.each(ctx, tx, "SELECT entry FROM spate_runs WHERE id = ?", []any{id}, func(rows *sql.Rows) error { return rows.Scan(&doc) })
	if err != nil {
		return err
	}
	e, err := result.DecodeEntry([]byte(doc))
	if err != nil {
		return nil //nolint:nilerr // nor could it be read before
	}
	if doc, err = document(e); err != nil {
		return err
	}
	if err := s.exec(ctx, tx, "UPDATE spate_runs SET entry = ? WHERE id = ?", doc, id); err != nil {
		return err
	}
	if err := s.exec(ctx, tx, "DELETE FROM spate_figures WHERE run = ?", id); err != nil {
		return err
	}
	return s.fillFigures(ctx, tx, id, &e)
}
