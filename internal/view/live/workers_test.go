package live

import (
	"fmt"
	"strings"
	"testing"
)

// TestWorkersShown: a line for each worker, lost ones always, and one for those that are too many.
func TestWorkersShown(t *testing.T) {
	s := Snapshot{Phase: "measuring", Left: -1}
	for i := range 3 {
		s.Workers = append(s.Workers, Worker{Name: fmt.Sprint("w", i), State: "sending", Due: 10, Done: 7, InFlight: 3})
	}
	text := strings.Join(Render(s, 80, false), "\n")
	if strings.Count(text, "10 due, 7 done, 3 in flight") != 3 || strings.Contains(text, "more") {
		t.Error(text)
	}
	for i := 3; i < 64; i++ {
		s.Workers = append(s.Workers, Worker{Name: fmt.Sprint("w", i), State: "sending"})
	}
	s.Workers[63].State = Lost
	lines := Render(s, 80, false)
	text = strings.Join(lines, "\n")
	if !strings.Contains(text, "w63              lost") || !strings.Contains(text, "and 56 more; workers: 63 sending, 1 lost") || len(lines) != 3+shownWorkers+1 {
		t.Error(text)
	}
	if line := Line(s); !strings.Contains(line, "workers: 63 sending, 1 lost") {
		t.Error(line)
	}
	if text := Line(Snapshot{Left: -1}); strings.Contains(text, "worker") {
		t.Error(text)
	}
}
