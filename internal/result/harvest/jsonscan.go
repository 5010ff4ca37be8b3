package harvest

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/result"
)

// jsonRun is a JSON object being read, with the lines it took, in case it turns out not to be one.
type jsonRun struct {
	push  jsonPush
	line  int
	first string // the line it began on, with what stood before it
	after bool   // it began behind other words, so lines that make no result are read as text
	held  []heldLine
	bytes int
}

type heldLine struct {
	text string
	line int
}

// What is held back for a second reading as text.
const (
	maxHeldLines = 2000
	maxHeldBytes = 1 << 20
)

// jsonHints are keys by which a line of text is known to hold a result after its own words.
var jsonHints = []string{`"request_throughput"`, `"requests_per_second"`, `"mean_ttft_ms"`}

// beginJSON starts reading an object where a line opens one.
func (s *scanner) beginJSON(text string, line int, whole bool) bool {
	at := jsonStart(text)
	if at < 0 {
		return false
	}
	s.json = &jsonRun{line: line, first: text, after: strings.Trim(text[:at], " \t[,") != ""}
	s.feed(text[at:], line, whole)
	return true
}

// jsonStart is where an object begins in a line, -1 when none does. Lists of objects are read as the
// objects in them. Behind other words an object begins where it is known by its keys, or where the line
// ends with its brace: what comes after it is on the lines below.
func jsonStart(text string) int {
	trimmed := strings.TrimLeft(text, " \t[,")
	if strings.HasPrefix(trimmed, "{") {
		rest := strings.TrimLeft(trimmed[1:], " ")
		if rest == "" || rest[0] == '"' || rest[0] == '}' {
			return len(text) - len(trimmed)
		}
		return -1
	}
	if len(text) <= maxText {
		if end := strings.TrimRight(text, " \t"); strings.HasSuffix(end, "{") {
			return len(end) - 1
		}
	}
	at := strings.Index(text, `{"`)
	if at < 0 {
		return -1
	}
	for _, h := range jsonHints {
		if strings.Contains(text[at:min(len(text), at+maxText)], h) {
			return at
		}
	}
	return -1
}

// feed reads on in the object.
func (s *scanner) feed(text string, line int, whole bool) {
	j := s.json
	if len(j.held) < maxHeldLines && j.bytes+len(text) < maxHeldBytes {
		kept := text
		if len(j.held) == 0 {
			kept = j.first
		}
		j.held = append(j.held, heldLine{kept, line})
		j.bytes += len(text)
	}
	used, done, err := j.push.feed(text, line)
	if err == nil && !done && whole {
		_, done, err = j.push.feed("\n", line)
	}
	switch {
	case err != nil:
		s.failJSON(line, "it breaks off on line "+fmt.Sprint(line))
	case done:
		s.json = nil
		if found := s.object(j.push.root, line); !found && j.after {
			s.again(j, line)
			return
		}
		rest := strings.TrimLeft(text[used:], " \t,]")
		if rest != "" {
			s.line(rest, line, whole)
		}
	}
}

// failJSON gives up on an object. What it has of a result is kept and reported; otherwise its lines are
// read again as text.
func (s *scanner) failJSON(line int, why string) {
	j := s.json
	s.json = nil
	before := len(s.out.Entries)
	held := s.last
	if r := readObject(j.push.root, s.file); len(r) > 0 {
		r[len(r)-1].Problems = append(r[len(r)-1].Problems, result.Problem{File: s.file, Line: j.line, Kind: result.Truncated, Text: "JSON object is not whole: " + why})
		for _, one := range r {
			s.keep(one)
		}
	} else if looksLikeResult(j.push.root) {
		s.problem(j.line, result.Damaged, "JSON object looks like a result and cannot be read: "+why)
	}
	if len(s.out.Entries) == before && s.last == held {
		s.again(j, line)
		return
	}
	if n := len(j.held); n > 0 && j.held[n-1].line == line {
		s.retry(j.held[n-1], j.line)
	}
}

// again reads the lines of what was no object as text. Only the one it broke on may open an object:
// trying them all would take quadratic time.
func (s *scanner) again(j *jsonRun, line int) {
	for _, h := range j.held {
		if h.line == line {
			s.retry(h, j.line)
			continue
		}
		s.text(h.text, h.line)
	}
}

// retry reads the line an object broke on, unless the object began there.
func (s *scanner) retry(h heldLine, start int) {
	if h.line == start {
		s.text(h.text, h.line)
		return
	}
	s.line(h.text, h.line, true)
}

// object takes a complete JSON object and reports whether it is a result.
func (s *scanner) object(root *node, line int) bool {
	results := readObject(root, s.file)
	for _, r := range results {
		if r.Source.EndLine == 0 {
			r.Source.EndLine = line
		}
		if s.last != nil && joins(s.last, &r) {
			join(s.last, &r)
			continue
		}
		s.endAll(line)
		s.keep(r)
	}
	if len(results) == 0 && looksLikeResult(root) {
		s.problem(root.line, result.Note, "JSON object has figures of a benchmark in an unknown format")
	}
	return len(results) > 0
}

// resultKeys are keys of results besides vLLM's.
var resultKeys = []string{
	"total_requests", "successful_requests", "failed_requests", "requests_per_second", "time_to_first_token", "inter_token_latency",
	"request_latency", "output_token_throughput", "Success Requests", "Test Duration (s)", "results_ttft_s_mean",
}

// looksLikeResult reports whether an object has the keys of a result.
func looksLikeResult(n *node) bool {
	if n == nil || n.kind != '{' {
		return false
	}
	count := 0
	for _, key := range n.keys {
		if slices.Contains(openers, key) || slices.Contains(resultKeys, key) || latencyKey.MatchString(key) {
			count++
		}
	}
	return count >= 2
}

// objectFormats are the forms of JSON results, each with what tells it from the others, in the order
// they are tried.
var objectFormats = []struct {
	is   func(*node) bool
	read func(*node) []result.Entry
}{
	{isBackprop, readBackprop},
	{isPyTorch, readPyTorch},
	{isTRTBench, readTRTBench},
	{isGuideLLM, readGuideLLM},
	{isHFBench, readHFBench},
	{isLLMPerf, readLLMPerf},
	{isEvalScope, readEvalScope},
	{isEvalScopeRank, readEvalScopeRank},
	{isNVIDIA, readNVIDIA},
	{isServing, readServing},
}

// readObject reads the results in a JSON object, none when it is of no known form.
func readObject(n *node, file string) []result.Entry {
	if n == nil || n.kind != '{' {
		return nil
	}
	for _, f := range objectFormats {
		if !f.is(n) {
			continue
		}
		results := f.read(n)
		for i := range results {
			results[i].Source.File = file
			if results[i].Source.Line == 0 {
				results[i].Source.Line = n.line
			}
		}
		return results
	}
	return nil
}
