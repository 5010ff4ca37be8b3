package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/fleet/broker"
	"spate/internal/fleet/link"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
)

// ServeCommand is `spate fleet serve`.
type ServeCommand struct {
	listen, dir, join, cert, key, host string
}

// Bind adds its flags.
func (o *ServeCommand) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:4222", "`address` the broker listens on; port 0 picks a free one")
	f.StringVar(&o.host, "advertise", "", "`name` under which other hosts reach this one (default its own)")
	f.StringVar(&o.dir, "dir", "", "`folder` for what the broker keeps (default in the user's cache)")
	f.StringVar(&o.join, "join-file", "", "`file` to write for workers and coordinators (default fleet.join in that folder)")
	f.StringVar(&o.cert, "tls-cert", "", "`file` with the broker's certificate, in PEM")
	f.StringVar(&o.key, "tls-key", "", "`file` with its key, in PEM")
}

// Run is the broker until it is interrupted.
func (o *ServeCommand) Run(ctx context.Context, p console.Process) error {
	if (o.cert == "") != (o.key == "") {
		return console.Usage("spate fleet serve", errors.New("--tls-cert and --tls-key go together"))
	}
	if _, _, err := broker.Address(o.listen); err != nil {
		return console.Usage("spate fleet serve", fmt.Errorf("--listen: %w", err))
	}
	if o.dir == "" {
		root, err := link.Folder(p.Getenv)
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
	if err := writeJoinFile(o.join, join); err != nil {
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
func (o *ServeCommand) reach() string {
	host, _, _ := net.SplitHostPort(o.listen)
	ip := net.ParseIP(host)
	switch {
	case o.host != "":
		return o.host
	case host == "" || ip != nil && ip.IsUnspecified():
		return link.HostName()
	}
	return host
}

// options are the broker's, with the token and the certificate of the last time where there were some: workers that
// wait since then come back by themselves.
func (o *ServeCommand) options() (broker.Options, link.Join, error) {
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
func (o *ServeCommand) certificate() (cert, key []byte, err error) {
	certFile, keyFile := o.cert, o.key
	if certFile == "" {
		certFile, keyFile = filepath.Join(o.dir, "cert.pem"), filepath.Join(o.dir, "key.pem")
		if _, err := os.Stat(certFile); errors.Is(err, os.ErrNotExist) {
			if cert, key, err = broker.NewCert(slices.Compact([]string{o.reach(), link.HostName(), "localhost", "127.0.0.1", "::1"})); err != nil {
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

func writeJoinFile(path string, j link.Join) error {
	text, err := j.Text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write the join file: %w", err)
	}
	return os.Chmod(path, 0o600) // one that was there may have been open to others
}
