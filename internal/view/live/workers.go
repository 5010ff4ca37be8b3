package live

import (
	"fmt"
	"slices"
	"strings"
)

// Worker is one of several processes that send the load, as it stands.
type Worker struct {
	Name, State               string // state: preparing, ready, sending, done, lost ...
	Due, Sent, Done, InFlight int
}

// Lost is the state of a worker that is not heard of any more.
const Lost = "lost"

// shownWorkers is how many of them have a line of their own; beyond it, those in the most frequent state are summed up.
const shownWorkers = 8

// workerCells are a line for each worker, lost ones first where there are too many for all, and one for the others.
func workerCells(s Snapshot) []cell {
	shown := s.Workers
	if len(shown) > shownWorkers {
		shown = slices.Clone(shown)
		slices.SortStableFunc(shown, func(a, b Worker) int { return rank(a) - rank(b) })
		shown = shown[:shownWorkers]
	}
	out := make([]cell, 0, len(shown)+1)
	for _, w := range shown {
		color := plain
		if w.State == Lost {
			color = red
		}
		out = append(out, cell{fmt.Sprintf("  %-16s %-9s %d due, %d done, %d in flight", w.Name, w.State, w.Due, w.Done, w.InFlight), color})
	}
	if len(s.Workers) > len(shown) {
		out = append(out, cell{fmt.Sprintf("  and %d more; %s", len(s.Workers)-len(shown), workersText(s.Workers)), plain})
	}
	return out
}

func rank(w Worker) int {
	if w.State == Lost {
		return 0
	}
	return 1
}

// workersText counts workers by their state, in the order in which the states first come.
func workersText(all []Worker) string {
	var states []string
	count := map[string]int{}
	for _, w := range all {
		if count[w.State]++; count[w.State] == 1 {
			states = append(states, w.State)
		}
	}
	for i, st := range states {
		states[i] = fmt.Sprintf("%d %s", count[st], st)
	}
	return "workers: " + strings.Join(states, ", ")
}
