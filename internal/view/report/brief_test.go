package report

import (
	"fmt"
	"strings"
	"testing"

	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// screenLines is how many lines a terminal shows.
const screenLines = 30

// worstRun has as much to say as there can be: every check broken, many kinds of failures, objectives, notes, files.
func worstRun() *result.Run {
	run := badRun()
	for i := range run.Verdict.Findings {
		f := &run.Verdict.Findings[i]
		f.Level, f.Measured, f.Hint = verdict.Suspect, true, strings.Repeat("do something about it ", 8)
	}
	for i := range 9 {
		run.Summary.Failures.Kinds = append(run.Summary.Failures.Kinds, metrics.FailureKind{Kind: "http_status", Count: i + 1, Example: strings.Repeat("words ", 99)})
		run.Notes = append(run.Notes, fmt.Sprintf("note %d", i))
	}
	run.Summary.Goodput = &metrics.Goodput{Good: 3, Share: 0.15, Objectives: []metrics.Attainment{{Metric: "ttft"}}}
	run.Verdict.Grade = verdict.SuspectRun
	run.Files = []string{"results/a.json"}
	return run
}

// TestBriefFitsAScreen: what stands below the block fits a screen, whatever happened.
func TestBriefFitsAScreen(t *testing.T) {
	for _, c := range append(findingCases, struct {
		name string
		run  func() *result.Run
	}{"worst", worstRun}) {
		t.Run(c.name, func(t *testing.T) {
			run := c.run()
			var b strings.Builder
			if err := Brief(&b, run); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "\n"); n > screenLines {
				t.Errorf("%d lines:\n%s", n, b.String())
			}
			words := strings.Join(strings.Fields(b.String()), " ")
			for i, f := range run.Verdict.Bad() {
				if !strings.Contains(words, f.Name) || i == 0 && !strings.Contains(words, strings.TrimSpace(f.Hint)) {
					t.Errorf("%s or its hint is not there whole:\n%s", f.Name, b.String())
				}
			}
			golden(t, "brief-"+c.name+".txt", b.String())
		})
	}
}
