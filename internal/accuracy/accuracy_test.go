package accuracy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// childArg makes the test binary a child process of a Lab.
const childArg = "accuracy-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		if err := Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func lab(tb testing.TB) *Lab {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return &Lab{Program: exe, Child: []string{childArg}}
}

// BenchmarkReaders is one level of the accuracy table, both readers.
func BenchmarkReaders(b *testing.B) {
	for _, streams := range []int{1, 10, 100, 500, 1000, 5000} {
		for _, by := range []Reader{Bare, Spate} {
			b.Run(fmt.Sprintf("%d/%s", streams, by), func(b *testing.B) { benchLoad(b, Timetable(streams, 2), by) })
		}
	}
	for _, by := range []Reader{Bare, Spate} {
		b.Run("flood/"+string(by), func(b *testing.B) { benchLoad(b, Flood(), by) })
	}
	b.Run("slow", func(b *testing.B) { benchLoad(b, Slow(10000), Spate) })
	b.Run("paced", func(b *testing.B) { benchLoad(b, Paced(2000, 2*time.Second), Spate) })
}

func benchLoad(b *testing.B, l Load, by Reader) {
	var r Row
	for b.Loop() {
		var err error
		if r, err = lab(b).Measure(b.Context(), l, by); err != nil {
			b.Fatal(err)
		}
		if r.Failed+r.Unjoined > 0 {
			b.Fatalf("%d failed (%s), %d unjoined", r.Failed, r.Error, r.Unjoined)
		}
	}
	b.ReportMetric(r.CPUPerEvent, "cpu-us/event")
	b.ReportMetric(float64(r.RSS)/(1<<20), "rss-MB")
	b.ReportMetric(r.EventRate, "events/s")
	b.ReportMetric(r.PerCore, "events/core-s")
	b.ReportMetric(r.Stamp.Mean*1000, "stamp-us")
	b.ReportMetric(r.Stamp.P99*1000, "stamp-p99-us")
	b.ReportMetric(r.TTFTError*1000, "ttft-us")
	b.ReportMetric(r.TTFTOffTimetable*1000, "ttft-off-us")
	b.ReportMetric(r.ITLError*1000, "itl-p99-us")
	b.ReportMetric(r.ServerLateP99*1000, "server-late-p99-us")
	b.ReportMetric(r.SendLag.P99*1000, "lag-p99-us")
}
