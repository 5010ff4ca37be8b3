package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/result"
)

// TestFiguresAreMoved opens a store of schema 2, whose entries held their figures a second and third time. Everything is
// still there, as the program that wrote it exported it, and every figure is in the store once.
func TestFiguresAreMoved(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			where := db.make(t)
			fillOld(t, where)
			s := open(t, where)
			entries, err := s.Entries(context.Background(), list(t, s, Filter{}))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := result.WriteJSON(&got, entries); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("testdata/v2.json")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), ",\""), strings.Split(got.String(), ",\"")); diff != "" {
				t.Errorf("export (-was +is):\n%s", diff)
			}
			wantOnce(t, s, `"duration_s":0.675`, `"output_throughput_tokens_per_s":142`, `"ttft_ms":{"n":12,"mean":20.1`)
			if ids := idsOf(list(t, s, Filter{Where: []Bound{{Figure: "mean_ttft_ms", Op: Less, Value: 21}}, Sort: "id"})); len(ids) != 2 || ids[1] != "open" {
				t.Errorf("results below 21 ms are %v", ids)
			}
		})
	}
}

// wantOnce looks for figures in the documents beside those in their table: by their members, and by some values
// of spate's own run.
func wantOnce(t *testing.T, s *Store, values ...string) {
	t.Helper()
	err := s.each(context.Background(), s.db, "SELECT id, entry FROM spate_runs", nil, func(rows *sql.Rows) error {
		var id, doc string
		if err := rows.Scan(&id, &doc); err != nil {
			return err
		}
		for _, text := range append(values, `"metrics":{`, `"extra":{`, `"provenance":`) {
			if strings.Contains(doc, text) {
				t.Errorf("the document of %s has %s", id, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fillOld makes a store of schema 2 out of the file in testdata.
func fillOld(t *testing.T, where string) {
	t.Helper()
	data, err := os.ReadFile("testdata/v2.db")
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePlace(where)
	if err != nil {
		t.Fatal(err)
	}
	path := p.path
	if p.postgres {
		path = filepath.Join(t.TempDir(), "v2.db")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !p.postgres {
		return
	}
	file := &Store{}
	if err := file.openSQLite(context.Background(), place{path: path}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.db.Close() }()
	s := &Store{}
	if err := s.openPostgres(p); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.db.Close() }()
	err = s.transact(context.Background(), func(tx *sql.Tx) error {
		for _, script := range append(migrations[:2:2], "CREATE TABLE spate_schema (version BIGINT NOT NULL);\nINSERT INTO spate_schema VALUES (2);") {
			if err := s.script(context.Background(), tx, script); err != nil {
				return err
			}
		}
		for _, table := range []string{"spate_runs", "spate_labels", "spate_figures"} {
			if err := copyTable(s, tx, file, table); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyTable(s *Store, tx *sql.Tx, from *Store, table string) error {
	return from.each(context.Background(), from.db, "SELECT * FROM "+table, nil, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		values := make([]any, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		return s.fill(context.Background(), tx, table+" ("+strings.Join(columns, ", ")+")", [][]any{values})
	})
}
