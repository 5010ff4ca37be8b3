package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/fleet/broker"
	"spate/internal/fleet/coordinator"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/fleet/worker"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
	"spate/internal/settings/config"
	"spate/internal/token/tokenizer"
	"spate/internal/trial/executor"
)

// tokenVariable holds the word that lets a process into a fleet.
const tokenVariable = "SPATE_FLEET_TOKEN"

// fleetDir is where brokers and workers keep what they have, unless told otherwise.
func fleetDir(p Process) (string, error) {
	root := p.Getenv("XDG_CACHE_HOME")
	if root == "" && p.Home() != "" {
		root = filepath.Join(p.Home(), ".cache")
	}
	if root == "" {
		return "", errors.New("there is no folder for what a fleet keeps: set HOME or XDG_CACHE_HOME")
	}
	return filepath.Join(root, "spate", "fleet"), nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// openFleet finds the workers that are to send the load of a run, or starts them here. end lets go of them.
func openFleet(ctx context.Context, p Process, cfg *config.Bench, note func(format string, args ...any)) (_ executor.Drive, end func(), err error) {
	opt := coordinator.Options{
		Workers: cfg.Fleet.Workers, Version: Version, Host: hostName(), Note: note, Places: tokenizer.PlacesFrom(p.Getenv, p.Home()),
	}
	if cfg.Fleet.Join != "" {
		j, err := link.ReadJoin(cfg.Fleet.Join, p.Getenv(tokenVariable))
		if err != nil {
			return nil, nil, fmt.Errorf("--fleet: %w", err)
		}
		opt.Join = &j
	} else if err := fleetHere(p, &opt); err != nil {
		return nil, nil, err
	}
	f, err := coordinator.Open(ctx, opt)
	if err != nil {
		if opt.Dir != "" {
			err = errors.Join(err, os.RemoveAll(opt.Dir))
		}
		return nil, nil, err
	}
	return f.Drive(cfg), func() {
		f.Close()
		if opt.Dir != "" && f.Delivered() {
			_ = os.RemoveAll(opt.Dir) // a folder in the cache
		}
	}, nil
}

// fleetHere makes a place for a broker and workers on this host.
func fleetHere(p Process, opt *coordinator.Options) error {
	root, err := fleetDir(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet: %w", err)
	}
	if opt.Dir, err = os.MkdirTemp(root, "local-"); err != nil {
		return fmt.Errorf("make the folder of the fleet: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	opt.Program, opt.Env = []string{self, "worker"}, os.Environ()
	return nil
}

// newWorker is `spate worker`.
func newWorker(p Process) *cobra.Command {
	var o workerOptions
	cmd := &cobra.Command{
		Use:   "worker --join URL [flags]",
		Short: "Send parts of runs that coordinators hand out",
		Long: `Connect to the broker of a fleet, wait for work, and send the parts of runs that coordinators hand out: one run at a
time, any number of them one after the other. It dials out, so that no port of this host needs to be open.

Records are written to a log on this host as requests end, and sent to the broker, which acknowledges them. What could
not be delivered is delivered when the broker is there again, also by a worker that is started anew with the same --dir.
A worker that hears no coordinator for 10 seconds stops sending.

The server's API key is taken from the settings of the run, over a connection with TLS or within this host, or from
OPENAI_API_KEY here. docs/fleet.md has the whole picture.`,
		Example: `  spate worker --join nats://127.0.0.1:4222        the token is in SPATE_FLEET_TOKEN
  spate worker --join fleet.join                   the file that spate fleet serve has written`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd.Context(), p, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.join, "join", "", "`address` of the broker, or the join file of spate fleet serve")
	f.StringVar(&o.name, "name", "", "`name` in the fleet, which no other worker may have (default the host's, with a number)")
	f.StringVar(&o.dir, "dir", "", "`folder` for logs and files (default in the user's cache)")
	f.BoolVar(&o.leash, "while-stdin", false, "end when standard input ends")
	if err := f.MarkHidden("while-stdin"); err != nil {
		panic(err) // it is defined above
	}
	return cmd
}

type workerOptions struct {
	join, name, dir string
	leash           bool
}

func runWorker(ctx context.Context, p Process, o *workerOptions) error {
	if o.join == "" {
		return console.Usage("spate worker", errors.New("missing: --join URL, the broker of the fleet"))
	}
	j, err := link.ReadJoin(o.join, p.Getenv(tokenVariable))
	if err != nil {
		return console.Usage("spate worker", fmt.Errorf("--join: %w", err))
	}
	if o.name == "" {
		o.name = fmt.Sprintf("%s-%d", wire.CleanName(hostName()), os.Getpid()%100_000)
	}
	if err := wire.Name("--name", o.name); err != nil {
		return console.Usage("spate worker", err)
	}
	if o.dir == "" {
		root, err := fleetDir(p)
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
	return worker.Serve(ctx, worker.Options{
		Link: l, Name: o.name, Host: hostName(), Version: Version, Dir: o.dir, Getenv: p.Getenv, Home: p.Home(), Note: p.Note,
	})
}

// dialPatiently tries until a broker answers: workers may be started before it.
func dialPatiently(ctx context.Context, p Process, o link.Options) (*link.Link, error) {
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

// newFleet is `spate fleet`.
func newFleet(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run the broker of a fleet, see who is there, finish a run",
		Long: `A fleet is workers that share the load of a run: spate worker on each host, a broker between them, and
spate bench --fleet URL --workers N, which hands out the parts and puts the records together.

docs/fleet.md shows who says what to whom, and what holds when something breaks.`,
		Example: `  spate fleet serve                                                   the broker
  spate worker --join fleet.join                                      on every host
  spate bench --fleet fleet.join --workers 4 --num-prompts 1000`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(newFleetServe(p), newFleetStatus(p), newFleetDrain(p), newFleetCollect(p))
	return cmd
}

type serveFleetOptions struct {
	listen, dir, join, cert, key, host string
}

func newFleetServe(p Process) *cobra.Command {
	var o serveFleetOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker of a fleet on an address of its own",
		Long: `Run a broker (NATS with JetStream) that workers and coordinators connect to. It listens on this host only, unless
--listen says otherwise; then it speaks TLS, with a certificate of its own making unless --tls-cert names one.

Who connects needs its token. Both are in the join file, which is written for its owner only: copy it to the hosts of
the workers, and name it in spate worker --join and spate bench --fleet.`,
		Example: `  spate fleet serve                                             for workers on this host
  spate fleet serve --listen 0.0.0.0:4222 --advertise bench.example.com --join-file fleet.join
  scp fleet.join gpu7: && ssh gpu7 spate worker --join fleet.join`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFleetServe(cmd.Context(), p, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:4222", "`address` the broker listens on; port 0 picks a free one")
	f.StringVar(&o.host, "advertise", "", "`name` under which other hosts reach this one (default its own)")
	f.StringVar(&o.dir, "dir", "", "`folder` for what the broker keeps (default in the user's cache)")
	f.StringVar(&o.join, "join-file", "", "`file` to write for workers and coordinators (default fleet.join in that folder)")
	f.StringVar(&o.cert, "tls-cert", "", "`file` with the broker's certificate, in PEM")
	f.StringVar(&o.key, "tls-key", "", "`file` with its key, in PEM")
	return cmd
}

func runFleetServe(ctx context.Context, p Process, o *serveFleetOptions) error {
	if (o.cert == "") != (o.key == "") {
		return console.Usage("spate fleet serve", errors.New("--tls-cert and --tls-key go together"))
	}
	if o.dir == "" {
		root, err := fleetDir(p)
		if err != nil {
			return err
		}
		o.dir = filepath.Join(root, "broker")
	}
	if o.join == "" {
		o.join = filepath.Join(o.dir, "fleet.join")
	}
	opt, join, err := o.options()
	if err != nil {
		return err
	}
	b, err := broker.Start(opt)
	if err != nil {
		return err
	}
	defer b.Close()
	scheme, _, _ := strings.Cut(b.URL(), "://")
	join.URL = scheme + "://" + net.JoinHostPort(o.reach(), b.Port())
	if err := writeJoin(o.join, join); err != nil {
		return err
	}
	sig := p.Signals(ctx, "ending the broker")
	defer sig.Done()
	p.Print("%s\n", join.URL)
	p.Note("the broker of the fleet listens; workers: spate worker --join %s", o.join)
	p.Note("runs: spate bench --fleet %s --workers N; Ctrl-C ends it, and what it keeps is in %s", o.join, o.dir)
	select {
	case <-sig.Stop:
	case <-sig.Context.Done():
	}
	return nil
}

// reach is the name under which the broker is found.
func (o *serveFleetOptions) reach() string {
	host, _, _ := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	switch {
	case o.host != "":
		return o.host
	case host == "" || ip != nil && ip.IsUnspecified():
		return hostName()
	}
	return host
}

// options are the broker's, with the token and the certificate of the last time where there were some: workers that
// wait since then come back by themselves.
func (o *serveFleetOptions) options() (broker.Options, link.Join, error) {
	opt := broker.Options{Listen: o.listen, Dir: filepath.Join(o.dir, "store"), Token: broker.NewToken()}
	var join link.Join
	if old, err := link.ReadJoin(o.join, ""); err == nil && old.Token != "" {
		opt.Token = old.Token.Reveal()
	}
	join.Token = secret.Value(opt.Token)
	host, _, _ := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	if local := host == "localhost" || ip != nil && ip.IsLoopback(); local && o.cert == "" {
		return opt, join, nil
	}
	cert, key, err := o.certificate()
	if err != nil {
		return opt, join, err
	}
	join.CA = string(cert)
	opt.TLS, err = broker.TLS(cert, key)
	return opt, join, err
}

// certificate is the one named, the one of the last time, or a new one.
func (o *serveFleetOptions) certificate() (cert, key []byte, err error) {
	certFile, keyFile := o.cert, o.key
	if certFile == "" {
		certFile, keyFile = filepath.Join(o.dir, "cert.pem"), filepath.Join(o.dir, "key.pem")
		if _, err := os.Stat(certFile); errors.Is(err, os.ErrNotExist) {
			if cert, key, err = broker.NewCert(slices.Compact([]string{o.reach(), hostName(), "localhost", "127.0.0.1", "::1"})); err != nil {
				return nil, nil, err
			}
			if err := os.MkdirAll(o.dir, 0o700); err != nil {
				return nil, nil, fmt.Errorf("make the broker's folder: %w", err)
			}
			return cert, key, errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600))
		}
	}
	cert, err = infile.ReadFile(certFile, infile.MaxSettings)
	if err != nil {
		return nil, nil, err
	}
	key, err = infile.ReadFile(keyFile, infile.MaxSettings)
	return cert, key, err
}

func writeJoin(path string, j link.Join) error {
	text, err := j.Text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the join file: %w", err)
	}
	return os.Chmod(path, 0o600) // one that was there may have been open to others
}
