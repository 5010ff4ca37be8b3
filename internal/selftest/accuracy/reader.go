package accuracy

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/host/probe"
	"spate/internal/load/schedule"
	"spate/internal/send/client"
	"spate/internal/send/driver"
	"spate/internal/send/protocol"
	"spate/internal/sim/serve"
)

// openFiles makes room for that many connections.
func openFiles(streams int) error {
	_, err := probe.RaiseNoFile(uint64(streams + 256))
	return err
}

// questions is the source of the load's requests.
type questions struct{ n, next, tokens int }

// Next makes one request; they differ in their names only.
func (q *questions) Next(context.Context) (call.Request, error) {
	if q.next >= q.n {
		return call.Request{}, io.EOF
	}
	id := q.next
	q.next++
	return call.Request{
		ID: id, Name: name(id), Phase: call.Measure, Prompt: call.Prompt{Text: prompt},
		In: call.Count{N: 20, From: call.FromRequested}, MaxOut: q.tokens,
	}, nil
}

func name(id int) string { return "r" + strconv.Itoa(id) }

// plan is when the load's requests are due.
func (l *Load) plan() (schedule.Plan, error) {
	if l.Rate > 0 {
		return schedule.VLLM(l.Requests, l.Rate, 1, 1)
	}
	return schedule.Closed(l.Streams, l.Requests)
}

// newClient is the client as spate bench configures it.
func newClient(o *order, clock call.Clock) (*client.Client, error) {
	b, err := protocol.Lookup("vllm")
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		Backend: b, BaseURLs: []string{"http://" + o.Addr}, Endpoint: protocol.Find("vllm").Path, MaxConns: o.Load.Streams,
		Body: protocol.Body{Model: model, IgnoreEOS: true}, Clock: clock,
	})
}

// readSpate runs the load through spate's own client and driver.
func readSpate(ctx context.Context, o *order) (readerReport, error) {
	restore := driver.Tune()
	defer restore()
	if err := openFiles(o.Load.Streams); err != nil {
		return readerReport{}, err
	}
	clock := call.NewClock()
	base := zeroOf(clock)
	c, err := newClient(o, clock)
	if err != nil {
		return readerReport{}, err
	}
	defer c.Close()
	plan, err := o.Load.plan()
	if err != nil {
		return readerReport{}, err
	}
	if err := c.Warm(ctx, max(16, o.Load.Streams)); err != nil {
		return readerReport{}, fmt.Errorf("open connections: %w", err)
	}
	kept := recorder.NewMemory(o.Load.Requests)
	watch := probe.StartSelf()
	cpu, begun := cpuTime(), clock.Now()
	_, err = driver.Run(ctx, driver.Config{
		Plan: plan, Source: &questions{n: o.Load.Requests, tokens: o.Load.Tokens}, Doer: c, Sink: kept, Clock: clock,
		Grace: -1, Ahead: min(o.Load.Requests, 4096),
	})
	rep := readerReport{Wall: clock.Now() - begun, CPU: cpuTime() - cpu, RSS: peakRSS()}
	watch.Stop()
	if err != nil {
		return rep, fmt.Errorf("run the load: %w", err)
	}
	rep.take(kept.Records(), base, o.Load.Flood)
	return rep, nil
}

// zeroOf is the host's monotonic time at the clock's zero, from the two readings closest together.
func zeroOf(clock call.Clock) int64 {
	var zero int64
	best := time.Duration(1<<63 - 1)
	for range 64 {
		before := clock.Now()
		mono := serve.Mono()
		gap := clock.Now() - before
		if gap < best {
			best, zero = gap, mono-int64(before)-int64(gap/2)
		}
	}
	return zero
}

// take turns records into what the join reads.
func (r *readerReport) take(recs []call.Record, base int64, flood bool) {
	for i := range recs {
		rec := &recs[i]
		if rec.Outcome != call.OK {
			if r.Failed++; r.Failed == 1 {
				r.Error = fmt.Sprintf("%s: %s", rec.Fault, rec.Err)
			}
			continue
		}
		r.Events += len(rec.Chunks) + 2 // and usage and the end marker, without which it would not be OK
		if flood {
			continue
		}
		s := Seen{ID: rec.Name, Due: base + int64(rec.Due), Sent: base + int64(rec.Sent), At: make([]int64, len(rec.Chunks))}
		for k, ch := range rec.Chunks {
			s.At[k] = base + int64(ch.At)
		}
		r.Seen = append(r.Seen, s)
	}
}
