package harvest

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"spate/internal/host/enginelog"
	"spate/internal/result"
)

// maxText is the longest line that is looked at as text; longer ones can only be JSON.
const maxText = 64 << 10

// maxSamples bounds the engine log kept with one result: eleven days of lines every ten seconds.
const maxSamples = 100_000

// scanner goes through one file line by line. At most one reader is in the middle of something: a JSON
// object, a result block, a CSV table or a report of trtllm-bench.
type scanner struct {
	file string
	out  *result.Set
	last *result.Entry // the latest result; lines below may still belong to it
	ctx  collector

	json  *jsonRun
	block *block
	table *csvTable
	trt   *trtReport

	samples []enginelog.Sample // of the run that is going on
	fence   bool               // between ``` lines of Markdown
}

// Read finds the results in a stream. file is only a name, for the sources. The error is the stream's;
// whatever is wrong with the text is a Problem.
func Read(file string, r io.Reader) (*result.Set, error) {
	s := &scanner{file: file, out: &result.Set{}}
	s.ctx.file = file
	lines, err := newLineReader(r)
	if err != nil {
		return nil, err
	}
	n := 0
	for {
		p, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.finish(n)
			return s.out, err
		}
		n = p.line
		s.piece(p)
	}
	s.finish(n)
	return s.out, nil
}

func (s *scanner) piece(p piece) {
	if !p.first {
		if s.json != nil {
			s.feed(p.text, p.line, p.last)
		}
		return
	}
	segs := segments(p.text)
	for i, seg := range segs {
		s.line(clean(seg), p.line, p.last || i < len(segs)-1)
	}
}

// line handles a line; whole is false when more of it follows.
func (s *scanner) line(text string, line int, whole bool) {
	if s.json != nil {
		s.feed(text, line, whole)
		return
	}
	if s.beginJSON(text, line, whole) {
		return
	}
	s.text(text, line)
}

// text hands a line to the recognisers of everything but JSON.
func (s *scanner) text(text string, line int) {
	if len(text) > maxText {
		return
	}
	trimmed := strings.TrimSpace(text)
	if s.ctx.continues(trimmed, line) {
		return
	}
	if s.engine(trimmed, line) || s.inBlock(text, line) || s.inTable(trimmed, line) || s.inReport(trimmed, line) {
		return
	}
	if trimmed == "" {
		return
	}
	if strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
		s.fence = !s.fence
		return
	}
	s.context(trimmed, line)
}

// engine takes a stats line of the server.
func (s *scanner) engine(text string, line int) bool {
	into := &s.samples
	if s.last != nil && !s.ctx.going() && s.block == nil {
		into = &s.last.EngineLog
	}
	sample, ok := enginelog.Parse(text, line)
	if !ok {
		if n := len(*into); n > 0 && line-(*into)[n-1].Line <= 3 {
			return enginelog.Complete(text, &(*into)[n-1])
		}
		return false
	}
	s.ctx.server.ready = true
	if len(*into) == maxSamples {
		s.problem(line, result.Note, fmt.Sprintf("more than %d engine stats lines for one result; the rest is left out", maxSamples))
	}
	if len(*into) <= maxSamples {
		*into = append(*into, sample)
	}
	return true
}

// inBlock begins, continues or ends a result block.
func (s *scanner) inBlock(text string, line int) bool {
	if strings.Contains(text, "Benchmark Result") {
		if b := beginBlock(s.file, text, line); b != nil {
			s.endAll(line)
			s.block = b
			return true
		}
	}
	if s.block == nil {
		if !looksLikeRow(text) {
			return false
		}
		if b := beginHeadless(s.file, text, line); b != nil {
			s.endAll(line)
			s.block = b
			return true
		}
		return false
	}
	if startsRun(text) || strings.HasPrefix(text, "#") && !strings.HasPrefix(text, "#I") && !strings.HasPrefix(text, "#O") {
		s.endBlock(false)
		return false
	}
	mine, end := s.block.take(text, line)
	if end {
		s.endBlock(mine)
	}
	return mine
}

// looksLikeRow is a cheap look before the regular expression.
func looksLikeRow(text string) bool {
	i := strings.LastIndexByte(text, ':')
	if i < 1 {
		return false
	}
	head := text[:i]
	return strings.HasSuffix(head, ")") || strings.HasSuffix(head, "requests") || strings.HasSuffix(head, "tokens")
}

// startsRun reports whether a line can only come before a run.
func startsRun(text string) bool {
	if strings.Contains(text, "Namespace(") {
		return true
	}
	return isCommand(text)
}

func (s *scanner) endBlock(whole bool) {
	b := s.block
	s.block = nil
	if b == nil {
		return
	}
	if r, ok := b.result(whole); ok {
		s.keep(r)
	}
}

// endAll closes whatever is open because something else begins.
func (s *scanner) endAll(line int) {
	s.endBlock(false)
	s.endTable()
	s.endReport(line)
}

// keep takes a result: the one before it is complete now, and this one gets its context.
func (s *scanner) keep(r result.Entry) {
	s.emit()
	if r.Source.File == "" {
		r.Source.File = s.file
	}
	s.failed(s.ctx.failedLaunch(true))
	r.EngineLog = append(r.EngineLog, s.samples...)
	during := len(s.samples)
	s.samples = nil
	s.ctx.describe(&r)
	if during > 0 {
		r.Context.Set(result.Fact{Name: "engine_log", Value: "lines above the result", From: "position", Line: r.EngineLog[0].Line})
	}
	s.last = &r
}

// emit gives out the latest result.
func (s *scanner) emit() {
	r := s.last
	if r == nil {
		return
	}
	s.last = nil
	if _, said := r.Context.Get("engine_log"); !said && len(r.EngineLog) > 0 {
		r.Context.Set(result.Fact{Name: "engine_log", Value: "lines below the result", From: "position", Line: r.EngineLog[0].Line})
	}
	if r.EngineLog == nil {
		r.EngineLog = []enginelog.Sample{}
	}
	r.Complete()
	r.Check()
	checkFlat(r)
	s.out.Entries = append(s.out.Entries, *r)
}

// failed gives out a server that did not start.
func (s *scanner) failed(r *result.Entry) {
	if r == nil {
		return
	}
	s.emit()
	r.EngineLog = []enginelog.Sample{}
	s.out.Entries = append(s.out.Entries, *r)
}

// finish closes everything at the end of the text, whose last line is n.
func (s *scanner) finish(n int) {
	if s.json != nil {
		s.failJSON(n, "the text ends inside it")
	}
	s.endAll(n)
	s.failed(s.ctx.failedLaunch(false))
	s.noResult()
	s.emit()
	if len(s.samples) == 0 {
		return
	}
	r := result.Entry{Source: result.Source{File: s.file, Line: s.samples[0].Line, EndLine: s.samples[len(s.samples)-1].Line}, Format: result.FormatEngineLog}
	s.keep(r)
	s.emit()
}

// noResult notes a run that was begun and left no result.
func (s *scanner) noResult() {
	if line, text := s.ctx.unfinished(); line > 0 {
		s.problem(line, result.Note, text)
	}
}

// maxProblems bounds what is said about a file of rubbish.
const maxProblems = 1000

func (s *scanner) problem(line int, kind result.Kind, text string) {
	switch n := len(s.out.Problems); {
	case n == maxProblems:
		kind, text = result.Damaged, fmt.Sprintf("more than %d problems; the rest is not listed", maxProblems)
	case n > maxProblems:
		return
	}
	s.out.Problems = append(s.out.Problems, result.Problem{File: s.file, Line: line, Kind: kind, Text: text})
}
