package capacity

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/verdict"
)

// Head is the first line of the table of probes.
func (s *Search) Head() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5s  %-9s  %11s  %5s  %8s  %8s", "probe", "verdict", s.opt.By, "try", "requests", "served/s")
	for _, o := range s.opt.Objectives {
		fmt.Fprintf(&b, "  %*s", max(10, len(o.Key())), o.Key())
	}
	fmt.Fprintf(&b, "  %-7s\n", "so far")
	return b.String()
}

// Row is the line of the probe that was observed last. label stands for the verdict of a probe that has none.
func (s *Search) Row(obs *Observation, label, remark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5d  %-9s  %11s  %5d  %8d  %8.2f", s.Probes(), cmp.Or(label, obs.Grade, "-"), strconv.FormatFloat(obs.Load, 'g', 6, 64), obs.Repeat, obs.Requests, obs.Served)
	for i, o := range s.opt.Objectives {
		fmt.Fprintf(&b, "  %*s", max(10, len(o.Key())), obs.Readings[i].text(o))
	}
	switch {
	case obs.Invalid != "":
		remark = strings.TrimSpace("INVALID, left out: " + obs.Invalid + " " + remark)
	case obs.Aborted != "":
		remark = strings.TrimSpace("ended early: " + obs.Aborted + " " + remark)
	case obs.Grade == string(verdict.InvalidRun):
		remark = strings.TrimSpace("counts: INVALID only for requests the server failed " + remark)
	}
	fmt.Fprintf(&b, "  %-7s  %s\n", s.State(obs.Load), remark)
	return b.String()
}

func (r Reading) text(o figure.Objective) string {
	v := float64(r.Value)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "none"
	case o.Unit == "ratio":
		return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Text is the answer for people.
func (a *Answer) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", a.Sentence)
	for _, why := range a.Why {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	fmt.Fprintf(&b, "  each decided by 99 %% intervals, over %d probes in all; objectives: %s\n", a.Probes, strings.Join(a.Objectives, ", "))
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// Smallest is how many requests the shortest complete probe had.
func (a *Answer) Smallest() int {
	n := math.MaxInt
	for _, l := range a.Levels {
		for i := range l.Probes {
			if l.Probes[i].Aborted == "" {
				n = min(n, l.Probes[i].Requests)
			}
		}
	}
	return n
}
