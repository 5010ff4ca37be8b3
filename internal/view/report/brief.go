package report

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// What a screen has room for below the block.
const (
	briefChecks   = 2
	briefFailures = 2
)

// dueGap is the share by which a latency from the due time has to differ from that from sending to be worth a line.
const dueGap = 0.05

// Brief prints what is worth knowing on one screen: whether the figures can be trusted and why not, what limited the
// run, latencies, what failed, and where the rest is. Findings prints the rest.
func Brief(w io.Writer, run *result.Run) error {
	s := new(sheet)
	s.WriteByte('\n')
	briefJudgement(s, run)
	tenants(s, run)
	workers(s, run)
	switch {
	case run.Verdict.Grade == verdict.InvalidRun, run.State == result.Interrupted, run.State == result.Aborted:
		// then little is known of the server
	case len(run.Verdict.Bad()) > 0:
		limits(s, run, 1)
	default:
		limits(s, run, 2)
	}
	briefLatency(s, &run.Summary)
	briefFates(s, &run.Summary)
	briefFiles(s, run)
	_, err := io.WriteString(w, s.String())
	return err
}

// briefJudgement is the verdict with the first checks that did not pass, a line each, the names of the others, and what
// to do about the first.
func briefJudgement(s *sheet, run *result.Run) {
	grade(s, run)
	bad := run.Verdict.Bad()
	if len(bad) == 0 {
		return
	}
	s.section("Checks not passed", "figure", "bound")
	shown := min(len(bad), briefChecks)
	for _, f := range bad[:shown] {
		checkRow(s, f)
	}
	if rest := bad[shown:]; len(rest) > 0 {
		names := make([]string, len(rest))
		for i, f := range rest {
			names[i] = f.Name
		}
		s.hang("  and: ", strings.Join(names, ", "))
	}
	if bad[0].Hint != "" {
		s.hang("  hint: ", bad[0].Hint)
	}
}

// briefLatency has one line for each of vLLM's latencies. Latency from the due time has one where it differs.
func briefLatency(s *sheet, m *metrics.Summary) {
	if m.Completed == 0 {
		return
	}
	c := &m.Clocks
	late := func(sent, due *metrics.Dist) bool { return math.Abs(due.Mean-sent.Mean) > dueGap*sent.Mean }
	s.section("Latency (ms)", latencyHeads...)
	if m.Pooling == nil {
		s.dist("TTFT", &m.TTFT)
		if late(&m.TTFT, &c.TTFTDue) {
			s.dist("TTFT, from due time", &c.TTFTDue)
		}
		s.dist("TPOT", &m.TPOT)
		s.dist("ITL", &m.ITL)
	}
	s.dist("E2EL", &m.E2EL)
	if m.Pooling != nil && late(&m.E2EL, &c.E2ELDue) {
		s.dist("E2EL, from due time", &c.E2ELDue)
	}
	if words := s.signs(); len(words) > 0 {
		s.hang("  ", strings.Join(words, "; "))
	}
}

// briefFates says what became of requests that did not succeed, and how many kept the objectives.
func briefFates(s *sheet, m *metrics.Summary) {
	if g := m.Goodput; g != nil && len(g.Objectives) > 0 {
		s.fact("within --goodput", fmt.Sprintf("%d of %d requests, %s", g.Good, m.Tally.Due, percent(g.Share)))
	}
	kinds := m.Failures.Kinds
	due := m.Tally.Due - m.Failures.Undone()
	if m.Tally.OK == due || len(kinds) == 0 {
		return
	}
	s.section(fmt.Sprintf("Not answered: %d of %d", due-m.Tally.OK, due), "requests")
	for _, k := range kinds[:min(len(kinds), briefFailures)] {
		if len(k.Example) < maxColumns/2 {
			s.row(k.Name(), strconv.Itoa(k.Count), " "+harmless(k.Example))
			continue
		}
		s.row(k.Name(), strconv.Itoa(k.Count))
		s.hang("    ", escape.Clip(harmless(k.Example), 2*maxColumns))
	}
}

// Objectives prints each condition of --slo with its figure and whether it is met.
func Objectives(w io.Writer, run *result.Run, slos []figure.Objective) error {
	if len(slos) == 0 {
		return nil
	}
	s := new(sheet)
	s.section("Objectives (--slo)", "figure")
	for _, o := range slos {
		v := o.Of(&run.Summary)
		figure, word := figure.Rounded(v), "met"
		if math.IsNaN(v) {
			figure = "none"
		}
		if !o.Met(v) {
			word = "not met"
		}
		s.row(o.Text, figure, word)
	}
	_, err := io.WriteString(w, s.String())
	return err
}

// briefFiles says where everything is.
func briefFiles(s *sheet, run *result.Run) {
	notes := ""
	if n := len(run.Notes); n > 0 {
		notes = " and " + figure.Counted(n, "note")
	}
	s.section("Files")
	for _, f := range run.Files {
		s.WriteString("  " + f + "\n")
	}
	more := "--details"
	if run.Dir != "" {
		more = "spate report " + result.ShellWord(filepath.Clean(run.Dir)+"/")
	}
	s.WriteString("  all findings" + notes + ": " + more + "\n") // never broken: it is there to be copied
}
