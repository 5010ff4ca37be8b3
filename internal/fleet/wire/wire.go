// Package wire is what coordinators and workers say to each other: subjects, messages and batches of records. Every
// message is bounded and checked when it is read, since a worker on another host is as foreign as a server.
//
// Read this file first; batch.go has the records. Package link carries messages, and says nothing about what they mean.
package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/fleet/clock"
)

// Protocol is the version of these messages; a worker with another version is refused, with its name.
const Protocol = 1

// Bounds on what is taken from others.
const (
	MaxMessage = 900 << 10 // bytes of one message; NATS servers take 1 MiB unless told otherwise
	MaxName    = 64        // letters of a name that is part of a subject
	MaxText    = 2000      // letters of a text for people
	MaxWorkers = 10_000    // of a run
	MaxFiles   = 10_000    // of a job
	MaxFile    = 64 << 30  // bytes of one file
)

const maxLoad = 1_000_000 // of a host: more than any system counts

const root = "spate.v1"

// Who is asked with a reply address: every worker answers with its Hello. This and what follows are subjects; a name
// within one was checked by Name.
const Who = root + ".who"

// WorkerJob is where a worker is given a Job; it answers with an Answer.
func WorkerJob(worker string) string { return root + ".worker." + worker + ".job" }

// WorkerDrain is where a worker is told to take no further jobs; it answers with its Hello.
func WorkerDrain(worker string) string { return root + ".worker." + worker + ".drain" }

// WorkerClock is where a worker answers with its wall clock, in nanoseconds since 1970.
func WorkerClock(worker string) string { return root + ".worker." + worker + ".clock" }

// ClockOf is where a run's coordinator answers with its time.
func ClockOf(run string) string { return inRun(run, "clock") }

// Pulses is where a coordinator says each second how the run stands.
func Pulses(run string) string { return inRun(run, "pulse") }

// Secrets is where a run's coordinator is asked for what must not be kept.
func Secrets(run string) string { return inRun(run, "secrets") }

// Beats is where a part of a run says each second how it goes; "*" is all parts.
func Beats(run, part string) string { return inRun(run, "beat."+part) }

// Readies is where a part says that it is prepared, or cannot be; it is asked until the coordinator answers.
func Readies(run, part string) string { return inRun(run, "ready."+part) }

// Kept is everything of a run that is stored until the run is over: plan, records, ends.
func Kept(run string) string { return inRun(run, "kept.>") }

// PlanOf is where the coordinator keeps what a run is.
func PlanOf(run string) string { return inRun(run, "kept.plan") }

// Records is where a part's records go.
func Records(run, part string) string { return inRun(run, "kept.records."+part) }

// Dones is where a part says that it is over.
func Dones(run, part string) string { return inRun(run, "kept.done."+part) }

// Stream is the name of what a run keeps.
func Stream(run string) string { return "spate-run-" + run }

// StreamRun is the run that a stream belongs to.
func StreamRun(stream string) (run string, ok bool) { return strings.CutPrefix(stream, "spate-run-") }

// Files is the name of the store of files.
const Files = "spate-files"

func inRun(run, what string) string { return root + ".run." + run + "." + what }

// Part is a part's number as subjects have it.
func Part(n int) string { return fmt.Sprintf("%05d", n) }

// PartOf is the number of the part whose subject this is.
func PartOf(subject string) (int, error) {
	text := subject[strings.LastIndexByte(subject, '.')+1:]
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("subject %.80q ends with no part", subject)
		}
		n = 10*n + int(c-'0')
	}
	if len(text) != 5 || n >= MaxWorkers {
		return 0, fmt.Errorf("subject %.80q ends with no part", subject)
	}
	return n, nil
}

// Name says whether a text can be part of a subject.
func Name(what, s string) error {
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%s %.80q: 1 to %d letters are wanted", what, s, MaxName)
	}
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return fmt.Errorf("%s %.80q: only letters of English, digits, - and _ are wanted", what, s)
		}
	}
	return nil
}

// CleanName makes a name of any text.
func CleanName(s string) string {
	clean := strings.Map(func(c rune) rune {
		if Name("", string(c)) != nil {
			return '-'
		}
		return c
	}, s)
	return clean[:min(len(clean), MaxName-10)]
}

// Message is something that can be checked.
type Message interface{ Check() error }

// Encode writes a message, and refuses one that would not be taken.
func Encode(m Message) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("a message of %d bytes: at most %d travel", len(data), MaxMessage)
	}
	return data, nil
}

