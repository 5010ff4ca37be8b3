// Package link is a connection to the broker of a fleet, and what travels on it: questions and answers, the time,
// records with acknowledgement, files by their content. It comes back by itself after the broker or the network was
// gone. What messages mean is the business of packages worker and coordinator.
//
// Read Dial first, then outbox.go (a worker's records leaving) and inbox.go (arriving at the coordinator).
package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spate/internal/fleet/wire"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
)

// Join says where a broker is and how to be let in. A file of it is what `spate fleet serve` writes for workers.
type Join struct {
	URL   string       `json:"url"` // several with commas between them: the nodes of a cluster
	Token secret.Value `json:"-"`
	CA    string       `json:"ca,omitempty"`    // PEM of who signed the broker's certificate; empty: whom the system trusts
	Creds string       `json:"creds,omitempty"` // a NATS credentials file
}

// maxJoin bounds a join file.
const maxJoin = 1 << 20

// joinFile is a Join with its token, which hides itself elsewhere.
type joinFile struct {
	Join
	Token string `json:"token,omitempty"`
}

// Text is the join file, token included: for a file that only its owner can read.
func (j Join) Text() ([]byte, error) {
	data, err := json.MarshalIndent(joinFile{j, j.Token.Reveal()}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// ReadJoin reads what a user named: the address of a broker or a join file. token is taken where that has none.
func ReadJoin(word, token string) (Join, error) {
	if strings.Contains(word, "://") {
		j := Join{URL: word, Token: secret.Value(token)}
		return j, j.check()
	}
	data, err := infile.ReadFile(word, maxJoin)
	if err != nil {
		return Join{}, fmt.Errorf("%s is neither an address such as nats://host:4222 nor a join file: %w", secret.Text(word), err)
	}
	var f joinFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Join{}, fmt.Errorf("join file %s: %w", word, err)
	}
	f.Join.Token = secret.Value(f.Token)
	if f.Token == "" {
		f.Join.Token = secret.Value(token)
	}
	if err := f.check(); err != nil {
		return Join{}, fmt.Errorf("join file %s: %w", word, err)
	}
	return f.Join, nil
}

func (j *Join) check() error {
	for one := range strings.SplitSeq(j.URL, ",") {
		u, err := url.Parse(one)
		switch {
		case err != nil:
			return errors.New("the address of the fleet cannot be read: want nats://HOST:PORT or tls://HOST:PORT")
		case u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss":
			return fmt.Errorf("the address of the fleet begins with %s://: want nats://HOST:PORT or tls://HOST:PORT", u.Scheme)
		case u.Hostname() == "":
			return fmt.Errorf("%s names no host: want nats://HOST:PORT or tls://HOST:PORT", secret.Text(one))
		}
	}
	return nil
}

// Link is a connection.
type Link struct {
	NC *nats.Conn
	JS jetstream.JetStream
}

// Options of a connection.
type Options struct {
	Join
	Name    string                          // shown by the broker
	Patient bool                            // keep trying where nobody answers yet
	Told    func(connected bool, err error) // told when the connection is lost or back; may be nil
}

// Dial connects.
func Dial(o Options) (*Link, error) {
	if o.Told == nil {
		o.Told = func(bool, error) {}
	}
	opts := []nats.Option{
		nats.Name(o.Name), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(5 * time.Second), nats.RetryOnFailedConnect(o.Patient),
		nats.ReconnectBufSize(-1), // what cannot be sent now is an error: the sender decides what to say later
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { o.Told(false, err) }),
		nats.ReconnectHandler(func(*nats.Conn) { o.Told(true, nil) }),
		nats.IgnoreAuthErrorAbort(),                                       // a broker that starts may refuse for a moment
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // slow consumers: what must not be lost is in JetStream
	}
	if t := o.Token.Reveal(); t != "" {
		opts = append(opts, nats.Token(t))
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(o.CA)) {
			return nil, errors.New("the fleet's certificate is no PEM text")
		}
		opts = append(opts, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}))
	}
	nc, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("the fleet's broker %s: %w", secret.Text(o.URL), explain(err))
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackWithin), jetstream.WithDefaultTimeout(askWithin))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("the fleet's broker %s: %w", secret.Text(o.URL), err)
	}
	return &Link{NC: nc, JS: js}, nil
}

// How long an acknowledgement and an answer of the broker may take before the question is asked again.
const (
	ackWithin = 5 * time.Second
	askWithin = 5 * time.Second
)

// explain says what a user can do about it.
func explain(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("%w: the token is missing or wrong; give SPATE_FLEET_TOKEN or the join file of spate fleet serve", err)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("nobody listens there (%w)", err)
	}
	return err
}

// Close ends the connection.
func (l *Link) Close() { l.NC.Close() }

// Private reports whether nobody but the broker can read what is sent: TLS, or a connection within this host.
func (l *Link) Private() bool {
	if _, err := l.NC.TLSConnectionState(); err == nil {
		return true
	}
	u, err := url.Parse(l.NC.ConnectedUrl())
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Ask sends a message and reads the answer.
func Ask[M any, P interface {
	*M
	wire.Message
}](ctx context.Context, l *Link, subject string, m wire.Message, answer P) error {
	data, err := wire.Encode(m)
	if err != nil {
		return err
	}
	msg, err := l.NC.RequestWithContext(ctx, subject, data)
	if err != nil {
		return err
	}
	return wire.Decode(msg.Data, answer)
}

// Tell sends a message without waiting for an answer.
func (l *Link) Tell(subject string, m wire.Message) error {
	data, err := wire.Encode(m)
	if err != nil {
		return err
	}
	return l.NC.Publish(subject, data)
}

// Reply answers a message; who asked may be gone.
func Reply(m *nats.Msg, with wire.Message) {
	if data, err := wire.Encode(with); err == nil && m.Reply != "" {
		_ = m.Respond(data)
	}
}
