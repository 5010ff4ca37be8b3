package serve

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"spate/internal/nearest"
)

// FaultKind names a way to misbehave.
type FaultKind string

// The faults. See docs/sim.md for what each does and which settings it reads.
const (
	FaultRefuse   FaultKind = "refuse"    // reset the connection when it is accepted; counts connections, not requests
	FaultReset    FaultKind = "reset"     // reset after reading the request, before any answer
	FaultStatus   FaultKind = "status"    // answer with an HTTP error
	FaultStall    FaultKind = "stall"     // pause before the headers or before an event
	FaultCut      FaultKind = "cut"       // close the connection in mid-stream
	FaultError    FaultKind = "error"     // an error object inside the stream, then [DONE]
	FaultGarbage  FaultKind = "garbage"   // bytes that are not what the protocol promises
	FaultUTF8     FaultKind = "utf8"      // text that is not UTF-8
	FaultEmpty    FaultKind = "empty"     // a stream without one event but [DONE]
	FaultNoFinish FaultKind = "no_finish" // no finish_reason on the last event
	FaultNoDone   FaultKind = "no_done"   // no [DONE]
	FaultPing     FaultKind = "ping"      // comment lines between events
	FaultCRLF     FaultKind = "crlf"      // CRLF line ends
	FaultSplit    FaultKind = "split"     // each event in pieces of some bytes
	FaultBatch    FaultKind = "batch"     // several events in one write
	FaultDrip     FaultKind = "drip"      // a few bytes at a time, slowly
	FaultFlood    FaultKind = "flood"     // the whole answer as fast as the socket takes it
)

var faultKinds = []FaultKind{
	FaultRefuse, FaultReset, FaultStatus, FaultStall, FaultCut, FaultError, FaultGarbage, FaultUTF8, FaultEmpty,
	FaultNoFinish, FaultNoDone, FaultPing, FaultCRLF, FaultSplit, FaultBatch, FaultDrip, FaultFlood,
}

// BeforeHeaders as Fault.At means before the response's first byte.
const BeforeHeaders = -1

// Forever as Fault.For means until the client gives up.
const Forever time.Duration = -1

// Fault is one misbehaviour and its settings. Fields a kind does not read are ignored.
type Fault struct {
	Kind       FaultKind
	At         int           // token event it strikes at, from 0; BeforeHeaders
	For        time.Duration // stall: how long, Forever by default; split, drip: pause between writes
	Code       int           // status: 500 by default
	RetryAfter int           // status: seconds, sent when > 0
	Text       string        // status: body; error: message; garbage: the bytes
	Where      string        // garbage: "event" (default) inside a data line, "http" instead of a chunk, "headers" instead of the response
	Reset      bool          // cut: RST instead of FIN
	Bytes      int           // cut: bytes of the event still written; split, drip: bytes per write
	Every      int           // ping: before every n-th event; batch: events per write
}

// fate is everything the rules hold for one request, merged.
type fate struct {
	timing  *Timing
	reset   bool
	status  *Fault
	stall   time.Duration // before the headers
	garbled []byte        // instead of the headers
	strikes []Fault       // cut, error, garbage, utf8, by At
	style   style
}

// style is how the bytes of a whole stream look.
type style struct {
	crlf, noFinish, noDone, empty, flood bool
	ping, batch, bytes                   int
	pause                                time.Duration
}

// plain reports whether the stream's bytes are those of a healthy server.
func (f *fate) plain() bool { return len(f.strikes) == 0 && f.style == style{} }

// at returns the strike due before token event i.
func (f *fate) at(i int) *Fault {
	for k := range f.strikes {
		if f.strikes[k].At == i {
			return &f.strikes[k]
		}
	}
	return nil
}

// add merges one fault.
func (f *fate) add(ft Fault) {
	switch ft.Kind {
	case FaultReset:
		f.reset = true
	case FaultStatus:
		f.status = &ft
	case FaultStall:
		f.addStall(ft)
	case FaultGarbage:
		if ft.Where == "headers" {
			f.garbled = []byte(garbageText(ft))
			return
		}
		f.strikes = append(f.strikes, ft)
	case FaultCut, FaultError, FaultUTF8:
		f.strikes = append(f.strikes, ft)
	case FaultEmpty:
		f.style.empty = true
	case FaultNoFinish:
		f.style.noFinish = true
	case FaultNoDone:
		f.style.noDone = true
	case FaultPing:
		f.style.ping = max(ft.Every, 1)
	case FaultCRLF:
		f.style.crlf = true
	case FaultSplit:
		f.style.bytes, f.style.pause = orInt(ft.Bytes, 7), ft.For
	case FaultDrip:
		f.style.bytes, f.style.pause = orInt(ft.Bytes, 16), orDur(ft.For, 5*time.Millisecond)
	case FaultBatch:
		f.style.batch = orInt(ft.Every, 8)
	case FaultFlood:
		f.style.flood = true
		f.ownTiming()
		f.timing.ITL = []time.Duration{0}
	}
}

