package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64 // seconds
}

type testName struct{ pkg, test string }

// ran is a test that has ended.
type ran struct {
	testName
	seconds float64
}

// follower turns events into what a person reads.
type follower struct {
	out     io.Writer
	now     func() time.Time
	start   time.Time
	printed time.Time                     // when something was last printed
	said    map[testName]*strings.Builder // by tests that have not ended
	began   map[testName]time.Time
	count   map[string]int // pass, fail, skip
	ended   []ran          // tests that have no tests within them
	outer   map[testName]bool
}

func newFollower(out io.Writer, now func() time.Time) *follower {
	return &follower{
		out: out, now: now, start: now(), printed: now(),
		said: map[testName]*strings.Builder{}, began: map[testName]time.Time{}, count: map[string]int{}, outer: map[testName]bool{},
	}
}

// follow reads events to their end.
func (f *follower) follow(r io.Reader, quiet time.Duration) error {
	lines := make(chan string)
	failed := make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				failed <- err
				return
			}
		}
	}()
	tick := time.NewTicker(max(quiet/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				f.close()
				return <-failed
			}
			f.line(line)
		case <-tick.C:
			if f.now().Sub(f.printed) >= quiet {
				f.print(f.progress())
			}
		}
	}
}

// line takes one line of go test -json. What is no event is printed as it stands.
func (f *follower) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		f.print(line)
		return
	}
	t := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		f.print(e.Output)
	case "run", "cont":
		f.began[t] = f.now()
	case "pause":
		delete(f.began, t)
	case "output":
		f.output(t, e.Output)
	case "pass", "fail", "skip":
		f.end(t, e)
	}
}

// output keeps what a test says until it is known whether it fails. What a package says is for the reader.
func (f *follower) output(t testName, text string) {
	if t.test == "" {
		if text != "PASS\n" && !strings.HasPrefix(text, "=== ") {
			f.print(text)
		}
		return
	}
	if f.said[t] == nil {
		f.said[t] = new(strings.Builder)
	}
	f.said[t].WriteString(text)
}

func (f *follower) end(t testName, e event) {
	if t.test == "" { // of a package: tests that never ended were cut off by a panic or the time limit
		if e.Action == "fail" {
			f.unended(t.pkg)
		}
		return
	}
	f.count[e.Action]++
	if e.Action == "fail" {
		f.show(t)
	}
	delete(f.said, t)
	delete(f.began, t)
	// The time of a test with parallel tests within it is mostly theirs, and their wait for a processor: only the
	// innermost say what is slow.
	if i := strings.LastIndexByte(t.test, '/'); i >= 0 {
		f.outer[testName{t.pkg, t.test[:i]}] = true
	}
	if !f.outer[t] {
		f.ended = append(f.ended, ran{t, e.Elapsed})
	}
}

// show prints what a test said, without the marks that tell tests apart.
func (f *follower) show(t testName) {
	said := f.said[t]
	if said == nil {
		return
	}
	for line := range strings.Lines(said.String()) {
		if !strings.HasPrefix(line, "=== ") {
			f.print(line)
		}
	}
}

func (f *follower) unended(pkg string) {
	for t := range f.said {
		if t.pkg == pkg {
			f.show(t)
			delete(f.said, t)
		}
	}
	for t := range f.began {
		if t.pkg == pkg {
			delete(f.began, t)
		}
	}
}

// running are the tests under way, the longest first, without those that only wait for their parts.
func (f *follower) running() []testName {
	var all []testName
	for t := range f.began {
		if !f.waits(t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b testName) int {
		return cmp.Or(f.began[a].Compare(f.began[b]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	return all
}

// waits reports whether a part of the test is under way.
func (f *follower) waits(t testName) bool {
	for part := range f.began {
		if part.pkg == t.pkg && strings.HasPrefix(part.test, t.test+"/") {
			return true
		}
	}
	return false
}

// progress is what there is to say while nothing ends.
func (f *follower) progress() string {
	now := f.now()
	head := fmt.Sprintf("... %s: %d tests passed", now.Sub(f.start).Round(time.Second), f.count["pass"])
	if n := f.count["fail"]; n > 0 {
		head += fmt.Sprintf(", %d FAILED", n)
	}
	all := f.running()
	if len(all) == 0 {
		return head + "; compiling\n"
	}
	t := all[0]
	return head + fmt.Sprintf("; %d running, longest %s %s (%s)\n", len(all), t.pkg, t.test, now.Sub(f.began[t]).Round(time.Second))
}

// close says what came of it, and what took longest.
func (f *follower) close() {
	slices.SortStableFunc(f.ended, func(a, b ran) int { return cmp.Compare(b.seconds, a.seconds) })
	var slow []string
	for _, r := range f.ended[:min(3, len(f.ended))] {
		slow = append(slow, fmt.Sprintf("%s %s (%.0f s)", r.pkg, r.test, r.seconds))
	}
	line := fmt.Sprintf("%d tests passed, %d failed, %d skipped in %s", f.count["pass"], f.count["fail"], f.count["skip"], f.now().Sub(f.start).Round(time.Second))
	if len(slow) > 0 {
		line += "; slowest: " + strings.Join(slow, ", ")
	}
	f.print(line + "\n")
}

func (f *follower) print(text string) {
	_, _ = io.WriteString(f.out, text) // when the terminal is gone nobody is left to tell
	f.printed = f.now()
}
