package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"spate/internal/search/tune"
)

// tuneView shows a search: one line for each observation, and on a terminal a line below them that is
// drawn over itself with what runs now, the best so far and the time left.
type tuneView struct {
	h     *hunted
	tty   bool
	quiet bool // nothing but the outcome
	head  bool
	drawn bool
	began time.Time
	had   int // observations of earlier sittings

	virtual bool // steps take no time, whatever they say
	doubt   bool // it was said that the simulator is not heard any more
}

func (h *hunted) view() *tuneView {
	return &tuneView{h: h, tty: h.p.view("").TTY, began: time.Now()}
}

func (v *tuneView) show(pr tune.Progress) {
	if v.quiet {
		return
	}
	w := v.h.p.Stderr
	if v.drawn {
		_, _ = io.WriteString(w, "\r\x1b[K") // the line is spate's own
		v.drawn = false
	}
	if pr.Earlier {
		v.had = len(pr.History)
		say(w, "%d steps of an earlier sitting are in the journal; going on\n", v.had)
		return
	}
	if pr.Last != nil {
		v.row(pr)
		if why := pr.Tuner.Doubt(pr.History); why != "" && !v.doubt {
			v.doubt = true
			say(w, "%s\n", why)
		}
	}
	if pr.Now != nil {
		text := v.status(pr)
		if v.tty {
			say(w, "%s", text)
			v.drawn = true
		}
	}
}

// row is one line of the table.
func (v *tuneView) row(pr tune.Progress) {
	w, o := v.h.p.Stderr, pr.Last
	if !v.head {
		v.head = true
		took := "took"
		if v.virtual {
			took = "would take"
		}
		say(w, "%4s  %-7s  %5s  %9s  %12s  %10s  %s\n", "step", "phase", "trial", "rate/s", v.h.f.Objective.Title(), took, "")
	}
	rate := "-"
	switch {
	case o.Rate == tune.Burst:
		rate = "inf"
	case o.Rate > 0:
		rate = strconv.FormatFloat(o.Rate, 'g', 4, 64)
	}
	value, text := fmt.Sprintf("%.4g", o.Value), v.h.f.Short(o)
	switch {
	case o.Failure != nil:
		value, text = string(o.Failure.Kind), "FAILED: "+o.Failure.Line
	case o.Invalid() != nil:
		text = o.Trouble() + "; " + text
	case o.Violation > 0:
		text = "misses " + o.Missed[0] + "; " + text
	}
	if o.Early != "" {
		text = "ended early: " + o.Early + "; " + text
	}
	if left := v.left(pr.History); left > 0 {
		text += fmt.Sprintf("  [%s left]", left.Round(time.Second))
	}
	say(w, "%4d  %-7s  %5d  %9s  %12s  %9.1fs  %s\n", o.N, o.Phase, o.Trial, rate, value, o.TookS, text)
}

// status is what runs now.
func (v *tuneView) status(pr tune.Progress) string {
	text := fmt.Sprintf("step %d: %s, trial %d of %d", pr.Now.N, pr.Now.Phase, pr.Now.Trial, v.h.f.Trials)
	best := math.Inf(-1)
	for i := range pr.History {
		if o := &pr.History[i]; o.Phase == tune.Trial && o.Counts() && o.Violation == 0 && o.Share >= 1 && o.Score > best {
			best = o.Score
		}
	}
	if !math.IsInf(best, -1) {
		text += fmt.Sprintf("; best so far %.4g", math.Abs(best))
	}
	if left := v.left(pr.History); left > 0 {
		text += fmt.Sprintf("; about %s left", left.Round(time.Second))
	}
	return text
}

// left is what the rest may take, judging by what was measured.
func (v *tuneView) left(history []tune.Observation) time.Duration {
	sum, n, trials := 0.0, 0, 0
	for i := range history {
		sum, n = sum+history[i].TookS, n+1
		if history[i].Phase == tune.Trial {
			trials++
		}
	}
	if n == 0 || trials == 0 {
		return 0
	}
	f := v.h.f
	steps := max(0, f.Trials-trials) + f.Repeats*(f.Finalists+1)
	if f.Held != nil {
		steps += 2 * f.Repeats
	}
	if f.DriftOver > 0 {
		steps += max(0, f.Trials-trials) / f.DriftOver
	}
	for i := range history {
		if p := history[i].Phase; p == tune.Final || p == tune.Holdout {
			steps--
		}
	}
	secs := sum / float64(n) * float64(max(0, steps))
	if v.virtual {
		if n <= v.had {
			return 0
		}
		secs = time.Since(v.began).Seconds() / float64(n-v.had) * float64(max(0, steps))
	} else if f.Time > 0 && sum < f.Time {
		secs = min(secs, f.Time-sum)
	}
	return time.Duration(secs * float64(time.Second))
}