func (f *fate) addStall(ft Fault) {
	d := orDur(ft.For, Forever)
	if ft.At == BeforeHeaders {
		f.stall = d
		return
	}
	f.ownTiming()
	f.timing.StallAt, f.timing.Stall = ft.At, d
}

func (f *fate) ownTiming() {
	if f.timing == nil {
		f.timing = &Timing{}
	}
}

func garbageText(ft Fault) string {
	if ft.Text != "" {
		return ft.Text
	}
	return "\x00\xff{]garbage\x7f"
}

func orInt(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func orDur(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}

// check reports settings that make no sense.
func (ft *Fault) check() error {
	if !slices.Contains(faultKinds, ft.Kind) {
		return fmt.Errorf("unknown fault %q%s", ft.Kind, nearest.Hint(string(ft.Kind), faultKinds))
	}
	if ft.Kind == FaultStatus && ft.Code == 0 {
		ft.Code = 500
	}
	switch {
	case ft.Kind == FaultStatus && (ft.Code < 400 || ft.Code > 599):
		return fmt.Errorf("fault status: code %d is not an error status", ft.Code)
	case ft.At < BeforeHeaders:
		return fmt.Errorf("fault %s: at %d is before the headers", ft.Kind, ft.At)
	case ft.At == BeforeHeaders && ft.Kind != FaultStall:
		return fmt.Errorf("fault %s: only stall strikes before the headers", ft.Kind)
	case ft.Bytes < 0 || ft.Every < 0 || ft.RetryAfter < 0:
		return fmt.Errorf("fault %s: negative setting", ft.Kind)
	case ft.For < 0 && ft.Kind != FaultStall:
		return fmt.Errorf("fault %s: only stall lasts forever", ft.Kind)
	case ft.Where != "" && !slices.Contains([]string{"event", "http", "headers"}, ft.Where):
		return fmt.Errorf("fault %s: where is event, http or headers, not %q", ft.Kind, ft.Where)
	}
	return nil
}

// set gives one setting by its name in scripts and flags.
func (ft *Fault) set(key, value string) error {
	var err error
	switch key {
	case "at":
		ft.At, err = parseAt(value)
	case "for":
		ft.For, err = parseDur(value)
	case "code":
		ft.Code, err = strconv.Atoi(value)
	case "retry_after":
		ft.RetryAfter, err = strconv.Atoi(value)
	case "text":
		ft.Text = value
	case "where":
		ft.Where = value
	case "reset":
		ft.Reset, err = strconv.ParseBool(value)
	case "bytes":
		ft.Bytes, err = strconv.Atoi(value)
	case "every":
		ft.Every, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("unknown setting %q%s", key, nearest.Hint(key, faultSettings))
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not a valid value", key, value)
	}
	return nil
}

var faultSettings = []string{"at", "for", "code", "retry_after", "text", "where", "reset", "bytes", "every", "p", "index"}

func parseAt(s string) (int, error) {
	if s == "headers" {
		return BeforeHeaders, nil
	}
	return strconv.Atoi(s)
}

// maxSpan bounds scripted times, so that sums of them stay within an int64.
const maxSpan = 1000 * time.Hour

// parseDur reads "10ms", "forever", or a bare number of milliseconds.
func parseDur(s string) (time.Duration, error) {
	if s == "forever" {
		return Forever, nil
	}
	if ms, err := strconv.ParseFloat(s, 64); err == nil {
		if !(ms >= 0 && ms <= float64(maxSpan.Milliseconds())) {
			return 0, fmt.Errorf("%q is not a time from 0 to %v", s, maxSpan)
		}
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxSpan {
		return 0, fmt.Errorf("%q is not a time such as 10ms or forever", s)
	}
	return d, nil
}
