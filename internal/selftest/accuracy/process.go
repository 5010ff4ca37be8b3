package accuracy

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"spate/internal/send/driver"
	"spate/internal/sim/serve"
)

// Lab starts child processes: server and reader must not share a runtime, a heap or a processor
// account, and a peak of memory can only be told in a fresh process.
type Lab struct {
	Program string   // the executable, which is this one
	Name    string   // its argv[0]; Program when empty
	Child   []string // arguments that make it call Child
}

// role is what a child process is there for.
type role string

const roleServer role = "server"

// order is the first thing a child reads.
type order struct {
	Role role
	Load Load
	Addr string // of the server, for readers
}

// listening is the server's word that it can be asked.
type listening struct{ Addr string }

// serverReport is what the server knows at the end.
type serverReport struct {
	Served []Served
	Stats  serve.Stats
	CPU    time.Duration
}

// readerReport is what a reader knows at the end.
type readerReport struct {
	Seen   []Seen
	Events int // it counted itself
	Failed int
	Error  string // of the first failed request
	Wall   time.Duration
	CPU    time.Duration
	RSS    uint64 // peak
}

// Child is the whole life of a child process: it reads its order from in and reports on out.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	var o order
	if err := gob.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	enc := gob.NewEncoder(out)
	var rep readerReport
	var err error
	switch o.Role {
	case roleServer:
		return serveLoad(ctx, &o, in, enc)
	case role(Spate):
		rep, err = readSpate(ctx, &o)
	case role(Bare):
		rep, err = readBare(ctx, &o)
	default:
		err = fmt.Errorf("unknown role %q", o.Role)
	}
	if err != nil {
		return err
	}
	if err := enc.Encode(rep); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// serveLoad answers until in ends, which is the parent's word or its death.
func serveLoad(ctx context.Context, o *order, in io.Reader, out *gob.Encoder) error {
	restore := driver.Tune()
	defer restore()
	if err := openFiles(o.Load.Streams); err != nil {
		return err
	}
	before := cpuTime()
	s, err := serve.Start(ctx, o.Load.server())
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	if err := out.Encode(listening{Addr: s.Addr()}); err != nil {
		return errors.Join(err, s.Stop())
	}
	_, _ = io.Copy(io.Discard, in) // an error ends it as well as the end does
	rep := serverReport{Stats: s.Stats(), CPU: cpuTime() - before}
	if err := s.Stop(); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	for _, t := range s.Truth().All() {
		rep.Served = append(rep.Served, servedOf(t))
	}
	if err := out.Encode(rep); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// servedOf keeps what the join needs of a request's truth.
func servedOf(t *serve.Truth) Served {
	s := Served{ID: t.ID, Arrived: t.Arrived, At: make([]int64, 0, len(t.Events))}
	for _, e := range t.Events {
		if e.Kind == serve.EventToken {
			s.At = append(s.At, e.At)
		}
	}
	return s
}

// child is a running child process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	dec    *gob.Decoder
	stderr *bytes.Buffer
	role   role
}

// start runs a child and hands it its order. Ending ctx kills it.
func (l *Lab) start(ctx context.Context, o order) (*child, error) {
	cmd := exec.CommandContext(ctx, l.Program, l.Child...) //nolint:gosec // the executable is this very one
	if l.Name != "" {
		cmd.Args[0] = l.Name
	}
	c := &child{cmd: cmd, stderr: &bytes.Buffer{}, role: o.Role}
	cmd.Stderr = c.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s process: %w", o.Role, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the %s process: %w", o.Role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s process: %w", o.Role, err)
	}
	c.stdin, c.dec = in, gob.NewDecoder(out)
	if err := gob.NewEncoder(in).Encode(o); err != nil {
		c.kill()
		return nil, c.wrong(err)
	}
	return c, nil
}

// receive waits for the child's next word.
func (c *child) receive(v any) error {
	if err := c.dec.Decode(v); err != nil {
		c.kill()
		return c.wrong(err)
	}
	return nil
}

// finish ends the child's input, takes its report and waits for its end.
func (c *child) finish(v any) error {
	if c.role == roleServer {
		_ = c.stdin.Close()
	}
	if err := c.receive(v); err != nil {
		return err
	}
	_ = c.stdin.Close() // closing twice is harmless
	if err := c.cmd.Wait(); err != nil {
		return c.wrong(err)
	}
	return nil
}

// kill ends the child if it still runs.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// wrong adds what the child said itself to an error.
func (c *child) wrong(err error) error {
	if said := strings.TrimSpace(c.stderr.String()); said != "" {
		return fmt.Errorf("the %s process: %s (%w)", c.role, said, err)
	}
	return fmt.Errorf("the %s process: %w", c.role, err)
}
