package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// writers keeps one process at a time between looking for a result and putting it in. Postgres knows
// such locks by number only; this one spells "spate".
const writers = "SELECT pg_advisory_xact_lock(495791826021)"

// openPostgres prepares the connections; the first query makes one.
func (s *Store) openPostgres(p place) error {
	s.dialect = dialect{
		numbered: true,
		lock:     writers,
		tables:   "SELECT count(*) FROM pg_catalog.pg_tables WHERE tablename = 'spate_schema' AND schemaname = ANY (current_schemas(false))",
		busy:     busyPostgres,
		explain:  explainPostgres,
	}
	cfg, err := pgconn.ParseConfig(p.url)
	if err != nil {
		return fmt.Errorf("read its URL: %w", err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "spate"
	}
	s.db = sql.OpenDB(pgConnector{cfg})
	s.db.SetMaxOpenConns(4)
	return nil
}

// busyPostgres reports transactions that collided.
func busyPostgres(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (strings.HasPrefix(e.Code, "40") || e.Code == "55P03")
}

func explainPostgres(err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == "42501" || e.Code == "25006":
		return fmt.Errorf("this user may not write there: %w", err)
	case strings.HasPrefix(e.Code, "53"):
		return fmt.Errorf("the server has run out of room or connections: %w", err)
	}
	return err
}
