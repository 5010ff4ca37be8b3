// Package broker is the message server of a fleet: NATS with JetStream, inside this process. It is the only package that
// knows the server; everybody else speaks to it through package link, and to the user's own NATS cluster in the same way.
//
// It listens on loopback unless told otherwise, and beyond loopback only with TLS and a token.
package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options say where the broker listens and what it keeps.
type Options struct {
	Listen string      // address and port; port 0 picks a free one
	Dir    string      // what is stored, for the owner only; made if it is not there
	Token  string      // who connects must have it
	TLS    *tls.Config // nil: none, which only loopback may do without
}

// maxPayload is how large a message may be; the default of NATS.
const maxPayload = 1 << 20

// readyWithin is how long a server may take to come up: it reads what it has stored.
const readyWithin = 60 * time.Second

// Broker is a server under way.
type Broker struct {
	server *server.Server
	addr   string
	tls    bool
}

// Start starts a server and returns when it takes connections.
func Start(opt Options) (*Broker, error) {
	host, port, err := opt.check()
	if err != nil {
		return nil, err
	}
	if err := private(opt.Dir); err != nil {
		return nil, err
	}
	if err := free(opt.Listen); err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "spate", Host: host, Port: port, Authorization: opt.Token, TLSConfig: opt.TLS, TLS: opt.TLS != nil, TLSTimeout: 10,
		JetStream: true, StoreDir: opt.Dir, MaxPayload: maxPayload, NoLog: true, NoSigs: true, DisableShortFirstPing: true,
		PingInterval: 2 * time.Second, MaxPingsOut: 2, // a host that is gone is noticed in seconds
	})
	if err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(readyWithin) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("the broker did not come up on %s with its store in %s within %v", opt.Listen, opt.Dir, readyWithin)
	}
	return &Broker{server: s, addr: s.Addr().String(), tls: opt.TLS != nil}, nil
}

// Address reads where to listen.
func Address(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: want HOST:PORT, as in 127.0.0.1:4222: %w", listen, err)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: the port is a number from 0 to 65535", listen)
	}
	return host, port, nil
}

// check refuses a server that strangers could use.
func (o *Options) check() (host string, port int, err error) {
	if host, port, err = Address(o.Listen); err != nil {
		return "", 0, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case o.Token == "":
		return "", 0, errors.New("a broker needs a token")
	case !local && o.TLS == nil:
		return "", 0, fmt.Errorf("listen address %s can be reached from other hosts: that needs TLS", o.Listen)
	}
	return host, port, nil
}

// private makes a folder that nobody else can read.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the broker's folder: %w", err)
	}
	info, err := os.Stat(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("look at the broker's folder: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the broker's folder %s can be read by others (%v): chmod 700 it, or name another one", dir, info.Mode().Perm())
	}
	return nil
}

// free says at once that an address is taken: the server itself would only log it.
func free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("the broker cannot listen: %w", err)
	}
	return l.Close()
}

// URL is where the broker is.
func (b *Broker) URL() string {
	if b.tls {
		return "tls://" + b.addr
	}
	return "nats://" + b.addr
}

// Port is that of its address.
func (b *Broker) Port() string {
	_, port, _ := net.SplitHostPort(b.addr) // its own address is one
	return port
}

// Close ends the server. What it stored stays.
func (b *Broker) Close() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}
