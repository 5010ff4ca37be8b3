//go:build unix

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
