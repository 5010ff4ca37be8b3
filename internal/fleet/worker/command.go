package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/safe/secret"
)

// Command is `spate worker`.
type Command struct {
	join, name, dir string
	leash           bool
}

// Bind adds its flags.
func (o *Command) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.join, "join", "", "`address` of the broker, or the join file of spate fleet serve")
	f.StringVar(&o.name, "name", "", "`name` in the fleet, which no other worker may have (default the host's, with a number)")
	f.StringVar(&o.dir, "dir", "", "`folder` for logs and files (default in the user's cache)")
	f.BoolVar(&o.leash, "while-stdin", false, "end when standard input ends")
	if err := f.MarkHidden("while-stdin"); err != nil {
		panic(err) // it is defined above
	}
}

// Run works until it is interrupted or drained.
func (o *Command) Run(ctx context.Context, p console.Process) error {
	if o.join == "" {
		return console.Usage("spate worker", errors.New("missing: --join URL, the broker of the fleet"))
	}
	j, err := link.ReadJoin(o.join, p.Getenv(link.TokenVariable))
	if err != nil {
		return console.Usage("spate worker", fmt.Errorf("--join: %w", err))
	}
	if o.name == "" {
		o.name = fmt.Sprintf("%s-%d", wire.CleanName(link.HostName()), os.Getpid()%100_000)
	}
	if err := wire.Name("--name", o.name); err != nil {
		return console.Usage("spate worker", err)
	}
	if o.dir == "" {
		root, err := link.Folder(p.Getenv)
		if err != nil {
			return err
		}
		o.dir = filepath.Join(root, "worker")
	}
	sig := p.Signals(ctx, "ending the run under way (interrupt again to give up its requests)")
	defer sig.Done()
	ctx, cancel := context.WithCancel(sig.Context)
	defer cancel()
	go func() {
		select {
		case <-sig.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if o.leash {
		go func() {
			_, _ = io.Copy(io.Discard, p.Stdin) // until whoever holds the other end is gone
			cancel()
		}()
	}
	l, err := dialPatiently(ctx, p, link.Options{Join: j, Name: o.name, Told: func(connected bool, err error) {
		switch {
		case connected:
			p.Note("connected again")
		case err != nil:
			p.Note("the broker cannot be reached: %v", err)
		}
	}})
	if err != nil {
		return err
	}
	defer l.Close()
	p.Note("worker %s waits for work at %s; Ctrl-C ends it", o.name, secret.Text(j.URL))
	return Serve(ctx, Options{
		Link: l, Name: o.name, Host: link.HostName(), Version: p.Version, Dir: o.dir, Getenv: p.Getenv, Home: p.Home(), Note: p.Note,
	})
}

// dialPatiently tries until a broker answers: workers may be started before it.
func dialPatiently(ctx context.Context, p console.Process, o link.Options) (*link.Link, error) {
	said := ""
	for {
		l, err := link.Dial(o)
		if err == nil {
			return l, nil
		}
		if err.Error() != said {
			said = err.Error()
			p.Note("%v; trying again", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}
