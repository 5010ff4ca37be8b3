package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// process is a worker that was started here. It ends when its standard input does: also when this process is killed.
type process struct {
	name  string
	cmd   *exec.Cmd
	leash io.Closer
	gone  chan struct{} // closed when it has ended
	said  tail
}

// endWithin is how long a worker may take to end by itself.
const endWithin = 10 * time.Second

func (f *Fleet) storeDir() string { return filepath.Join(f.Dir, "broker") }

// WorkerDir is where a worker of this host keeps what it has.
func WorkerDir(dir, name string) string { return filepath.Join(dir, "worker-"+name) }

// writeJoin writes the file that workers of this host find the broker by.
func (f *Fleet) writeJoin() (path string, err error) {
	path = filepath.Join(f.Dir, "join.json")
	return path, writeJoinFile(path, f.join)
}

// start starts a worker.
func (f *Fleet) start(ctx context.Context, name, join string) (_ *process, err error) {
	words := append(f.Program[1:len(f.Program):len(f.Program)], "--join", join, "--name", name, "--dir", WorkerDir(f.Dir, name), "--while-stdin")
	p := &process{name: name, gone: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), f.Program[0], words...) //nolint:gosec // this program itself
	p.cmd.Env, p.cmd.Stderr = f.Env, &p.said
	p.cmd.SysProcAttr = apart()
	if p.leash, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start worker %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker %s: %w", name, err)
	}
	go func() { // ends with the process, which end waits for
		_ = p.cmd.Wait() // why it ended is what it said
		close(p.gone)
	}()
	return p, nil
}

// end asks the worker to end, and makes it.
func (p *process) end() {
	_ = p.leash.Close() // it may have ended
	go func() {
		select {
		case <-p.gone:
		case <-time.After(endWithin):
			_ = p.cmd.Process.Kill() // gone already, otherwise
		}
	}()
}

func (p *process) dead() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// dead is a worker of this host that has ended; empty: none.
func (f *Fleet) dead() string {
	for _, p := range f.own {
		if p.dead() {
			return p.name
		}
	}
	return ""
}

// Delivered reports whether nothing is left in the folders of this host's broker and workers that anybody could want.
func (f *Fleet) Delivered() bool { return !f.incomplete.Load() }

// deadWorker reports whether a worker of this host has ended.
func (f *Fleet) deadWorker(name string) bool {
	for _, p := range f.own {
		if p.name == name {
			return p.dead()
		}
	}
	return false
}

// log is the last a worker of this host said.
func (f *Fleet) log(name string) string {
	for _, p := range f.own {
		if p.name == name {
			return p.said.String()
		}
	}
	return ""
}

// tail keeps the last that was written.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailBytes; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf.Bytes()))
}
