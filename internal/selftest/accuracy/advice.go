package accuracy

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Bounds are how wrong a figure may be and still be trusted.
type Bounds struct {
	TTFT time.Duration // mean TTFT, reported against true
	ITL  time.Duration // p99 ITL, likewise
}

// DefaultBounds are a tenth of the timetable's own figures, which is where the verdict of a run
// begins to call a lag too long.
func DefaultBounds() Bounds { return Bounds{TTFT: 5 * time.Millisecond, ITL: time.Millisecond} }

func (b Bounds) hold(lv *Level) bool {
	ttft := mid(lv.Spate, func(r *Row) float64 { return r.TTFTError })
	itl := mid(lv.Spate, func(r *Row) float64 { return r.ITLError })
	return math.Abs(ttft) <= ms(int64(b.TTFT)) && math.Abs(itl) <= ms(int64(b.ITL))
}

// Trusted is the highest level up to which every level is within the bounds; 0 when the first is not.
func (r *Report) Trusted(b Bounds) int {
	best := 0
	for i := range r.Levels {
		if !b.hold(&r.Levels[i]) {
			break
		}
		best = r.Levels[i].Load.Streams
	}
	return best
}

// Advice writes the report for people: one line per level, then up to where to trust.
func (r *Report) Advice(w io.Writer, b Bounds) error {
	var s strings.Builder
	s.WriteString("How far this host's figures can be trusted, against a server that writes the first token after 50 ms\n" +
		"and the next ones 10 ms apart, and knows when it really did:\n\n")
	for i := range r.Levels {
		r.Levels[i].advise(&s, r.Host.CPUs())
	}
	s.WriteString("\n" + r.recommend(b) + "\n")
	if busy := r.busy(); busy != "" {
		s.WriteString("Note: " + busy + "\n")
	}
	if _, err := io.WriteString(w, s.String()); err != nil {
		return fmt.Errorf("write the calibration: %w", err)
	}
	return nil
}

// advise writes a level's line.
func (lv *Level) advise(s *strings.Builder, cpus float64) {
	f := func(figure func(*Row) float64) float64 { return mid(lv.Spate, figure) }
	at := "at " + count(lv.Load.Streams, "stream")
	fmt.Fprintf(s, "%16s: TTFT is reported %s on average, p99 ITL %s\n", at,
		off(f(func(r *Row) float64 { return r.TTFTError })), off(f(func(r *Row) float64 { return r.ITLError })))
	fmt.Fprintf(s, "%16s  (stamps late by %.2f ms on average, %.2f ms at p99; client CPU %.0f %% of %g cores; %s events/s",
		"", f(func(r *Row) float64 { return r.Stamp.Mean }), f(func(r *Row) float64 { return r.Stamp.P99 }),
		100*f(func(r *Row) float64 { return r.CPUCores })/cpus, cpus, thousands(int(f(func(r *Row) float64 { return r.EventRate }))))
	if late := f(func(r *Row) float64 { return r.ServerLateP99 }); late > ms(int64(lv.Load.ITL)) {
		fmt.Fprintf(s, ";\n%16s   the server, on the same cores, fell %.0f ms behind its timetable", "", late)
	}
	s.WriteString(")\n")
}

// busy says that the machine had other work before the first run, or nothing.
func (r *Report) busy() string {
	if load := r.Host.Load[0]; load > r.Host.CPUs()/2 {
		return fmt.Sprintf("the machine was not quiet: its load average was %.1f before the first run, so these figures are worse than the client.", load)
	}
	return ""
}

// off says by how much a figure is wrong.
func off(ms float64) string {
	if ms < 0 {
		return fmt.Sprintf("%.2f ms too low", -ms)
	}
	return fmt.Sprintf("%.2f ms too high", ms)
}

// recommend is what to do with it.
func (r *Report) recommend(b Bounds) string {
	limits := fmt.Sprintf("mean TTFT within %v and p99 ITL within %v of the true times", b.TTFT, b.ITL)
	best := r.Trusted(b)
	switch {
	case len(r.Levels) == 0:
		return "Nothing was measured."
	case best == 0:
		return "Do not trust this host: not even at " + count(r.Levels[0].Load.Streams, "stream") + " is " + limits +
			".\nIs something else using its cores? Calibrate again when it is quiet, or measure from another host."
	case best == r.Levels[len(r.Levels)-1].Load.Streams:
		return "Trust results from this host up to at least " + count(best, "concurrent stream") + ": " + limits +
			".\nHere the server shared the client's cores; against a server elsewhere the client does better still."
	}
	return "Trust results from this host up to " + count(best, "concurrent stream") + ": " + limits +
		".\nHere the server shared the client's cores, so this is the cautious figure; above it, spread the load over several hosts or give the client more cores."
}
