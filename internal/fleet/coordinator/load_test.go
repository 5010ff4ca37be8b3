package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/fleet/broker"
	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
)

func aBroker(tb testing.TB) *link.Join {
	tb.Helper()
	b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: filepath.Join(tb.TempDir(), "store"), Token: "t"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return &link.Join{URL: b.URL(), Token: "t"}
}

func dialed(tb testing.TB, j *link.Join) *link.Link {
	tb.Helper()
	l, err := link.Dial(link.Options{Join: *j})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Close)
	return l
}

// chunked is a record with 100 chunks, 1.3 KB on the wire.
func chunked(id int, worker string) *call.Record {
	r := call.NewRecord(&call.Request{ID: id, Name: fmt.Sprintf("bench-12345678-%d", id), Phase: call.Measure})
	r.Worker, r.Outcome, r.Due, r.Sent = worker, call.OK, time.Duration(id), time.Duration(id)
	r.In, r.Out = call.Count{N: 1024, From: call.FromServer}, call.Count{N: 100, From: call.FromServer}
	for i := range 100 {
		r.Chunks = append(r.Chunks, call.Chunk{At: 3*time.Second + time.Duration(i)*7_123_456, Kind: call.Visible})
	}
	return &r
}

// BenchmarkRecords is how many records of 100 chunks a second a coordinator takes from a real broker into its log and
// its memory, deduplicated, and the most memory it had meanwhile.
func BenchmarkRecords(b *testing.B) {
	const parts = 16
	for b.Loop() {
		b.StopTimer()
		j := aBroker(b)
		l := dialed(b, j)
		ctx := context.Background()
		if err := l.CreateRun(ctx, "r"); err != nil {
			b.Fatal(err)
		}
		const each = 5000
		var names []string
		var wg sync.WaitGroup
		for p := range parts {
			name := fmt.Sprintf("w%d", p)
			names = append(names, name)
			wg.Go(func() {
				out := l.NewOutbox("r", wire.Part(p), "s", false)
				for i := range each {
					_ = out.Record(chunked(i*parts+p, name)) // the outbox is open
				}
				if err := out.Flush(ctx); err != nil {
					b.Error(err)
				}
				_ = out.Close()
			})
		}
		wg.Wait()
		log, err := recorder.Create(filepath.Join(b.TempDir(), "records.jsonl"), recorder.Options{})
		if err != nil {
			b.Fatal(err)
		}
		sink := recorder.Tee(log, recorder.NewSpill(b.TempDir()))
		seen := newSeen()
		var n atomic.Int64
		runtime.GC()
		b.StartTimer()
		from := time.Now()
		in, err := l.OpenInbox(ctx, "r", link.Arrivals{
			Names: names, Done: func(int, *wire.Done) {}, Bad: func(_ int, err error) { b.Error(err) },
			Record: func(_ int, r *call.Record) error {
				n.Add(1)
				if !seen.add(r) {
					return nil
				}
				return sink.Record(r)
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		if err := in.CatchUp(ctx); err != nil {
			b.Fatal(err)
		}
		took := time.Since(from)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		in.Close()
		_ = log.Close()
		b.ReportMetric(float64(n.Load())/took.Seconds(), "records/s")
		b.ReportMetric(float64(m.Sys)/1e6, "MB")
		if n.Load() != parts*each {
			b.Fatalf("%d records of %d", n.Load(), parts*each)
		}
	}
}

// BenchmarkThousandWorkers is the messages of 1,000 workers through a real server: a beat a second each and a pulse to
// all, and how late beats come.
func BenchmarkThousandWorkers(b *testing.B) {
	const workers = 1000
	j := aBroker(b)
	l := dialed(b, j)
	links := make([]*link.Link, workers)
	var pulses atomic.Int64
	for i := range links {
		links[i] = dialed(b, j)
		if _, err := links[i].NC.Subscribe(wire.Pulses("r"), func(*nats.Msg) { pulses.Add(1) }); err != nil {
			b.Fatal(err)
		}
	}
	var beats atomic.Int64
	if _, err := l.NC.Subscribe(wire.Beats("r", "*"), func(m *nats.Msg) {
		var beat wire.Beat
		if wire.Decode(m.Data, &beat) == nil {
			beats.Add(1)
		}
	}); err != nil {
		b.Fatal(err)
	}
	rounds := 0
	for b.Loop() {
		rounds++
		if err := l.Tell(wire.Pulses("r"), &wire.Pulse{}); err != nil {
			b.Fatal(err)
		}
		for i, w := range links {
			if err := w.Tell(wire.Beats("r", wire.Part(i)), &wire.Beat{Worker: "w", Due: 1}); err != nil {
				b.Fatal(err)
			}
		}
		for beats.Load() < int64(rounds*workers) || pulses.Load() < int64(rounds*workers) {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(float64(rounds*workers)/b.Elapsed().Seconds(), "beats/s")
}
