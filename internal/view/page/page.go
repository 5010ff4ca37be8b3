// Package page writes results as one HTML file that needs nothing else: no network, no other file, no server.
// runs gives it entries, curve the data of every chart and table the settings that tell results apart; the
// report command writes what it returns.
//
// Read this file first, then data.go (what the charts are made of), results.go and run.go (what is there without
// JavaScript); html.go writes it down. assets holds what runs in the browser: scale.js, chart.js and pointer.js are
// a small chart library, waterfall.js draws requests and page.js puts them into the page.
package page

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"spate/internal/call"
	"spate/internal/result"
	"spate/internal/safe/escape"
	"spate/internal/view/curve"
	"spate/internal/view/table"
)

//go:embed assets
var assets embed.FS

// scripts are joined in this order.
var scripts = []string{"scale.js", "chart.js", "pointer.js", "waterfall.js", "page.js"}

// Section is something said about the results elsewhere, to be shown among them.
type Section struct {
	Title     string
	Sentences []string
	Run       string // ID of the run it belongs to; empty: all of them
}

// Options are what a page has besides its results.
type Options struct {
	Title    string       // made up from the results when empty
	Says     []string     // "What it says", a sentence each
	Explain  []Section    // why the figures are what they are
	Pivot    *table.Pivot // what differs on purpose, side by side; nil: nothing does
	GroupBy  []string     // settings that make a curve of their own; none: what differs besides the load
	Footer   string       // who made the page; the tool that made the results when empty
	MaxBars  int          // requests drawn one by one, over all runs together; 120,000 when 0
	MaxLines int          // runs whose distributions are drawn; 40 when 0
}

// manyRuns is from how many on a page leaves to the run folders what is nearly the same for all: settings and
// environment, and most lines of distributions. It would be most of the file.
const manyRuns = 40

// unfolded is how many sentences of a section are shown at once.
const unfolded = 8

// view is what html.go writes.
type view struct {
	CSP, Title, Subtitle, Footer string
	Style, Script, Data          escape.Raw
	Nav                          []link
	Says                         []string
	Cards                        []card
	Results                      *grid
	Pivot                        *pivotView
	Load                         *loadView
	Pareto                       bool
	Spread                       []choice
	Explain                      []section
	Runs                         []*runView
}

type link struct{ ID, Name string }

type choice struct{ Key, Name string }

// loadView are the choices of the curves over load.
type loadView struct {
	Loads, Stats []choice
	Latencies    []string
}

type section struct {
	Section
	ID    int
	First bool
}

// Write writes the page of a set of results.
func Write(w io.Writer, set []result.Entry, opt Options) error {
	return write(w, set, opt, (*result.Entry).Records)
}

// recordsOf finds the records of an entry.
type recordsOf func(*result.Entry) ([]call.Record, error)

func write(w io.Writer, set []result.Entry, opt Options, records recordsOf) error {
	opt.MaxBars = cmp.Or(opt.MaxBars, 120_000)
	if len(set) > manyRuns {
		opt.MaxLines = cmp.Or(opt.MaxLines, manyRuns/3)
	}
	opt.MaxLines = cmp.Or(opt.MaxLines, manyRuns)
	set = inOrder(set, opt)
	d, err := collect(set, opt, records)
	if err != nil {
		return err
	}
	v, err := newView(set, d, opt)
	if err != nil {
		return err
	}
	var out html
	out.page(v)
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// inOrder puts runs of one set-up together, by rising load: the order of tables, legends and choices.
func inOrder(set []result.Entry, opt Options) []result.Entry {
	out := make([]result.Entry, 0, len(set))
	for _, g := range curve.Groups(set, opt.GroupBy) {
		for _, i := range g.Members {
			out = append(out, set[i])
		}
	}
	return out
}

func newView(set []result.Entry, d *data, opt Options) (*view, error) {
	v := &view{Title: opt.Title, Says: opt.Says, Pareto: d.has("pareto"), Footer: opt.Footer}
	if err := v.embed(d); err != nil {
		return nil, err
	}
	names := curve.Names(set)
	for i := range set {
		r := newRun(i, names[i], &set[i], d, opt)
		r.Alone = len(set) == 1
		if len(set) > manyRuns && set[i].Run != nil {
			r.Environment, r.Config, r.Elsewhere = nil, "", true
		}
		v.Runs = append(v.Runs, r)
	}
	v.describe(set, names)
	v.Cards = overview(set, curve.Legend(set))
	if slices.ContainsFunc(set, func(e result.Entry) bool { return e.Measured() }) {
		g, err := table.New(set, table.Options{})
		if err != nil {
			return nil, fmt.Errorf("lay out results: %w", err)
		}
		v.Results = results(set, names, g)
	}
	v.Pivot = newPivot(opt.Pivot)
	v.Load = d.loads
	v.Spread = d.spread
	for i, s := range opt.Explain {
		if s.Run == "" {
			v.Explain = append(v.Explain, section{Section: s, ID: i, First: len(v.Explain) == 0})
		}
	}
	v.navigate()
	return v, nil
}

// embed puts style, script and data into the page, and the hashes of what may run into its policy: nothing
// else does, even if a result's text should become markup.
func (v *view) embed(d *data) error {
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return fmt.Errorf("read style: %w", err)
	}
	var script strings.Builder
	for _, name := range scripts {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return fmt.Errorf("read script: %w", err)
		}
		script.Write(text)
	}
	encoded, err := json.Marshal(d) // escapes <, > and &
	if err != nil {
		return fmt.Errorf("encode chart data: %w", err)
	}
	v.Style = escape.Raw(style)
	v.Script = escape.Raw(script.String())
	v.Data = escape.Raw(encoded)
	v.CSP = escape.Policy(string(v.Script), string(style))
	return nil
}

