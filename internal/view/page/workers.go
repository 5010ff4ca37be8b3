package page

import (
	"spate/internal/call"
	"spate/internal/result"
)

// workers is the table of those that sent the load together, with a row for all; nil for a run of one process.
func workers(r *result.Run) *grid {
	rows := r.WorkerRows()
	if rows == nil {
		return nil
	}
	g := &grid{Label: "Workers", Class: "wide sort", Head: []head{{Text: "Worker"}, {Text: "Host"}, {Text: "State"}}}
	for _, h := range []string{
		"cores", "ok", "not ok", "lost", "send lag P99, ms", "began late, ms", "clock known to, ms", "clock offset, ms", "drift, ppm", "CPU", "steal", "longest gap, ms",
		"stamp lag P99, ms", "TTFT P50, ms", "TTFT P99, ms",
	} {
		g.Head = append(g.Head, head{Text: h, Class: "n"})
	}
	for i := range rows {
		w := &rows[i]
		row := []cell{{Text: w.Name}, {Text: w.Host}, {Text: string(w.State)}}
		g.Rows = append(g.Rows, append(row, workerFigures(w)...))
	}
	g.Note = "Each row has its own requests. Lags are those of the worker's process; how late it began and how well its clock is known say how far all acted at one time."
	return g
}

func workerFigures(w *result.Worker) []cell {
	blank := func(n int) []cell {
		out := make([]cell, n)
		for i := range out {
			out[i].Class = "n"
		}
		return out
	}
	out := []cell{num(float64(w.Cores), 0), num(float64(w.Tally.OK), 0), num(float64(w.NotOK()), 0), num(float64(w.Lost), 0)}
	if lag, ok := w.Lag(); ok {
		out = append(out, num(lag, 2))
	} else {
		out = append(out, blank(1)...)
	}
	out = append(out, num(call.Millis(w.Skew), 3))
	if c := w.Clock; c != nil {
		out = append(out, num(call.Millis(c.Uncertainty), 3), num(call.Millis(c.Offset), 3), num(c.DriftPPM, 2))
	} else {
		out = append(out, blank(3)...)
	}
	if s := w.Self; s != nil {
		out = append(out, withUnit(s.CPUShare, "share"), withUnit(s.StealShare, "share"), num(call.Millis(s.Gap), 0), num(call.Millis(s.StampLagP99), 2))
	} else {
		out = append(out, blank(4)...)
	}
	if w.TTFT.N > 0 {
		return append(out, num(w.TTFT.P(50), 2), num(w.TTFT.P(99), 2))
	}
	return append(out, blank(2)...)
}
