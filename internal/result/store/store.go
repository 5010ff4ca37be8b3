// Package store keeps results and finds them again: an embedded SQLite file by default, a Postgres
// database for a team. It holds what a result says of itself (figures, labels, settings, environment,
// commands, verdict) and where its records lie, never the records: the run folder is what counts, and
// the store can be filled again from folders at any time.
//
// bench, import and sweeps Put result.Entry values; list, show, compare and report find them by Filter, or
// with a Finder by whatever a user types. Read this file, then put.go and list.go; where.go says where the
// store is, sqlite.go and postgres.go are all that differs between the two databases.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Store is an open store. It may be used by several goroutines, and by several processes at a time.
type Store struct {
	db      *sql.DB
	dialect dialect
	place   string // for people, without a password
	host    string // this machine: folders of others' runs are not looked for here
	locked  bool   // can only be read
}

// dialect is what differs between the databases.
type dialect struct {
	numbered  bool              // placeholders are $1, $2 ... instead of ?
	lock      string            // statement that keeps other writers out until the transaction ends
	tables    string            // query for 1 when there is a schema, else 0
	strangers string            // query for the tables of other programs, where there should be none
	busy      func(error) bool  // somebody else is writing: try again
	explain   func(error) error // says what an error means, in words
}

// patience is how long a writer waits for others.
const patience = 20 * time.Second

// Open opens the store at a place Locate gave, and makes it or brings its schema up to date where needed.
// A store of a newer spate is an error, and left as it is.
func Open(ctx context.Context, where string) (*Store, error) {
	p, err := parsePlace(where)
	if err != nil {
		return nil, err
	}
	s := &Store{place: p.shown}
	s.host, _ = os.Hostname() // without a name every folder is looked for here
	if p.postgres {
		err = s.openPostgres(p)
	} else {
		err = s.openSQLite(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", p.shown, err)
	}
	if err := s.migrate(ctx); err != nil {
		_ = s.db.Close() // the reason it is not used is told
		return nil, fmt.Errorf("open store %s: %w", p.shown, s.dialect.explain(err))
	}
	return s, nil
}

// Place says where the store is, for people.
func (s *Store) Place() string { return s.place }

// Close closes the store.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", s.place, err)
	}
	return nil
}

// errReadOnly is why nothing can be put into a store.
var errReadOnly = errors.New("it can only be read: its file or folder is write-protected")

// write runs a change in one transaction. Others writing at the same time are waited for.
func (s *Store) write(ctx context.Context, doing string, change func(tx *sql.Tx) error) error {
	if s.locked {
		return fmt.Errorf("%s: store %s: %w", doing, s.place, errReadOnly)
	}
	err := s.patiently(ctx, func() error { return s.transact(ctx, change) })
	if err != nil {
		return fmt.Errorf("%s: store %s: %w", doing, s.place, s.dialect.explain(err))
	}
	return nil
}

// patiently does something again while others are in its way.
func (s *Store) patiently(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(patience)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := do()
		if err == nil || !s.dialect.busy(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (s *Store) transact(ctx context.Context, change func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if s.dialect.lock != "" {
		if err := s.exec(ctx, tx, s.dialect.lock); err != nil {
			return err
		}
	}
	if err := change(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// sql writes a statement's placeholders as the database wants them.
func (s *Store) sql(text string) string {
	if !s.dialect.numbered {
		return text
	}
	var out strings.Builder
	n := 0
	for part := range strings.SplitSeq(text, "?") {
		if n > 0 {
			out.WriteString("$" + strconv.Itoa(n))
		}
		out.WriteString(part)
		n++
	}
	return out.String()
}

// exec runs a statement that gives no rows.
func (s *Store) exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, s.sql(statement), args...) //nolint:gosec // statements are texts of this package; what users give goes in by placeholder
	return err
}

// each runs a query and gives every row to scan.
func (s *Store) each(ctx context.Context, q querier, query string, args []any, scan func(row *sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, s.sql(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told all
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// querier is a database or a transaction on it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
