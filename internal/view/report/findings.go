package report

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/host/observe"
	"spate/internal/judge/metrics"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// Findings prints what spate has to say beyond vLLM's block: first whether the figures can be
// trusted, then the figures vLLM does not have, and where the files are.
func Findings(w io.Writer, run *result.Run) error {
	s := new(sheet)
	s.WriteByte('\n')
	judgement(s, run)
	tenants(s, run)
	workers(s, run)
	limits(s, run, shownCauses)
	latency(s, &run.Summary)
	load(s, &run.Summary)
	throughput(s, &run.Summary)
	objectives(s, &run.Summary)
	failures(s, &run.Summary)
	server(s, run)
	observed(s, run)
	beside(s, &run.Summary)
	notes(s, run)
	files(s, run)
	_, err := io.WriteString(w, s.String())
	return err
}

// Text prints a run read from its folder: what it was, the block, the findings.
func Text(w io.Writer, run *result.Run) error {
	s := new(sheet)
	s.hang("Run      ", fmt.Sprintf("%s (%s)", run.ID, run.State))
	if run.Aborted != "" {
		s.hang("Aborted  ", escape.Clip(harmless(run.Aborted), 5*maxColumns))
	}
	if !run.Started.IsZero() {
		s.hang("Started  ", run.Started.Format("2006-01-02 15:04:05 -0700"))
	}
	if len(run.Command) > 0 {
		s.command("Command  ", run.Command)
	}
	if run.Plan.Text != "" {
		s.hang("Plan     ", run.Plan.Text)
	}
	s.WriteByte('\n')
	if _, err := io.WriteString(w, s.String()); err != nil {
		return err
	}
	if err := Block(w, BlockOf(run)); err != nil {
		return err
	}
	return Findings(w, run)
}

// Run prints the block that a run was asked to print.
func Run(w io.Writer, run *result.Run) error { return Block(w, BlockOf(run)) }

// Predicted prints a predicted run: vLLM's block and the rows of its tenants.
func Predicted(w io.Writer, run *result.Run) error {
	s := new(sheet)
	tenants(s, run)
	if err := Run(w, run); err != nil {
		return err
	}
	_, err := io.WriteString(w, s.String())
	return err
}

// BlockOf is the block a run was asked to print. A run recovered without its settings gets vLLM's
// defaults.
func BlockOf(run *result.Run) BlockInput {
	in := BlockInput{
		Style: Style(run.Block.Style), Summary: &run.Summary, MaxConcurrency: run.Plan.MaxConcurrency,
		RequestRate: run.Plan.Rate(), Tokenizer: run.Block.Tokenizer, Metrics: run.Block.Metrics,
		Percentiles: run.Block.Percentiles, Errors: run.Errors, Spec: run.Spec,
	}
	if len(in.Metrics) == 0 {
		in.Metrics, in.Percentiles, in.Tokenizer = []string{"ttft", "tpot", "itl"}, []float64{99}, true
	}
	return in
}

func latency(s *sheet, m *metrics.Summary) {
	if m.Completed == 0 {
		return
	}
	c := &m.Clocks
	s.section("Latency (ms)", latencyHeads...)
	if m.Pooling == nil {
		s.dist("TTFT, from sending", &m.TTFT)
		s.dist("TTFT, from due time", &c.TTFTDue)
	}
	s.dist("  first byte", &c.FirstByte)
	s.dist("  first token of any kind", &c.FirstToken)
	s.dist("  first visible token", &c.FirstText)
	s.dist("ITL, per chunk", &m.ITL)
	s.dist("ITL, per token", &m.Streaming.TokenITL)
	s.dist("TPOT", &m.TPOT)
	s.dist("E2EL, from sending", &m.E2EL)
	s.dist("E2EL, from due time", &c.E2ELDue)
	if m.Pooling != nil { // E2EL ends at the headers there, as vLLM's does
		s.dist("to the end of the answer", &c.E2ELClose)
	}
	waiting := "waiting in the client"
	if m.Concurrency.Cap > 0 {
		waiting = "waiting for a free slot"
	}
	s.dist(waiting, &c.Queue)
	s.dist("sent late by the client", &c.DispatchLag)
	s.footnote()
}

