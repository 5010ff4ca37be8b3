package accuracy

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Markdown writes the tables of docs/performance.md.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	h := &r.Host
	fmt.Fprintf(&b, "%d cores (%s), %s %s, %s; medians of %d runs, [lowest .. highest] where two numbers follow.\n",
		h.Cores, h.CPU, h.OS, h.Kernel, h.Go, r.Repeat)
	if busy := r.busy(); busy != "" {
		fmt.Fprintf(&b, "\n**Not for the record:** %s\n", busy)
	}
	r.accuracyTable(&b)
	r.costTable(&b)
	r.otherTables(&b)
	r.goalTable(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	return nil
}

// span is the median of a figure over runs, with its range.
func span(rows []Row, format string, figure func(*Row) float64) string {
	if len(rows) == 0 {
		return "-"
	}
	xs := each(rows, figure)
	s := fmt.Sprintf(format, mid(rows, figure))
	if len(xs) > 1 {
		s += fmt.Sprintf(" ["+format+" .. "+format+"]", slices.Min(xs), slices.Max(xs))
	}
	return s
}

func header(b *strings.Builder, title string, columns ...string) {
	fmt.Fprintf(b, "\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

// readers calls f for each reader of a level, the limit first.
func (lv *Level) readers(f func(by string, rows []Row)) {
	if len(lv.Bare) > 0 {
		f("bare", lv.Bare)
	}
	f("spate", lv.Spate)
}

func (r *Report) accuracyTable(b *strings.Builder) {
	header(b, "Accuracy (ms)", "streams", "reader", "stamp error mean", "p50", "p99", "max", "mean TTFT, reported - true",
		"reported - 50 ms", "first stamp - write", "p99 ITL, reported - true", "true p99 ITL")
	for i := range r.Levels {
		lv := &r.Levels[i]
		lv.readers(func(by string, rows []Row) {
			row(b, thousands(lv.Load.Streams), by,
				span(rows, "%.2f", func(r *Row) float64 { return r.Stamp.Mean }),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.Stamp.P50 })),
				span(rows, "%.2f", func(r *Row) float64 { return r.Stamp.P99 }),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.Stamp.Max })),
				span(rows, "%.2f", func(r *Row) float64 { return r.TTFTError }),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.TTFTOffTimetable })),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.TTFTStamp })),
				span(rows, "%.2f", func(r *Row) float64 { return r.ITLError }),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.ITLTrue })))
		})
	}
}

func (r *Report) costTable(b *strings.Builder) {
	header(b, "Cost", "streams", "reader", "CPU ms per 1,000 events", "cores used", "events/s", "peak RSS MB",
		"server lateness p99 ms", "server CPU ms per 1,000 events")
	for i := range r.Levels {
		lv := &r.Levels[i]
		lv.readers(func(by string, rows []Row) {
			row(b, thousands(lv.Load.Streams), by,
				span(rows, "%.2f", func(r *Row) float64 { return r.CPUPerEvent }),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.CPUCores })),
				fmt.Sprintf("%.0f", mid(rows, func(r *Row) float64 { return r.EventRate })),
				fmt.Sprintf("%.0f", mid(rows, func(r *Row) float64 { return float64(r.RSS) / 1e6 })),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.ServerLateP99 })),
				fmt.Sprintf("%.2f", mid(rows, func(r *Row) float64 { return r.ServerCPUPerEv })))
		})
	}
}

// otherTables are everything that is not a level.
func (r *Report) otherTables(b *strings.Builder) {
	if r.Flood != nil {
		header(b, "Streams written as fast as the sockets take them", "reader", "events per core-second", "us of CPU per event", "events/s")
		r.Flood.readers(func(by string, rows []Row) {
			row(b, by,
				span(rows, "%.0f", func(r *Row) float64 { return r.PerCore }),
				fmt.Sprintf("%.3f", mid(rows, func(r *Row) float64 { return r.CPUPerEvent })),
				fmt.Sprintf("%.0f", mid(rows, func(r *Row) float64 { return r.EventRate })))
		})
	}
	if r.Slow == nil || r.Paced == nil {
		return
	}
	header(b, "Other figures", "what", "figure")
	row(b, "peak RSS with 10,000 slow streams", span(r.Slow.Spate, "%.0f MB", func(r *Row) float64 { return float64(r.RSS) / 1e6 }))
	row(b, "stamp error p99 with 10,000 slow streams", span(r.Slow.Spate, "%.2f ms", func(r *Row) float64 { return r.Stamp.P99 }))
	row(b, "send lag at 2,000 requests/s, p50", span(r.Paced.Spate, "%.3f ms", func(r *Row) float64 { return r.SendLag.P50 }))
	row(b, "send lag at 2,000 requests/s, p99", span(r.Paced.Spate, "%.3f ms", func(r *Row) float64 { return r.SendLag.P99 }))
	for _, s := range r.Startup {
		row(b, "`spate "+strings.Join(s.Args, " ")+"`, median of 20 (slowest)", fmt.Sprintf("%.0f ms (%.0f ms)", s.Median, s.Max))
	}
	for _, t := range r.Text {
		row(b, t.What, fmt.Sprintf("%.0f MB/s, %.1f M tokens/s", t.Speed, t.Tokens/1e6))
	}
}

func (r *Report) goalTable(b *strings.Builder) {
	if len(r.Goals) == 0 {
		return
	}
	header(b, "Goals", "goal", "wanted", "median [lowest .. highest]", "")
	for _, g := range r.Goals {
		verdict := "FAIL"
		if g.Met {
			verdict = "PASS"
		}
		got := fmt.Sprintf("%.2f %s", g.Got, g.Unit)
		if g.Low != g.High {
			got += fmt.Sprintf(" [%.2f .. %.2f]", g.Low, g.High)
		}
		row(b, g.What, g.Want, got, verdict)
	}
}
