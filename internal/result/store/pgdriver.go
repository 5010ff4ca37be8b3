package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Package database/sql on pgx's connections. pgx has a driver of its own, which knows every type of Postgres and takes
// 2 MB; the store's tables hold text and numbers.

// pgConnector makes connections to one server.
type pgConnector struct{ cfg *pgconn.Config }

func (c pgConnector) Driver() driver.Driver { return pgDriver{} }

func (c pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := pgconn.ConnectConfig(ctx, c.cfg)
	if err != nil {
		return nil, err
	}
	return &pgSession{PgConn: conn, used: time.Now()}, nil
}

// pgDriver opens a connection by URL; database/sql asks for one, the store has its connector.
type pgDriver struct{}

func (pgDriver) Open(url string) (driver.Conn, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	return pgConnector{cfg}.Connect(context.Background())
}

// pgSession is one connection.
type pgSession struct {
	*pgconn.PgConn
	used time.Time
}

// closing is how long a server gets to hear that a connection ends.
const closing = 5 * time.Second

func (s *pgSession) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), closing)
	defer stop()
	return s.PgConn.Close(ctx)
}

// ResetSession is asked before a connection is used again: one that is lost, or still within a transaction, is not.
func (s *pgSession) ResetSession(ctx context.Context) error {
	idle := time.Since(s.used)
	s.used = time.Now()
	if s.IsClosed() || s.TxStatus() != 'I' || idle > time.Second && s.Ping(ctx) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// IsValid keeps connections out of the pool that are lost, or whose transaction would go on holding its locks.
func (s *pgSession) IsValid() bool { return !s.IsClosed() && s.TxStatus() == 'I' }

func (s *pgSession) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.ReadOnly || opts.Isolation != 0 {
		return nil, fmt.Errorf("no transactions of isolation %d, read-only %v: only plain ones", opts.Isolation, opts.ReadOnly)
	}
	return pgTx{ctx, s}, s.command(ctx, "BEGIN")
}

// Begin is the older form of BeginTx.
func (s *pgSession) Begin() (driver.Tx, error) {
	return s.BeginTx(context.Background(), driver.TxOptions{})
}

func (s *pgSession) command(ctx context.Context, sql string) error {
	_, err := s.PgConn.Exec(ctx, sql).ReadAll()
	return err
}

type pgTx struct {
	ctx context.Context //nolint:containedctx // database/sql ends a transaction without one
	*pgSession
}

// Commit fails where the server rolled back instead, as it does after a failed statement.
func (t pgTx) Commit() error {
	res, err := t.PgConn.Exec(t.ctx, "COMMIT").ReadAll()
	if err != nil {
		return err
	}
	if n := len(res); n != 1 || res[0].CommandTag.String() != "COMMIT" {
		return errors.New("the server rolled the transaction back")
	}
	return nil
}

// Rollback works after the context's end, too: that is a reason to roll back.
func (t pgTx) Rollback() error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.ctx), closing)
	defer stop()
	return t.command(ctx, "ROLLBACK")
}

// run starts one statement.
func (s *pgSession) run(ctx context.Context, sql string, args []driver.NamedValue) (*pgconn.ResultReader, error) {
	values, types := make([][]byte, len(args)), make([]uint32, len(args))
	for i, a := range args {
		var text string
		switch v := a.Value.(type) {
		case nil:
			continue // neither value nor type: NULL
		case string:
			text, types[i] = v, pgText
		case int64:
			text, types[i] = strconv.FormatInt(v, 10), pgInt8
		case float64:
			text, types[i] = strconv.FormatFloat(v, 'g', -1, 64), pgFloat8
		default:
			return nil, fmt.Errorf("parameter %d of a statement is a %T", a.Ordinal, v)
		}
		values[i] = []byte(text)
	}
	return s.ExecParams(ctx, sql, values, types, nil, nil), nil
}

// Numbers of Postgres' types.
const (
	pgInt8   = 20
	pgInt2   = 21
	pgInt4   = 23
	pgText   = 25
	pgFloat8 = 701
)

func (s *pgSession) ExecContext(ctx context.Context, sql string, args []driver.NamedValue) (driver.Result, error) {
	r, err := s.run(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	tag, err := r.Close()
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (s *pgSession) QueryContext(ctx context.Context, sql string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := s.run(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows := &pgRows{r: r}
	for _, f := range r.FieldDescriptions() {
		rows.names, rows.types = append(rows.names, f.Name), append(rows.types, f.DataTypeOID)
	}
	if len(rows.names) == 0 { // it failed, or gives no rows
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

type pgRows struct {
	r     *pgconn.ResultReader
	names []string
	types []uint32
}

func (r *pgRows) Columns() []string { return r.names }

func (r *pgRows) Close() error {
	_, err := r.r.Close()
	return err
}

func (r *pgRows) Next(to []driver.Value) error {
	if !r.r.NextRow() {
		if err := r.Close(); err != nil {
			return err
		}
		return io.EOF
	}
	for i, raw := range r.r.Values() {
		v, err := pgValue(r.types[i], raw)
		if err != nil {
			return fmt.Errorf("column %s: %w", r.names[i], err)
		}
		to[i] = v
	}
	return nil
}

// pgValue reads a value from its text.
func pgValue(kind uint32, raw []byte) (driver.Value, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	switch kind {
	case pgInt2, pgInt4, pgInt8:
		return strconv.ParseInt(string(raw), 10, 64)
	case pgFloat8:
		return strconv.ParseFloat(string(raw), 64)
	}
	return string(raw), nil
}

// Prepare is asked of every driver; statements run without it, since poolers between here and the server forget them.
func (s *pgSession) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("statements are not prepared")
}