// Decode reads a message into m, which is as it was where there is an error.
func Decode[M any, P interface {
	*M
	Message
}](data []byte, m P) error {
	if len(data) > MaxMessage {
		return fmt.Errorf("a message of %d bytes: at most %d are read", len(data), MaxMessage)
	}
	var fresh M
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&fresh); err != nil {
		return fmt.Errorf("not a message: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not a message: something follows it")
	}
	if err := P(&fresh).Check(); err != nil {
		return err
	}
	*m = fresh
	return nil
}

func text(what, s string) error {
	if len(s) > MaxText {
		return fmt.Errorf("%s has %d bytes: at most %d are read", what, len(s), MaxText)
	}
	return nil
}

func span(what string, d time.Duration) error {
	if d < 0 || d > call.MaxTime {
		return fmt.Errorf("%s is %d: want a time from 0 to %d", what, int64(d), int64(call.MaxTime))
	}
	return nil
}

func count[N int | int64](what string, n N) error {
	if n < 0 || int64(n) > 1<<53 {
		return fmt.Errorf("%s is %d: want a count from 0 to 2^53", what, n)
	}
	return nil
}

// Hello is who a worker is and what it does.
type Hello struct {
	Worker   string   `json:"worker"`
	Host     string   `json:"host"`
	Version  string   `json:"version"`
	Protocol int      `json:"protocol"`
	Cores    int      `json:"cores"`
	Load     *float64 `json:"load,omitempty"` // average of the host over the last minute; nil: it does not tell
	PID      int      `json:"pid"`
	Run      string   `json:"run,omitempty"` // that it works on
	Draining bool     `json:"draining,omitempty"`
	Runs     int      `json:"runs"`              // finished
	Waiting  int      `json:"waiting,omitempty"` // runs whose records it could not deliver yet
}

// Check implements Message.
func (h *Hello) Check() error {
	errs := []error{
		Name("worker", h.Worker), text("host", h.Host), text("version", h.Version),
		count("cores", h.Cores), count("pid", h.PID), count("runs", h.Runs), count("waiting", h.Waiting),
	}
	if h.Run != "" {
		errs = append(errs, Name("run", h.Run))
	}
	if h.Load != nil && !(*h.Load >= 0 && *h.Load <= maxLoad) {
		errs = append(errs, fmt.Errorf("load is %v: want 0 to %d", *h.Load, maxLoad))
	}
	return errors.Join(errs...)
}

// Fits is why a worker cannot work for a coordinator of this version; nil where it can. Both must be the same program:
// the load is computed on either side, and two releases may compute it differently.
func (h *Hello) Fits(version string) error {
	switch {
	case h.Protocol != Protocol:
		return fmt.Errorf("worker %s (spate %s) speaks protocol %d of fleets; this spate %s speaks %d: use the same release on every host", h.Worker, h.Version, h.Protocol, version, Protocol)
	case h.Version != version:
		return fmt.Errorf("worker %s is spate %s and this is spate %s: use the same release on every host, since both compute the load", h.Worker, h.Version, version)
	}
	return nil
}

// Job is a part of a run.
type Job struct {
	Run      string          `json:"run"`
	Version  string          `json:"version"`
	Protocol int             `json:"protocol"`
	Part     int             `json:"part"`
	Of       int             `json:"of"`
	Worker   string          `json:"worker"`            // what its records are signed with
	Config   json.RawMessage `json:"config"`            // settings without secrets
	Secrets  bool            `json:"secrets,omitempty"` // there are some, to be asked for
	OwnKey   bool            `json:"own_key,omitempty"` // the server's key is that of the worker's environment
	Sealed   json.RawMessage `json:"sealed,omitempty"`  // where there are none: what package parcel keeps beside the settings
	Files    []File          `json:"files,omitempty"`
}

// File is a file that the settings name.
type File struct {
	Path string `json:"path"` // as the settings name it
	Hash string `json:"hash"` // SHA-256 in hex
	Size int64  `json:"size"`
}

