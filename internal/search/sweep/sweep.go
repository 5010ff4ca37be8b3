// Package sweep measures a server at many points: every combination of some settings, or a list of
// them, each several times, on one server or on several that it starts and stops. A Suite is what a
// user asks for (file.go reads it from YAML, flags.go from a command line), a Plan is the points that
// follow from it, a Folder keeps the results and a journal, and Run measures whatever the folder does
// not have yet, so that an interrupted sweep goes on where it ended. Package trial keeps the folder, and its
// executor makes the runs. Tables are made from the results.
//
// Read this file, then plan.go and run.go; server.go says how a server is started.
package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spate/internal/trial"
)

// Suite is a sweep as it is asked for.
type Suite struct {
	Name     string
	Bench    []Setting // of every point
	Servers  []Server  // none: the one that Bench names
	Shape              // what is gone through
	Repeat   int
	Order    Order
	Seed     uint64 // of a random order
	Cooldown time.Duration
	Cache    trial.Cache
	Predict  string // profile to predict with instead of measuring
	Sim      string // profile that stands for the server when --sim names none

	file string
}

// Shape says which settings are gone through. Every entry of Points is a grid of its own; Grid is
// crossed with each of them.
type Shape struct {
	Grid   []Axis
	Points [][]Axis
}

// Axis is one flag with the values it takes.
type Axis struct {
	Flag   string
	Values [][]string // words of each value
	line   int
}

// Setting is one flag of bench with its words; a switch has none.
type Setting struct {
	Flag  string   `json:"flag"`
	Words []string `json:"words,omitempty"`
	line  int
}

// Server is one of the servers points are measured on.
type Server struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Bench  []Setting         `json:"bench,omitempty"`
	Launch *Launch           `json:"launch,omitempty"` // nil: it runs already
	Sim    string            `json:"sim,omitempty"`    // profile that stands for it when --sim names none
	Shape  *Shape            `json:"-"`                // its own, instead of the suite's
	line   int
}

// Order is the order in which points are measured.
type Order string

// Orders. In both, every point has had its first measurement before one has its second.
const (
	Given  Order = "given"
	Random Order = "random"
)

// Launch is how a server is started.
type Launch struct {
	Command []string          `json:"command"`        // one string is for the shell, several are the program and its arguments
	Stop    []string          `json:"stop,omitempty"` // likewise; run when it has ended: ends what runs elsewhere
	Env     map[string]string `json:"env,omitempty"`
	GPUs    string            `json:"gpus,omitempty"` // those it may use, such as 0,1; empty: all it sees
	URL     string            `json:"url,omitempty"`  // where it answers; with {port} in the command that port on loopback
	Ready   time.Duration     `json:"ready_ns"`       // how long it may take until it does
	Grace   time.Duration     `json:"grace_ns"`       // between asking it to end and ending it
}

// Defaults of a launch.
const (
	defaultReady = 10 * time.Minute
	defaultGrace = 20 * time.Second
	defaultURL   = "http://127.0.0.1:8000"
)

// arg is the setting as arguments of bench.
func (s Setting) args() []string {
	if len(s.Words) == 0 {
		return []string{"--" + s.Flag}
	}
	out := make([]string, len(s.Words))
	for i, w := range s.Words {
		out[i] = "--" + s.Flag + "=" + w
	}
	return out
}

// Text is the setting's value for people, without secrets.
func (s Setting) Text() string {
	if len(s.Words) == 0 {
		return "on"
	}
	return strings.Join(redact([]Setting{s})[0].Words, " ")
}

func (s Setting) String() string { return s.Flag + "=" + s.Text() }

// overlay puts settings over others: a flag given again replaces what was there, under whatever
// spelling.
func overlay(under, over []Setting) []Setting {
	out := slices.DeleteFunc(slices.Clone(under), func(s Setting) bool {
		return slices.ContainsFunc(over, func(o Setting) bool { return canonical(o.Flag) == canonical(s.Flag) })
	})
	return append(out, over...)
}

// describe joins settings for people.
func describe(list []Setting) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = s.String()
	}
	return strings.Join(words, " ")
}

// same compares anything that is written to the plan file.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// mistake is something wrong with a suite.
type mistake struct{ text string }

func (m *mistake) Error() string { return m.text }

func wrong(format string, args ...any) error { return &mistake{fmt.Sprintf(format, args...)} }
