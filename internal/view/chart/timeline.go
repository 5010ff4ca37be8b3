// Package chart draws pictures of a run that stand alone: an HTML timeline of requests and a PNG of
// the lengths sent, as vLLM's --plot-timeline and --plot-dataset-stats do. It gets records from bench
// and computes no figure of its own. Read timeline.go first.
package chart

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"spate/internal/call"
	"spate/internal/safe/escape"
)

//go:embed timeline.html
var page string

//go:embed timeline.css
var style string

//go:embed timeline.js
var script string

// bar is one request on the timeline, in milliseconds: the first token and the gaps after it.
type bar struct {
	Name  string    `json:"n"`
	Start float64   `json:"s"`
	First float64   `json:"f"`
	Gaps  []float64 `json:"g"`
	In    int       `json:"i"`
	Out   int       `json:"o"`
	Fault string    `json:"e,omitempty"`
}

// Timeline writes a page that shows each request as a bar: waiting for its first token, then one
// piece per gap between chunks, coloured by the two bounds in milliseconds. It needs no network.
func Timeline(w io.Writer, title string, recs []call.Record, bounds [2]float64) error {
	bars := timelineBars(recs)
	data, err := json.Marshal(bars)
	if err != nil {
		return fmt.Errorf("encode timeline: %w", err)
	}
	code := fmt.Sprintf("\"use strict\";\nconst bars = %s, low = %g, high = %g;\n%s", data, bounds[0], bounds[1], script)
	// The script is our own, and json.Marshal escapes what could end it.
	text := escape.HTML(page, escape.Policy(code, style), title, escape.Raw(style), title, len(bars), bounds[0], bounds[1], bounds[1], escape.Raw(code))
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}

func timelineBars(recs []call.Record) []bar {
	bars := []bar{}
	for i := range recs {
		r := &recs[i]
		if r.Phase != call.Measure || r.Retried || r.Sent < 0 {
			continue
		}
		b := bar{Name: r.Name, Start: millis(r.Sent), In: r.In.N, Out: r.Out.N, Fault: string(r.Fault), Gaps: []float64{}}
		last := r.Sent
		for j, c := range r.Chunks {
			gap := millis(c.At - last)
			last = c.At
			if j == 0 {
				b.First = gap
				continue
			}
			b.Gaps = append(b.Gaps, gap)
		}
		if len(r.Chunks) == 0 {
			b.First = millis(max(r.End-r.Sent, 0))
		}
		bars = append(bars, b)
	}
	slices.SortStableFunc(bars, func(a, b bar) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	if len(bars) > 0 {
		zero := bars[0].Start
		for i := range bars {
			bars[i].Start = round(bars[i].Start - zero)
		}
	}
	return bars
}

// millis rounds to a microsecond: finer digits would only make the page larger.
func millis(d time.Duration) float64 { return round(call.Millis(d)) }

func round(ms float64) float64 { return math.Round(ms*1e3) / 1e3 }
