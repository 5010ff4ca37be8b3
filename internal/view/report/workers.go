package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spate/internal/call"
	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// workerHeads name the columns: fates, how late its requests left (p99), how late it began, how well its clock is known,
// what it used of its CPU and what others took, and its p99 TTFT. Times are in milliseconds.
var workerHeads = []string{"ok", "not ok", "lost", "lag", "began+", "clock+-", "CPU", "steal", "TTFT"}

// shownWorkers is how many workers a table has; the result has all.
const shownWorkers = 16

func workerCells(w *result.Worker) []string {
	cells := []string{strconv.Itoa(w.Tally.OK), strconv.Itoa(w.NotOK()), strconv.Itoa(w.Lost), "", figure.Rounded(call.Millis(w.Skew)), "", "", "", ""}
	if lag, ok := w.Lag(); ok {
		cells[3] = figure.Rounded(lag)
	}
	if w.Clock != nil {
		cells[5] = figure.Rounded(call.Millis(w.Clock.Uncertainty))
	}
	if w.Self != nil {
		cells[6], cells[7] = percent(w.Self.CPUShare), percent(w.Self.StealShare)
	}
	if w.TTFT.N > 0 {
		cells[8] = figure.Rounded(w.TTFT.P(99))
	}
	return cells
}

// workers shows who sent the load, and how each fared.
func workers(s *sheet, run *result.Run) {
	rows := run.WorkerRows()
	if rows == nil {
		return
	}
	const most = 18
	line := func(name string, cells []string, state string) {
		text := fmt.Sprintf("%-*s", most, escape.Clip(name, most))
		for _, c := range cells {
			text += fmt.Sprintf(" %7s", c)
		}
		s.WriteString(strings.TrimRight(text+"  "+state, " ") + "\n")
	}
	s.WriteByte('\n')
	line("Workers (ms, p99)", workerHeads, "")
	shown, left := worstWorkers(rows[:len(rows)-1])
	for i := range shown {
		state := string(shown[i].State)
		if shown[i].State == result.WorkerFinished {
			state = ""
		}
		line("  "+shown[i].Name, workerCells(&shown[i]), state)
	}
	if left > 0 {
		s.hang("  ", fmt.Sprintf("%d more workers, none of them lost or later than these, are in result.json.", left))
	}
	line("  all", workerCells(&rows[len(rows)-1]), "")
}

// worstWorkers are as many workers as are shown, in their own order: those that are lost or late before others.
func worstWorkers(all []result.Worker) (shown []result.Worker, left int) {
	if len(all) <= shownWorkers {
		return all, 0
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	weight := func(i int) float64 {
		lag, _ := all[i].Lag()
		if all[i].State == result.WorkerLost {
			lag += 1e12
		}
		return lag
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := weight(a), weight(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	order = order[:shownWorkers]
	slices.Sort(order)
	for _, i := range order {
		shown = append(shown, all[i])
	}
	return shown, len(all) - shownWorkers
}