func load(s *sheet, m *metrics.Summary) {
	s.section("Load", "requested", "achieved", "share")
	if r := m.Rates; r.Requested != nil && r.Sent != nil {
		s.row("requests per second", figure.Rounded(*r.Requested), figure.Rounded(*r.Sent), percent(*r.Sent / *r.Requested))
	}
	s.row("requests", strconv.Itoa(m.Tally.Due), strconv.Itoa(m.Tally.OK), percent(part(m.Tally.OK, m.Tally.Due)))
	match(s, "input tokens as requested", m.Lengths.InputMatch)
	match(s, "output tokens as requested", m.Lengths.OutMatch)
	limit := "none"
	if m.Concurrency.Cap > 0 {
		limit = strconv.Itoa(m.Concurrency.Cap)
	}
	s.row("peak concurrency, exact", limit, strconv.Itoa(m.Concurrency.Peak))
	s.row("mean concurrency", "", figure.Rounded(m.Concurrency.Mean))
	if n := m.Rates.Late1ms; n > 0 {
		s.fact("let go late", fmt.Sprintf("%d requests by more than 1 ms, %d by more than 10 ms", n, m.Rates.Late10ms))
	}
	if m.Streaming.MultiShare > 0 {
		s.fact("tokens per chunk", fmt.Sprintf("%s on average, at most %d; ITL per chunk is not per token here",
			figure.Rounded(m.Streaming.TokensPerChunk), m.Streaming.MaxChunkTokens))
	}
}

// match is a row of how many requests had the length that was asked for.
func match(s *sheet, label string, m metrics.Match) {
	if m.N == 0 {
		return
	}
	s.row(label, strconv.Itoa(m.N), strconv.Itoa(m.Exact), percent(m.Honoured))
	if m.Exact < m.N {
		s.fact("", fmt.Sprintf("%d shorter, %d longer, off by at most %d; %s of the tokens asked for",
			m.Short, m.Long, m.MaxOff, percent(m.MeanRatio)))
	}
}

// throughput sets the whole run beside its plateau.
func throughput(s *sheet, m *metrics.Summary) {
	if m.Completed == 0 {
		return
	}
	plateau := &m.Steady
	heads := []string{"full run", "95 % from", "to"}
	if plateau.Applies {
		heads = append(heads, "plateau")
	}
	s.section("Throughput", heads...)
	row := func(label string, full float64, ci *metrics.Range, steady float64) {
		cells := []string{figure.Rounded(full), "", ""}
		if ci != nil {
			cells[1], cells[2] = figure.Rounded(ci[0]), figure.Rounded(ci[1])
		}
		if plateau.Applies {
			cells = append(cells, figure.Rounded(steady))
		}
		s.row(label, cells...)
	}
	t := &m.Throughput
	row("requests/s", m.RequestThroughput, t.RequestCI95, plateau.Request)
	if m.Pooling != nil {
		s.row("inputs/s", figure.Rounded(m.Pooling.Throughput))
		row("input tokens/s", t.Input, nil, plateau.Input)
		return
	}
	row("output tokens/s", m.OutputThroughput, t.OutputCI95, plateau.Output)
	row("input tokens/s", t.Input, nil, plateau.Input)
	if plateau.Applies {
		row("TTFT mean (ms)", m.TTFT.Mean, meanRange(&m.TTFT), plateau.TTFT.Mean)
		row("TPOT mean (ms)", m.TPOT.Mean, meanRange(&m.TPOT), plateau.TPOT.Mean)
	}
	s.row("peak output tokens/s, any second", figure.Rounded(t.PeakOutput))
	if u := &m.Speed.User; u.N > 0 {
		s.row("tokens/s one user sees, median", figure.Rounded(u.Median))
	}
	if plateau.Applies {
		s.fact("plateau", fmt.Sprintf("%d or more in flight: %s s of %s s, from %s s on", plateau.Threshold,
			figure.Rounded(plateau.WindowS), figure.Rounded(m.DurationS), figure.Rounded(plateau.StartS)))
	}
	if plateau.Reason != "" {
		s.fact("", plateau.Reason)
	}
}

func meanRange(d *metrics.Dist) *metrics.Range {
	if d.CI95 == nil {
		return nil
	}
	return &d.CI95.Mean
}

func objectives(s *sheet, m *metrics.Summary) {
	g := m.Goodput
	if g == nil || len(g.Objectives) == 0 { // several tenants have bounds of their own, in their table
		return
	}
	s.section("Objectives", "bound", "met", "share")
	for _, o := range g.Objectives {
		s.row(o.Metric, figure.Rounded(o.Bound), strconv.Itoa(o.Met), percent(o.Share))
	}
	s.row("all of them", "", strconv.Itoa(g.Good), percent(g.Share))
}

