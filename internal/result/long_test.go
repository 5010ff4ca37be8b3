package result

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/rng"
)

// longRun makes the records of a run: n answers of so many chunks, chat's empty first ones and failures among them,
// in about the order in which they end.
func longRun(n, chunks int, keep func(*call.Record)) metrics.Run {
	draw := rng.New(1, "long")
	last := time.Duration(0)
	r := call.Record{Phase: call.Measure, Model: "m", Finish: "length", Status: 200, AskedOut: chunks, Reused: true}
	r.Chunks = make([]call.Chunk, 0, chunks)
	const window = 256 // requests end out of order by this much
	for i := range n {
		at := i ^ (i/7)%window // any order within a window
		if at >= n {
			at = i
		}
		r.ID, r.Name = i, "bench-"+strconv.Itoa(i)
		r.Outcome, r.Fault, r.Err = call.OK, call.NoFault, ""
		sent := time.Duration(at) * 200 * time.Microsecond
		r.Due, r.Dispatched, r.Started, r.Sent = sent, sent+3000, sent+4000, sent+9000
		now := sent + 50*time.Millisecond + time.Duration(draw.ExpFloat64()*1e7)
		r.FirstByte, r.Headers, r.FirstToken, r.FirstText = now-5000, now-4000, now, now
		r.Chunks = r.Chunks[:0]
		for j := range chunks {
			c := call.Chunk{At: now, Kind: call.Visible}
			if j == 0 && i%3 == 0 {
				c.Kind = 0
			}
			r.Chunks = append(r.Chunks, c)
			now += 10*time.Millisecond + time.Duration(draw.NormFloat64()*1e6)
		}
		r.LastToken, r.LastEvent, r.End = now, now+1000, now+2000
		r.In, r.Out = call.Count{N: 128 + i%9, From: call.FromServer}, call.Count{N: chunks + i%2, From: call.FromServer}
		if i%1000 == 999 {
			r.Outcome, r.Fault, r.Err, r.Chunks = call.Failed, call.FaultReset, "connection reset", r.Chunks[:0]
		}
		last = max(last, r.End)
		keep(&r)
	}
	return metrics.Run{End: last, MaxConcurrency: 8000, Tokenizer: true, Percentiles: []float64{50, 99, 99.9}, Objectives: []metrics.Objective{{Metric: "ttft", Bound: 70}}}
}

// TestKeptRunHasTheSameFigures holds that the figures of kept records are those of records in memory.
func TestKeptRunHasTheSameFigures(t *testing.T) {
	var list call.List
	s := recorder.NewSpill(t.TempDir())
	defer func() { _ = s.Close() }()
	run := longRun(2500, 40, func(r *call.Record) {
		one := *r
		one.Chunks = append([]call.Chunk(nil), r.Chunks...)
		list = append(list, one)
		if err := s.Record(r); err != nil {
			t.Fatal(err)
		}
	})
	if diff := cmp.Diff(metrics.SummarizeSet(list, run), metrics.SummarizeSet(s, run)); diff != "" {
		t.Errorf("figures differ (-memory +kept):\n%s", diff)
	}
}

// BenchmarkLongRun keeps the records of a run and computes its figures. SPATE_LONG_RUN is the number of requests,
// SPATE_LONG_CHUNKS that of the chunks of each:
//
//	SPATE_LONG_RUN=10000000 go test -run '^$' -bench LongRun -benchtime 1x -timeout 2h ./internal/result
//
// It says how much memory the process had at most, and how much a request took on disk.
func BenchmarkLongRun(b *testing.B) {
	n, chunks := setting(b, "SPATE_LONG_RUN", 20_000), setting(b, "SPATE_LONG_CHUNKS", 100)
	debug.FreeOSMemory()
	for b.Loop() {
		s := recorder.NewSpill(b.TempDir())
		from := time.Now()
		run := longRun(n, chunks, func(r *call.Record) {
			if err := s.Record(r); err != nil {
				b.Fatal(err)
			}
		})
		kept := time.Since(from)
		b.ReportMetric(float64(s.Size())/float64(n), "B/request")
		b.ReportMetric(kept.Seconds(), "s-to-keep")
		from = time.Now()
		sum := metrics.SummarizeSet(s, run)
		b.ReportMetric(time.Since(from).Seconds(), "s-to-compute")
		if sum.Tally.Attempts != n || s.Err() != nil {
			b.Fatalf("%d of %d requests: %v", sum.Tally.Attempts, n, s.Err())
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(peakMemory(b))/(1<<20), "MiB-peak")
}

// setting is a number from the environment.
func setting(b *testing.B, name string, usual int) int {
	text, ok := os.LookupEnv(name)
	if !ok {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s=%q: want a number", name, text)
	}
	return n
}

// peakMemory is the most memory that the process had, as the system counts it; without that, what Go took.
func peakMemory(b *testing.B) uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kb, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					b.Fatal(err)
				}
				return kb << 10
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}