// Check implements Message.
func (j *Job) Check() error {
	errs := []error{Name("run", j.Run), Name("worker", j.Worker), text("version", j.Version), count("part", j.Part), count("of", j.Of)}
	if j.Of < 1 || j.Of > MaxWorkers || j.Part >= j.Of {
		errs = append(errs, fmt.Errorf("part %d of %d", j.Part, j.Of))
	}
	if len(j.Files) > MaxFiles {
		errs = append(errs, fmt.Errorf("%d files: at most %d", len(j.Files), MaxFiles))
	}
	for _, f := range j.Files {
		if h, err := hex.DecodeString(f.Hash); err != nil || len(h) != 32 || f.Size < 0 || f.Size > MaxFile || f.Path == "" || len(f.Path) > 4096 {
			errs = append(errs, fmt.Errorf("file %.80q of %d bytes with hash %.80q", f.Path, f.Size, f.Hash))
		}
	}
	return errors.Join(errs...)
}

// Answer is yes, or why not.
type Answer struct {
	OK  bool   `json:"ok"`
	Why string `json:"why,omitempty"`
}

// Check implements Message.
func (a *Answer) Check() error { return text("why", a.Why) }

// Ready says that a part is prepared: its requests lie ready and its connections are open.
type Ready struct {
	Worker string         `json:"worker"`
	Why    string         `json:"why,omitempty"` // it cannot be; empty: it is
	Clock  clock.Estimate `json:"clock"`
}

// Check implements Message.
func (r *Ready) Check() error {
	return errors.Join(Name("worker", r.Worker), text("why", r.Why), span("round trip", r.Clock.RoundTrip))
}

// Pulse is how a run stands, said by its coordinator again and again, so that a message that was lost does no harm.
type Pulse struct {
	Start *time.Duration `json:"start_ns,omitempty"` // the instant at which the run begins, on the coordinator's clock; nil: not known yet
	Stop  bool           `json:"stop,omitempty"`     // send nothing more; requests in flight have the grace period
	Cut   bool           `json:"cut,omitempty"`      // give up what is in flight, too
	Over  bool           `json:"over,omitempty"`     // nobody waits for this run any more
}

// Check implements Message.
func (p *Pulse) Check() error {
	if p.Start != nil {
		return span("start_ns", *p.Start)
	}
	return nil
}

// Beat is how a part goes.
type Beat struct {
	Worker   string `json:"worker"`
	Due      int64  `json:"due"`
	Sent     int64  `json:"sent"`
	Done     int64  `json:"done"`
	Queued   int64  `json:"queued"`
	InFlight int64  `json:"in_flight"`
	Unsent   int64  `json:"unsent,omitempty"` // records that are not acknowledged yet
}

// Check implements Message.
func (b *Beat) Check() error {
	return errors.Join(Name("worker", b.Worker), count("due", b.Due), count("sent", b.Sent), count("done", b.Done),
		count("queued", b.Queued), count("in_flight", b.InFlight), count("unsent", b.Unsent))
}

// Done is the end of a part: every record it made was acknowledged before.
type Done struct {
	Worker  string          `json:"worker"`
	Why     string          `json:"why,omitempty"` // it ended without a result
	Stopped bool            `json:"stopped,omitempty"`
	Alone   bool            `json:"alone,omitempty"` // it stopped since it heard no coordinator
	Records int64           `json:"records"`         // that it made
	Missing int64           `json:"missing,omitempty"`
	Clock   clock.Quality   `json:"clock"`
	Report  json.RawMessage `json:"report,omitempty"` // what the part says of itself, in package result's form
}

// Check implements Message.
func (d *Done) Check() error {
	return errors.Join(Name("worker", d.Worker), text("why", d.Why), count("records", d.Records), count("missing", d.Missing),
		span("uncertainty", d.Clock.Uncertainty))
}

// Plan is what a run is, for who finishes it in the coordinator's place.
type Plan struct {
	Run     string          `json:"run"`
	Version string          `json:"version"`
	Of      int             `json:"of"`
	Workers []string        `json:"workers"` // by part
	Folder  string          `json:"folder,omitempty"`
	Host    string          `json:"host"`
	Result  json.RawMessage `json:"result,omitempty"` // the run folder's result.json at the start
}

// Check implements Message.
func (p *Plan) Check() error {
	errs := []error{Name("run", p.Run), text("version", p.Version), text("host", p.Host), count("of", p.Of)}
	if len(p.Workers) != p.Of || p.Of > MaxWorkers || len(p.Folder) > 4096 {
		errs = append(errs, fmt.Errorf("a plan of %d workers names %d", p.Of, len(p.Workers)))
	}
	for _, w := range p.Workers {
		errs = append(errs, Name("worker", w))
	}
	return errors.Join(errs...)
}