func failures(s *sheet, m *metrics.Summary) {
	if len(m.Failures.Kinds) == 0 && m.Failures.Lost == 0 && m.Failures.Retries == 0 {
		return
	}
	s.section("Not answered", "requests")
	for _, k := range m.Failures.Kinds {
		s.row(k.Name(), strconv.Itoa(k.Count))
		if k.Example != "" {
			s.hang("    ", "such as: "+escape.Clip(harmless(k.Example), 3*maxColumns))
		}
	}
	if n := m.Failures.Lost; n > 0 {
		s.row("without a record", strconv.Itoa(n))
	}
	fates(s, m)
	if f := m.Failures; f.Retries > 0 {
		s.fact("retries", fmt.Sprintf("%d; %d requests recovered", f.Retries, f.Recovered))
	}
	shed(s, &m.Failures.Shed)
	if a := &m.ErrorAdjusted; a.Failures > 0 {
		adjusted := func(label string, ps metrics.Percentiles) {
			d := metrics.Dist{Percentiles: ps}
			s.row(label, s.percentile(d.At(50)), s.percentile(d.At(90)), s.percentile(d.At(99)))
		}
		s.section("Latency (ms), failures as never", "median", "p90", "p99")
		if m.Pooling == nil {
			adjusted("TTFT, from due time", a.TTFTDue)
		}
		adjusted("E2EL, from due time", a.E2ELDue)
	}
}

// fates says what became of every request that was due.
func fates(s *sheet, m *metrics.Summary) {
	t := m.Tally
	s.fact("fates", fmt.Sprintf("%d due = %d ok + %d failed + %d dropped + %d canceled", t.Due, t.OK, t.Failed, t.Dropped, t.Canceled))
}

// shed tells of load the server refused: it answers those fast, and often says when to come back.
func shed(s *sheet, f *metrics.Shed) {
	if f.Count == 0 {
		return
	}
	words := fmt.Sprintf("%d attempts, answered in %s ms (median), %s ms at most", f.Count, figure.Rounded(f.Latency.Median), figure.Rounded(f.Latency.Max))
	if w := &f.RetryAfter; w.N > 0 {
		words += fmt.Sprintf("; %d of them said to wait %s s (median)", w.N, figure.Rounded(w.Median/1000))
	}
	s.fact("refused for load", words)
}

// beside tells of what went on around the measured requests.
func beside(s *sheet, m *metrics.Summary) {
	s.section("Around it")
	c := &m.Connections
	words := percent(c.ReusedShare) + " of requests on a used connection"
	if c.Dial.N > 0 {
		words += fmt.Sprintf("; opening one took %s ms (median)", figure.Rounded(c.Dial.Median))
	}
	if c.InBand > 0 {
		words += fmt.Sprintf("; %d opened within a request's latency", c.InBand)
	}
	s.fact("connections", words)
	if w := &m.Warmup; w.Requests > 0 {
		what := "TTFT"
		if m.Pooling != nil {
			what = "E2EL"
		}
		s.fact("warm-up, not counted", fmt.Sprintf("%d requests, %d failed, median %s %s ms", w.Requests, w.Failed, what, figure.Rounded(w.Median)))
	}
	if p := &m.Probe; p.Completed+p.Failed > 0 {
		s.fact("probes", fmt.Sprintf("%d answered, %d failed, median %s ms, p99 %s ms", p.Completed, p.Failed, figure.Rounded(p.Median), figure.Rounded(p.P99)))
	}
	if from := sources(m.Lengths.OutputFrom); from != "" {
		s.fact("output tokens counted by", from)
	}
	if how := sources(m.Streaming.TokenITLSource); how != "" {
		s.fact("tokens of a chunk known by", how)
	}
	if finish := sources(m.Lengths.Finish); finish != "" {
		s.fact("answers ended by", finish)
	}
}

// sources prints counts by name, most frequent first.
func sources(by map[string]int) string {
	names := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(names, func(a, b string) int { return by[b] - by[a] })
	parts := make([]string, 0, len(names))
	for _, name := range names {
		shown := name
		if name == "" {
			shown = "nothing"
		}
		parts = append(parts, fmt.Sprintf("%s %d", shown, by[name]))
	}
	return strings.Join(parts, ", ")
}

func notes(s *sheet, run *result.Run) {
	if len(run.Notes) == 0 {
		return
	}
	s.section("Notes")
	for _, n := range run.Notes {
		s.hang("  - ", n)
	}
}

func files(s *sheet, run *result.Run) {
	if run.Dir == "" && len(run.Files) == 0 {
		return
	}
	s.section("Files")
	if run.Dir != "" {
		s.WriteString("  " + filepath.Clean(run.Dir) + "/\n") // never broken: it is there to be copied
		names := []string{result.ResultFile, result.RecordsFile, result.RunFile, result.CommandFile, result.EnvironmentFile}
		if run.State == result.Recovered {
			names = names[1:] // a result is what it lacks
		}
		if o := run.Observed; o != nil && (len(o.Sources) > 0 || run.State == result.Recovered) { // a killed run did not count its looks
			names = append(names, observe.File)
		}
		s.hang("    ", strings.Join(names, ", "))
	}
	for _, f := range run.Files {
		s.WriteString("  " + f + "\n")
	}
}

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
