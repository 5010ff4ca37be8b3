package harvest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"spate/internal/result"
)

// collector gathers what lines outside results say, and tells it of the results that follow.
type collector struct {
	file     string
	headings []heading
	run      running
	server   server
	hints    []hint
	more     *command // continues on the next line
}

type heading struct {
	level int
	text  string
	line  int
}

// running is what is known of the run whose result is still to come.
type running struct {
	rank   int // of the latest sign that it began, 0: none
	line   int
	cmd    *command
	names  []argument // of its Namespace
	nsLine int
	facts  result.Context
	errors []result.Fact
}

// The signs that a run begins, in the order a driver script, a shell and the client print them.
const (
	byDriver = 1 + iota
	byCommand
	byNamespace
)

// command is a command line, perhaps of several lines.
type command struct {
	kind commandKind
	text string
	line int
}

// server is what is known of the server being measured.
type server struct {
	launch *command
	path   []heading // headings above the launch
	used   bool      // a result has it
	ready  bool      // it was seen alive
	errors []result.Fact
	facts  result.Context
}

// hint is a line such as "num_prompts: 1, 2, 4": one value for all results below, or one for each.
type hint struct {
	name   string
	values []string
	line   int
	next   int
}

var (
	headingLine = regexp.MustCompile(`^(#{1,6})\s+(\S.*)$`)
	driverLine  = regexp.MustCompile(`^Running benchmark (.*?)(?: with backend: (\S+))?$`)
	hintLine    = regexp.MustCompile(`^(?:[a-z][a-z_]*\s*[:=]\s*` + num + `(?:\s*,\s*` + num + `)*[\s,;]*)+$`)
	hintPart    = regexp.MustCompile(`([a-z][a-z_]*)\s*[:=]\s*(` + num + `(?:\s*,\s*` + num + `)*)`)
	errorLine   = regexp.MustCompile(`^(?:\([^)]*\) ?)*(?:(?:ERROR|CRITICAL)[ :].*?\] )?((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)(?:: .*)?)$`)
	shellError  = regexp.MustCompile(`^((?:docker|podman): .*|[\w./-]+: (?:error: .*|.*command not found.*|.*No such file or directory.*))$`)
	memoryLine  = regexp.MustCompile(`\b([1-9]\d*|0)MiB\s*/\s*([1-9]\d*|0)MiB`)
	keyValue    = regexp.MustCompile(`Available KV cache memory: (-?` + num + `) GiB`)
)

// hintNames are the settings a hint may give; other lines of that shape are left alone.
var hintNames = map[string]string{
	"num_prompts": "num_prompts", "num_prompt": "num_prompts", "seq_length": "input_len", "seq_len": "input_len",
	"input_len": "input_len", "input_length": "input_len", "output_len": "output_len", "output_length": "output_len",
	"concurrency": "max_concurrency", "max_concurrency": "max_concurrency", "batch_size": "batch_size",
	"request_rate": "request_rate", "qps": "request_rate", "rps": "request_rate", "tp": "tensor_parallel_size",
}

// runLines are lines a client prints about the run it is doing.
var runLines = []struct {
	name, start string // start is a cheap look before the regular expression
	find        *regexp.Regexp
}{
	{"announced_input_tokens", "#Input", regexp.MustCompile(`^#Input tokens: (\d+)$`)},
	{"announced_output_tokens", "#Output", regexp.MustCompile(`^#Output tokens: (\d+)$`)},
	{"request_rate", "Traffic", regexp.MustCompile(`^Traffic request rate: (` + num + `|inf)(?: RPS\.?)?$`)},
	{"burstiness", "Burstiness", regexp.MustCompile(`^Burstiness factor: (` + num + `|inf)\b`)},
	{"max_concurrency", "Maximum request", regexp.MustCompile(`^Maximum request concurrency: (\d+|None)$`)},
	{"warmup_time_s", "warmup", regexp.MustCompile(`^warmup time: (` + num + `)s$`)},
	{"backend", "Using backend", regexp.MustCompile(`^Using backend: (\S+)$`)},
}

// serverLines are lines a server prints while it starts.
var serverLines = []struct {
	name, hint string
	find       *regexp.Regexp
}{
	{"kv_cache_memory_gib", "KV cache memory", keyValue},
	{"kv_cache_tokens", "KV cache size", regexp.MustCompile(`GPU KV cache size: ([\d,]+) tokens`)},
	{"max_full_length_requests", "Maximum concurrency for", regexp.MustCompile(`Maximum concurrency for [\d,]+ tokens per request: (` + num + `)x`)},
	{"engine_version", "version", regexp.MustCompile(`vLLM (?:API server )?version ([\w.+-]+)`)},
	{"model_load_gib", "Model loading took", regexp.MustCompile(`Model loading took (` + num + `) Gi?B`)},
	{"weights_load_s", "Loading weights took", regexp.MustCompile(`Loading weights took (` + num + `) seconds`)},
	{"graph_capture_s", "Graph capturing finished", regexp.MustCompile(`Graph capturing finished in (` + num + `) secs`)},
}

