package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// SQLite's result codes this package acts on; the lower byte of what the driver reports.
const (
	sqlitePerm     = 3
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

// openSQLite opens the file for writing or, where that cannot be, for reading.
func (s *Store) openSQLite(ctx context.Context, p place) error {
	s.dialect = dialect{
		tables:    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'spate_schema'",
		strangers: "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'spate%' AND name NOT LIKE 'sqlite%'",
		busy:      func(err error) bool { return isCode(err, sqliteBusy, sqliteLocked) },
		explain:   explainSQLite,
	}
	path, err := filepath.Abs(p.path)
	if err != nil {
		return fmt.Errorf("find its folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil { // SQLite would let everybody read it
		_ = f.Close() // it is empty
	}
	err = s.connect(ctx, path, "rwc", false)
	if err == nil || !isCode(err, sqliteReadOnly, sqliteCantOpen, sqlitePerm) {
		return explainSQLite(err)
	}
	if _, gone := os.Stat(path); gone != nil {
		return explainSQLite(err)
	}
	s.locked = true
	if s.connect(ctx, path, "ro", false) == nil {
		return nil
	}
	return explainSQLite(s.connect(ctx, path, "ro", true))
}

// connect opens the file in one mode and sees whether that works. A file that cannot change needs none
// of the helper files SQLite keeps beside it.
func (s *Store) connect(ctx context.Context, path, mode string, immutable bool) error {
	q := url.Values{
		"mode": {mode}, "_txlock": {"immediate"},
		"_pragma": {"busy_timeout(2000)", "foreign_keys(1)", "synchronous(full)"},
	}
	if immutable {
		q.Set("immutable", "1")
	}
	file := url.URL{Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}
	c, err := sqlite.NewConnector("file:" + file.EscapedPath() + "?" + q.Encode())
	if err != nil {
		return err
	}
	s.db = sql.OpenDB(c)
	s.db.SetMaxOpenConns(1) // SQLite has one writer; readers of this process take turns with it
	if err = s.try(ctx, mode); err != nil {
		_ = s.db.Close() // it was never used
	}
	return err
}

// try reads the schema's version and, of a file to be written, whether writing can begin. Nothing is
// changed but the journal's mode, and that only of a schema this spate knows.
func (s *Store) try(ctx context.Context, mode string) error {
	return s.patiently(ctx, func() error {
		version, err := s.version(ctx, s.db)
		if err != nil || mode == "ro" || version > len(migrations) {
			return err
		}
		// Where a file system cannot share memory between processes SQLite stays with its older
		// journal, which is as safe.
		if _, err := s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
			return err
		}
		return s.transact(ctx, func(*sql.Tx) error { return nil })
	})
}

func isCode(err error, codes ...int) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code()&0xff == c {
			return true
		}
	}
	return false
}

// explainSQLite says in words what the codes people meet mean.
func explainSQLite(err error) error {
	switch {
	case err == nil:
		return nil
	case isCode(err, sqliteFull):
		return fmt.Errorf("the disk is full: %w", err)
	case isCode(err, sqliteReadOnly, sqlitePerm), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (%w)", errReadOnly, err)
	case isCode(err, sqliteCantOpen):
		return fmt.Errorf("its file cannot be opened: %w", err)
	case isCode(err, sqliteIOErr):
		return fmt.Errorf("the disk is full or gives errors: %w", err)
	case isCode(err, sqliteNotADB):
		return fmt.Errorf("the file is not a store: %w", err)
	case isCode(err, sqliteCorrupt):
		return fmt.Errorf("the file is damaged: move it away and fill a new store with spate import FOLDER...: %w", err)
	case isCode(err, sqliteBusy, sqliteLocked):
		return fmt.Errorf("another process has been writing to it for %v: %w", patience, err)
	}
	return err
}
