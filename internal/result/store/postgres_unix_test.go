//go:build unix

package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// server is a Postgres of the tests' own, started when the first test needs it and stopped by TestMain.
type server struct {
	mu    sync.Mutex
	dir   string
	cmd   *exec.Cmd
	ended chan error
	err   error
	count int
}

var errNoPostgres = errors.New("postgres is not installed: the store's tests against Postgres do not run")

// postgresURL is the URL of a new, empty schema, which is quicker to make than a database.
func postgresURL(t *testing.T) string {
	t.Helper()
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if pg.cmd == nil && pg.err == nil {
		pg.err = pg.start()
	}
	if errors.Is(pg.err, errNoPostgres) {
		t.Skip(pg.err)
	}
	if pg.err != nil {
		t.Fatal(pg.err)
	}
	pg.count++
	name := fmt.Sprintf("store%d", pg.count)
	conn, err := pgx.Connect(context.Background(), pg.url("public"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(context.Background(), "CREATE SCHEMA "+name)
	if err = errors.Join(err, conn.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
	return pg.url(name)
}

var pg server

func (s *server) url(schema string) string {
	return "postgres:///postgres?host=" + s.dir + "&user=spate&search_path=" + schema
}

// programs finds where initdb and postgres are.
func programs() (dir string, err error) {
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		places = append([]string{path}, places...)
	}
	for _, path := range places {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	return "", errNoPostgres
}

// start makes a cluster in a folder of its own and waits until it answers.
func (s *server) start() error {
	bin, err := programs()
	if err != nil {
		return err
	}
	// Not the tests' temporary folder: a socket's path is short, and another user must get there.
	if s.dir, err = os.MkdirTemp("/tmp", "spatepg"); err != nil {
		return err
	}
	who, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	var said bytes.Buffer
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "spate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr, initdb.Stdout, initdb.Stderr = s.dir, who, &said, &said
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, said.String())
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own copy
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=", "-F", "-c", "max_connections=60")
	s.cmd.Dir, s.cmd.SysProcAttr, s.cmd.Stdout, s.cmd.Stderr = s.dir, who, log, log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	return s.ready()
}

// unprivileged lets Postgres run for root, which it refuses: as another user, who owns the folder.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{Setpgid: true}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		gid, bad := strconv.ParseUint(u.Gid, 10, 32)
		if err = errors.Join(err, bad); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}}, nil
	}
	return nil, errors.New("postgres cannot run as root, and there is no user postgres or nobody")
}

func (s *server) ready() error {
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		conn, err := pgx.Connect(ctx, s.url("public"))
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case ended := <-s.ended:
			s.ended <- ended
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("postgres ended: %w\n%s", ended, log)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %w", err)
		}
	}
}

// stop ends the server and all its processes, and removes its folder.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT) // "fast": ends connections; it may have ended already
		select {
		case <-s.ended:
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // its own group: nobody else is in it
			<-s.ended
		}
	}
	return os.RemoveAll(s.dir)
}

// TestPostgresDriver: what goes in by placeholder comes out the same, and a transaction that failed is never taken for one
// that was kept.
func TestPostgresDriver(t *testing.T) {
	cfg, err := pgconn.ParseConfig(postgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(pgConnector{cfg})
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // what one use leaves behind, the next one finds
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE kept (i BIGINT, s SMALLINT, f DOUBLE PRECISION, t TEXT UNIQUE)"); err != nil {
		t.Fatal(err)
	}
	const text = "it's \\ \"é\" 日本\n"
	if _, err := db.ExecContext(t.Context(), "INSERT INTO kept VALUES ($1, $2, $3, $4), ($5, $6, $7, $8)", math.MinInt64, -7, 0.1+0.2, text, nil, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	var i, s int64
	var f float64
	var back string
	err = db.QueryRowContext(t.Context(), "SELECT i, s, f, t FROM kept WHERE t = $1 AND f = $2 AND i < $3", text, 0.1+0.2, 0).Scan(&i, &s, &f, &back)
	if err != nil || i != math.MinInt64 || s != -7 || f != 0.1+0.2 || back != text {
		t.Errorf("%v: came back as %d, %d, %v, %q", err, i, s, f, back)
	}
	var none *int64
	if err := db.QueryRowContext(t.Context(), "SELECT i FROM kept WHERE t IS NULL").Scan(&none); err != nil || none != nil {
		t.Errorf("NULL came back as %v, %v", none, err)
	}
	if _, err := db.ExecContext(t.Context(), "SELECT $1", true); err == nil || !strings.Contains(err.Error(), "parameter 1 of a statement is a bool") {
		t.Errorf("a type the store does not have: %v", err)
	}
	var e *pgconn.PgError
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT nothing FROM nowhere").Scan(&n); !errors.As(err, &e) || e.Code != "42P01" {
		t.Errorf("a wrong query: %v", err)
	}

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO kept (t) VALUES ($1)", text); !errors.As(err, &e) || e.Code != "23505" {
		t.Errorf("the same text twice: %v", err)
	}
	if err := tx.Commit(); err == nil || !strings.Contains(err.Error(), "rolled the transaction back") {
		t.Errorf("a failed transaction was committed: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	tx, err = db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO kept (t) VALUES ('cancelled')"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v; a transaction that was given up left something", n, err)
	}
}