// alive are parts of lines only a server that has started prints.
var alive = []string{"Application startup complete", "Uvicorn running on", "The server is fired up"}

// context takes a line that is no part of a result.
func (s *scanner) context(text string, line int) {
	c := &s.ctx
	if text[0] == '#' && !s.fence {
		if m := headingLine.FindStringSubmatch(text); m != nil && !(len(m[1]) == 1 && isCommand(text)) {
			c.heading(len(m[1]), strings.TrimRight(m[2], "# "), line)
			return
		}
	}
	if strings.Contains(text, "Namespace(") && s.namespace(text, line) {
		return
	}
	if mayBeCommand(text) && s.command(text, line) {
		return
	}
	if !strings.HasPrefix(text, "Running benchmark") {
		if !c.runLine(text, line) && !c.hint(text, line) && !c.serverLine(text, line) {
			c.trouble(text, line)
		}
		return
	}
	if m := driverLine.FindStringSubmatch(text); m != nil {
		s.began(byDriver, line)
		c.run.facts.Set(result.Fact{Name: "driver_line", Value: m[1], From: "driver", Line: line})
		if m[2] != "" {
			c.run.facts.Set(result.Fact{Name: "backend", Value: m[2], From: "driver", Line: line})
		}
	}
}

// isCommand tells a command after root's prompt from a heading.
func isCommand(text string) bool {
	if !mayBeCommand(text) {
		return false
	}
	kind, _ := readCommand(text)
	return kind != noCommand
}

// began notes a sign that a run begins. A sign that comes no later in the order than one already seen
// is of a new run.
func (s *scanner) began(rank, line int) {
	c := &s.ctx
	if c.run.rank >= rank {
		s.noResult()
		c.run = running{}
	}
	if c.run.rank == 0 {
		c.run.line = line
	}
	c.run.rank = rank
}

func (s *scanner) namespace(text string, line int) bool {
	args, whole, ok := readNamespace(text)
	if !ok {
		return false
	}
	s.began(byNamespace, line)
	s.ctx.run.names, s.ctx.run.nsLine = args, line
	if !whole {
		s.problem(line, result.Damaged, "Namespace(...) has no end; the arguments before the cut are kept")
	}
	return true
}

// mayBeCommand is a cheap look before the words are taken apart.
func mayBeCommand(text string) bool {
	return strings.Contains(text, "bench") || strings.Contains(text, "serve") || strings.Contains(text, "docker") ||
		strings.Contains(text, "perf") || strings.Contains(text, "llm") || strings.Contains(text, "launch") ||
		strings.Contains(text, "profile_restful") || strings.Contains(text, "podman") || strings.Contains(text, "llama")
}

