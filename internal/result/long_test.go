package result

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
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

// BenchmarkLongRun does what a run does with its records: each goes to the log of a run folder and is kept for the figures;
// then the figures are computed and the result is written. SPATE_LONG_RUN is the number of requests, SPATE_LONG_CHUNKS that
// of the chunks of each, SPATE_LONG_DIR a folder that keeps the run's folder, for what reads it:
//
//	SPATE_LONG_RUN=10000000 go test -run '^$' -bench LongRun -benchtime 1x -timeout 3h ./internal/result
//
// It says how much memory the process had at most, and how much a request took on disk.
func BenchmarkLongRun(b *testing.B) {
	n, chunks := setting(b, "SPATE_LONG_RUN", 20_000), setting(b, "SPATE_LONG_CHUNKS", 100)
	root := os.Getenv("SPATE_LONG_DIR")
	if root == "" {
		root = b.TempDir()
	}
	debug.FreeOSMemory()
	for b.Loop() {
		run := &Run{Started: time.Now(), Tool: "spate long run"}
		folder, err := Create(run, Options{Root: root})
		if err != nil {
			b.Fatal(err)
		}
		kept := recorder.NewSpill(folder.Dir)
		sink := recorder.Tee(kept, folder.Log)
		usual := debug.SetGCPercent(400) // as a run has it while requests go
		from := time.Now()
		plan := longRun(n, chunks, func(r *call.Record) {
			one := *r // a record belongs to who got it
			one.Chunks = slices.Clone(r.Chunks)
			if err := sink.Record(&one); err != nil {
				b.Fatal(err)
			}
		})
		b.ReportMetric(float64(kept.Size())/float64(n), "B-packed/request")
		debug.SetGCPercent(usual)
		b.ReportMetric(time.Since(from).Seconds(), "s-to-keep")
		b.ReportMetric(float64(peakMemory(b))/(1<<20), "MiB-peak-to-keep")
		from = time.Now()
		run.State, run.Ended = Complete, run.Started.Add(plan.End)
		run.Plan = NewPlan(plan, "a long run")
		run.Plan.End = LastEnd(kept, run.Plan.Start)
		run.Compute(kept)
		run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary})
		b.ReportMetric(time.Since(from).Seconds(), "s-to-compute")
		if err := errors.Join(kept.Err(), folder.Finish(run), kept.Close()); err != nil {
			b.Fatal(err)
		}
		if run.Tally.Attempts != n || run.Records.Written != int64(n) {
			b.Fatalf("%d requests: %+v, %+v", n, run.Tally, run.Records)
		}
		info, err := os.Stat(filepath.Join(folder.Dir, RecordsFile))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/float64(n), "B-log/request")
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