// describe names the page after what it shows.
func (v *view) describe(set []result.Entry, names []string) {
	if v.Title == "" {
		v.Title = fmt.Sprintf("%d results", len(set))
		if models := distinct(set, "model"); len(models) == 1 {
			v.Title = models[0]
			if len(set) > 1 {
				v.Title += fmt.Sprintf(", %d results", len(set))
			}
		} else if len(set) == 1 {
			v.Title = names[0]
		}
	}
	var parts []string
	for _, key := range []struct{ name, many string }{{"model", "models"}, {"backend", "backends"}, {"dataset", "datasets"}} {
		switch all := distinct(set, key.name); {
		case len(all) == 1 && all[0] != v.Title && !strings.HasPrefix(v.Title, all[0]+","):
			parts = append(parts, strings.TrimSuffix(key.many, "s")+" "+all[0])
		case len(all) > 1:
			parts = append(parts, fmt.Sprintf("%d %s", len(all), key.many))
		}
	}
	parts = append(parts, period(set)...)
	v.Subtitle = strings.Join(parts, " · ")
	if v.Footer == "" {
		v.Footer = "Made by spate. This file is complete: it loads nothing and sends nothing."
	}
}

// distinct are the values of a setting in the set, in order.
func distinct(set []result.Entry, key string) []string {
	var out []string
	seen := map[string]bool{}
	for i := range set {
		if v := set[i].Setting(key); v != "" && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// period says when spate's own runs were made.
func period(set []result.Entry) []string {
	var first, last string
	for i := range set {
		if r := set[i].Run; r != nil && !r.Started.IsZero() {
			at := r.Started.UTC().Format("2006-01-02 15:04 UTC")
			if first == "" || at < first {
				first = at
			}
			if at > last {
				last = at
			}
		}
	}
	switch {
	case first == "":
		return nil
	case first == last:
		return []string{first}
	}
	return []string{first + " to " + last}
}

// navigate lists the sections there are.
func (v *view) navigate() {
	add := func(there bool, id, name string) {
		if there {
			v.Nav = append(v.Nav, link{id, name})
		}
	}
	add(len(v.Cards) > 0 || len(v.Runs) == 1, "overview", "Overview")
	add(len(v.Says) > 0, "says", "What it says")
	add(v.Pivot != nil, "pivot", "Compared")
	add(v.Results != nil, "results", "Results")
	add(v.Load != nil, "load", "Load")
	add(v.Pareto, "pareto", "Pareto")
	add(len(v.Spread) > 0, "latency", "Latency")
	add(len(v.Explain) > 0, "explain", "Explain")
	add(len(v.Runs) > 1, "runs", "One run")
	if len(v.Runs) == 1 {
		r := v.Runs[0]
		add(len(r.Time) > 0, "time", "Over time")
		add(r.Errors != nil, "errors", "Errors")
		add(r.Checks != nil, "checks", "Verdict")
		add(len(r.Commands) > 0, "environment", "Environment")
	}
}