func (s *scanner) command(text string, line int) bool {
	kind, cmd := readCommand(text)
	if kind == noCommand {
		return false
	}
	c := &s.ctx
	made := &command{kind: kind, text: cmd, line: line}
	if kind == clientCommand {
		s.began(byCommand, line)
		c.run.cmd = made
	} else {
		s.failed(c.failedLaunch(false))
		s.noResult()
		c.run = running{}
		c.server = server{launch: made, path: slices.Clone(c.headings)}
	}
	if rest, ok := strings.CutSuffix(cmd, `\`); ok {
		made.text = strings.TrimRight(rest, " ")
		c.more = made
	}
	return true
}

// continues takes the next line of a command that ended in a backslash.
func (c *collector) continues(text string, line int) bool {
	m := c.more
	if m == nil {
		return false
	}
	c.more = nil
	if text == "" || strings.HasPrefix(text, "```") || line > m.line+200 || len(m.text) > maxText {
		return false
	}
	rest, more := strings.CutSuffix(text, `\`)
	m.text += " " + strings.TrimSpace(rest)
	if more {
		c.more = m
	}
	return true
}

// going reports whether a run has begun whose result is still to come.
func (c *collector) going() bool {
	return c.run.rank > 0 || c.server.launch != nil && !c.server.used
}

func (c *collector) heading(level int, text string, line int) {
	for len(c.headings) > 0 && c.headings[len(c.headings)-1].level >= level {
		c.headings = c.headings[:len(c.headings)-1]
	}
	c.headings = append(c.headings, heading{level, text, line})
	c.hints = nil
}

func (c *collector) runLine(text string, line int) bool {
	for _, l := range runLines {
		if !strings.HasPrefix(text, l.start) {
			continue
		}
		if m := l.find.FindStringSubmatch(text); m != nil {
			c.run.facts.Set(result.Fact{Name: l.name, Value: printedValue(m[1]), From: "client output", Line: line})
			return true
		}
	}
	return false
}

// hint reads settings given in words of their own.
func (c *collector) hint(text string, line int) bool {
	if len(text) > 1000 || text[0] < 'a' || text[0] > 'z' || !hintLine.MatchString(text) {
		return false
	}
	var found []hint
	for _, m := range hintPart.FindAllStringSubmatch(text, -1) {
		name, ok := hintNames[m[1]]
		if !ok {
			return false
		}
		values := strings.Split(m[2], ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		found = append(found, hint{name: name, values: values, line: line})
	}
	for _, h := range found {
		c.hints = slices.DeleteFunc(c.hints, func(old hint) bool { return old.name == h.name })
		c.hints = append(c.hints, h)
	}
	return true
}

func (c *collector) serverLine(text string, line int) bool {
	if strings.Contains(text, "MiB") {
		if m := memoryLine.FindStringSubmatch(text); m != nil {
			c.server.memory(m[1], m[2], line)
			return true
		}
	}
	for _, l := range serverLines {
		if !strings.Contains(text, l.hint) {
			continue
		}
		if m := l.find.FindStringSubmatch(text); m != nil {
			c.server.facts.Set(result.Fact{Name: l.name, Value: printedValue(strings.ReplaceAll(m[1], ",", "")), From: "server output", Line: line})
			return true
		}
	}
	for _, part := range alive {
		if strings.Contains(text, part) {
			c.server.ready = true
			return true
		}
	}
	return false
}

// memory takes one card's line of nvidia-smi. Lines close together are one look at several cards.
func (s *server) memory(used, total string, line int) {
	entry := map[string]any{"used": json.Number(used), "total": json.Number(total)}
	list := []any{entry}
	if old, ok := s.facts.Get("gpu_memory_mib"); ok && line-old.Line < 10 {
		if seen, _ := old.Value.([]any); len(seen) < 64 {
			list = append(slices.Clone(seen), entry)
		}
	}
	s.facts.Set(result.Fact{Name: "gpu_memory_mib", Value: list, From: "nvidia-smi", Line: line})
}

// trouble takes a line that says something failed.
func (c *collector) trouble(text string, line int) {
	if !strings.Contains(text, "rror") && !strings.Contains(text, "Exception") && !strings.Contains(text, "Interrupt") &&
		!strings.Contains(text, "not found") && !strings.Contains(text, "No such") {
		return
	}
	m := errorLine.FindStringSubmatch(text)
	if m == nil {
		if m = shellError.FindStringSubmatch(text); m == nil {
			return
		}
	}
	fact := result.Fact{Name: "error", Value: m[1], From: "error message", Line: line}
	switch {
	case c.run.rank > 0:
		c.run.errors = appendFew(c.run.errors, fact)
	case c.server.launch != nil && !c.server.used && !c.server.ready:
		c.server.errors = appendFew(c.server.errors, fact)
	}
}

func appendFew(list []result.Fact, f result.Fact) []result.Fact {
	if len(list) >= 8 {
		return list
	}
	return append(list, f)
}

// failedLaunch is the launch that ended in an error, if the latest did. atResult: a result comes next,
// so that a server without an error did start.
func (c *collector) failedLaunch(atResult bool) *result.Entry {
	l := c.server.launch
	if l == nil || c.server.used || len(c.server.errors) == 0 {
		return nil
	}
	r := &result.Entry{Source: result.Source{File: c.file, Line: l.line}, Format: result.FormatFailedLaunch, Launch: &l.text}
	r.Error = fmt.Sprint(c.server.errors[0].Value)
	r.Source.EndLine = c.server.errors[len(c.server.errors)-1].Line
	c.addHeadings(r)
	r.Context = append(r.Context, c.server.facts...)
	r.Context.Set(result.Fact{Name: "error", Value: r.Error, From: "error message", Line: c.server.errors[0].Line})
	if len(c.server.errors) > 1 {
		var later []string
		for _, e := range c.server.errors[1:] {
			later = append(later, fmt.Sprint(e.Value))
		}
		r.Context.Set(result.Fact{Name: "later_errors", Value: later, From: "error message", Line: c.server.errors[1].Line})
	}
	if args := flagsOf(l.text); len(args) > 0 {
		r.Context.Set(result.Fact{Name: "server_arguments", Value: argumentMap(args), From: "launch command", Line: l.line})
	}
	if atResult {
		r.Problems = append(r.Problems, result.Problem{File: c.file, Line: l.line, Kind: result.Note, Text: "a result follows this failed start without another launch; it is not tied to it"})
	}
	c.server = server{}
	return r
}

// unfinished tells of a run that began for certain and has no result.
func (c *collector) unfinished() (line int, text string) {
	if c.run.nsLine == 0 && len(c.run.errors) == 0 {
		return 0, ""
	}
	text = "a run began here and left no result"
	if len(c.run.errors) > 0 {
		text += fmt.Sprintf("; it said %q on line %d", result.Shorten(fmt.Sprint(c.run.errors[0].Value), 200), c.run.errors[0].Line)
	}
	return c.run.line, text
}

// printedValue is a number as printed, or a word.
func printedValue(s string) any {
	if s == "None" {
		return nil
	}
	return result.Plain(s)
}
