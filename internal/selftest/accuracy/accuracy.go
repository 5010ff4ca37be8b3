// Package accuracy measures how true spate's own stamps are on the machine it runs on. It starts the
// timetable server of sim/serve and a reader as two child processes, lets the reader take streams
// whose every token was written at a known time, and joins what the reader saw with what the server
// did. One reader is the client of `spate bench`; the other is a bare one that stamps reads and
// parses nothing, which is the limit any client on this machine has.
//
// `spate calibrate-client` runs it for users, and with --full for docs/performance.md. Read this file
// first, then join.go (the arithmetic), process.go (who runs where) and bare_linux.go (the limit).
package accuracy

import (
	"context"
	"fmt"
	"time"

	"spate/internal/sim/serve"
)

// Reader is who reads the streams.
type Reader string

// The readers.
const (
	Spate Reader = "spate" // the client and driver of spate bench
	Bare  Reader = "bare"  // raw connections: stamps each read, counts events by a byte search
)

// Load is what the server answers and how it is asked.
type Load struct {
	Streams  int           `json:"streams"`  // under way at a time
	Requests int           `json:"requests"` // in all
	Tokens   int           `json:"tokens"`   // of each answer, one event each
	TTFT     time.Duration `json:"ttft_ns"`
	ITL      time.Duration `json:"itl_ns"`
	Spread   time.Duration `json:"ttft_spread_ns"` // takes streams out of step; 0 leaves them as they arrive
	Flood    bool          `json:"flood"`          // answers as fast as the sockets take them, times unknown
	Rate     float64       `json:"rate"`           // requests per second by a Poisson schedule; 0 is a closed loop
}

// Timetable is the load of one level of the accuracy table: answers of 100 tokens, the first after
// 50 ms and the rest 10 ms apart, rounds of them on each stream. Streams are not spread: their
// requests leave one after the other, and what lockstep remains is what a serving engine, which
// writes the tokens of one step to all its streams at once, shows a client too.
func Timetable(streams, rounds int) Load {
	return Load{
		Streams: streams, Requests: streams * rounds, Tokens: 100,
		TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond,
	}
}

// Flood is a load without a timetable: four million events, so that what a process costs once weighs
// little.
func Flood() Load {
	return Load{Streams: 16, Requests: 1920, Tokens: 2000, Flood: true}
}

// Slow is many streams that say little: what a stream costs in memory.
func Slow(streams int) Load {
	return Load{Streams: streams, Requests: streams, Tokens: 5, TTFT: time.Second, ITL: time.Second, Spread: time.Second}
}

// Paced is an open loop of short answers.
func Paced(rate float64, d time.Duration) Load {
	n := int(rate * d.Seconds())
	return Load{Requests: n, Tokens: 2, TTFT: 5 * time.Millisecond, ITL: 5 * time.Millisecond, Rate: rate}
}

// check finds loads that cannot be made.
func (l *Load) check() error {
	switch {
	case l.Requests < 1 || l.Tokens < 1:
		return fmt.Errorf("a load of %d requests of %d tokens is empty", l.Requests, l.Tokens)
	case l.Streams < 1 && l.Rate <= 0:
		return fmt.Errorf("a load needs streams or a rate, got %d and %g", l.Streams, l.Rate)
	}
	return nil
}

// eventsEach is how many events one answer has: its tokens, the usage message and the end marker.
func (l *Load) eventsEach() int { return l.Tokens + 2 }

// server is the configuration that gives the load.
func (l *Load) server() serve.Config {
	cfg := serve.Config{
		Models: []string{model}, Truth: !l.Flood,
		Timetable: serve.TimetableConfig{TTFT: l.TTFT, ITL: l.ITL, TTFTSpread: l.Spread},
	}
	if l.Flood {
		cfg.Script = &serve.Script{Rules: []serve.Rule{{Probability: 1, Faults: []serve.Fault{{Kind: serve.FaultFlood}}}}}
	}
	return cfg
}

// model is what both sides call the model.
const model = "spate-sim"

// prompt is what every request asks. Its length does not matter here: it is written at once.
const prompt = "Tell me how a clock that is read late can still be trusted, and how one finds out that it cannot."

// Measure runs one load with one reader, each in a process of its own, and says how true the
// reader's figures were.
func (l *Lab) Measure(ctx context.Context, load Load, by Reader) (Row, error) {
	if err := load.check(); err != nil {
		return Row{}, err
	}
	srv, err := l.start(ctx, order{Role: roleServer, Load: load})
	if err != nil {
		return Row{}, err
	}
	defer srv.kill()
	var hello listening
	if err := srv.receive(&hello); err != nil {
		return Row{}, err
	}
	rd, err := l.start(ctx, order{Role: role(by), Load: load, Addr: hello.Addr})
	if err != nil {
		return Row{}, err
	}
	defer rd.kill()
	var saw readerReport
	if err := rd.finish(&saw); err != nil {
		return Row{}, err
	}
	var did serverReport
	if err := srv.finish(&did); err != nil {
		return Row{}, err
	}
	return newRow(load, by, &saw, &did), nil
}
