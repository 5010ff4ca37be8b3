// Package alarms measures how often the verdict is wrong. A verdict is a test, and a test has two errors: false alarms,
// runs with nothing wrong that are not VALID, and misses, runs with one thing wrong that are VALID or blamed on something
// else. It runs `spate sim` and `spate bench` as processes of their own, on cores of their own, first with nothing wrong
// and then with one thing bent at a time, and counts what the verdict says.
//
// `spate selftest verdict` runs it for docs/verdict.md. Read this file first, then clean.go and bent.go (what is run),
// lab.go (how) and report.go (what came of it).
package alarms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"spate/internal/host/probe"
)

// Plan is what is to be measured.
type Plan struct {
	Clean    int           // runs with nothing wrong
	Bent     int           // runs for each way of being wrong, at each of its two sizes
	Only     []string      // checks to bend; empty for all
	Seed     uint64        // of the clean runs' settings, and of prompts
	Parallel int           // runs at once, each on cores of its own
	Budget   time.Duration // runs are not begun after this; 0 for no bound
	Program  string        // spate's executable
	Dir      string        // where runs are made; they are removed again

	Say  func(string)        // told what goes on
	Each func(Outcome) error // given each run as it ends
}

// Outcome is what the verdict said of one run.
type Outcome struct {
	Name   string   `json:"name"`
	Check  string   `json:"check,omitempty"`  // the check that something was bent for; empty for a clean run
	Size   int      `json:"size,omitempty"`   // 1 at the check's bound, 3 at three times it
	How    How      `json:"how,omitempty"`    // of bent runs
	Server []string `json:"server,omitempty"` // flags of spate sim
	Client []string `json:"client,omitempty"` // flags of spate bench
	Grade  string   `json:"grade,omitempty"`
	Bad    []Bad    `json:"findings,omitempty"` // those that are not ok
	Named  bool     `json:"named,omitempty"`    // what was bent is among them
	Error  string   `json:"error,omitempty"`    // why there is no verdict
	Took   float64  `json:"took_s"`
}

// Bad is a finding that is not ok.
type Bad struct {
	Name     string `json:"name"`
	Level    string `json:"level"`
	Sentence string `json:"sentence"`
}

// How is how something was made to go wrong.
type How string

// The ways: most things are done to the server, the load or the client's process. What only an administrator or a fault
// in spate can bring about is put into the figures of a finished run.
const (
	ByServer  How = "server"
	ByLoad    How = "load"
	ByProcess How = "process"
	ByFigure  How = "figure"
)

// job is one run to do.
type job struct {
	name   string
	check  string
	also   []string // further checks that name the same thing
	size   int
	how    How
	script string   // of the server's rules
	data   string   // of a dataset, for --dataset-path
	server []string // flags of spate sim
	client []string // flags of spate bench
	harm   harm
	bend   func(*figures) // for ByFigure
}

// harm is what is done to the client's process while it runs.
type harm struct {
	after   time.Duration // since its first answer
	stop    time.Duration // it is stopped for so long
	every   time.Duration // again after so long; 0 for once
	burners int           // other processes on its only core
	nice    int           // by so much it has to stand back for them
}

// Run does the plan's runs, and says what came of them. When ctx or the time is over, it tells of those that ended.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	jobs, err := p.jobs()
	if err != nil {
		return nil, err
	}
	l, err := newLab(&p)
	if err != nil {
		return nil, err
	}
	rep := &Report{Schema: 1, Host: probe.ReadHost(""), Seed: p.Seed, Parallel: p.Parallel, Planned: len(jobs)}
	began := time.Now()
	over := func() bool { return ctx.Err() != nil || p.Budget > 0 && time.Since(began) > p.Budget }
	work := make(chan job)
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for slot := range p.Parallel {
		wg.Go(func() {
			for j := range work {
				out := l.run(ctx, slot, j)
				if ctx.Err() != nil {
					continue // it was cut off
				}
				mu.Lock()
				rep.Runs = append(rep.Runs, out)
				p.Say(fmt.Sprintf("%d of %d: %s", len(rep.Runs), len(jobs), out.line()))
				failed = errors.Join(failed, p.Each(out))
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		if over() {
			break
		}
		work <- j
	}
	close(work)
	wg.Wait()
	rep.TookS = time.Since(began).Seconds()
	return rep, failed
}

// jobs are all runs, the bent ones in turns, so that a budget cuts all of them alike.
func (p *Plan) jobs() ([]job, error) {
	known := Checks()
	for _, name := range p.Only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--only %s: no such check is bent; there are %v", name, known)
		}
	}
	jobs := cleanJobs(p.Clean, p.Seed)
	for i := range p.Bent {
		for _, j := range bentJobs() {
			if len(p.Only) > 0 && !slices.Contains(p.Only, j.check) {
				continue
			}
			j.client = append(slices.Clip(j.client), "--seed", fmt.Sprint(p.Seed+uint64(i)))
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// Checks are the names of what is bent, in the verdict's order where they are its checks.
func Checks() []string {
	var names []string
	for _, j := range bentJobs() {
		if !slices.Contains(names, j.check) {
			names = append(names, j.check)
		}
	}
	return names
}

// line is an outcome in a few words.
func (o *Outcome) line() string {
	s := o.Name
	switch {
	case o.Error != "":
		return s + ": no verdict: " + o.Error
	case o.Check == "":
		s += ": " + o.Grade
	case o.Named:
		s += ": found"
	case len(o.Bad) > 0:
		s += ": found, but called something else"
	default:
		s += ": missed"
	}
	if len(o.Bad) > 0 && !o.Named {
		s += " (" + o.Bad[0].Name + ": " + o.Bad[0].Sentence + ")"
	}
	return s
}
