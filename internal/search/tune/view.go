package tune

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"spate/internal/safe/escape"
)

// View shows a search: one line for each observation, and on a terminal a line below them that is
// drawn over itself with what runs now, the best so far and the time left.
type View struct {
	File    *File
	W       io.Writer
	TTY     bool
	Virtual bool // steps take no time, whatever they say

	head  bool
	drawn bool
	began time.Time
	had   int  // observations of earlier sittings
	doubt bool // it was said that the simulator is not heard any more
}

// Show tells where the search stands.
func (v *View) Show(pr Progress) {
	if v.began.IsZero() {
		v.began = time.Now()
	}
	if v.drawn {
		_, _ = io.WriteString(v.W, "\r\x1b[K") // the line is spate's own
		v.drawn = false
	}
	if pr.Earlier {
		v.had = len(pr.History)
		escape.Print(v.W, "%d steps of an earlier start are in the journal; going on\n", v.had)
		return
	}
	if pr.Last != nil {
		v.row(pr)
		if why := pr.Tuner.Doubt(pr.History); why != "" && !v.doubt {
			v.doubt = true
			escape.Print(v.W, "%s\n", why)
		}
	}
	if pr.Now != nil {
		text := v.status(pr)
		if v.TTY {
			escape.Print(v.W, "%s", text)
			v.drawn = true
		}
	}
}

// row is one line of the table.
func (v *View) row(pr Progress) {
	o := pr.Last
	if !v.head {
		v.head = true
		took := "took"
		if v.Virtual {
			took = "would take"
		}
		escape.Print(v.W, "%4s  %-7s  %5s  %9s  %12s  %10s  %s\n", "step", "phase", "trial", "rate/s", v.File.Objective.Title(), took, "")
	}
	rate := "-"
	switch {
	case o.Rate == Burst:
		rate = "inf"
	case o.Rate > 0:
		rate = strconv.FormatFloat(o.Rate, 'g', 4, 64)
	}
	value, text := fmt.Sprintf("%.4g", o.Value), v.File.Short(o)
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
	escape.Print(v.W, "%4d  %-7s  %5d  %9s  %12s  %9.1fs  %s\n", o.N, o.Phase, o.Trial, rate, value, o.TookS, text)
}

// status is what runs now.
func (v *View) status(pr Progress) string {
	text := fmt.Sprintf("step %d: %s, trial %d of %d", pr.Now.N, pr.Now.Phase, pr.Now.Trial, v.File.Trials)
	best := math.Inf(-1)
	for i := range pr.History {
		if o := &pr.History[i]; o.Phase == Trial && o.Counts() && o.Violation == 0 && o.Share >= 1 && o.Score > best {
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
func (v *View) left(history []Observation) time.Duration {
	sum, n, trials := 0.0, 0, 0
	for i := range history {
		sum, n = sum+history[i].TookS, n+1
		if history[i].Phase == Trial {
			trials++
		}
	}
	if n == 0 || trials == 0 {
		return 0
	}
	f := v.File
	steps := max(0, f.Trials-trials) + f.Repeats*(f.Finalists+1)
	if f.Held != nil {
		steps += 2 * f.Repeats
	}
	if f.DriftOver > 0 {
		steps += max(0, f.Trials-trials) / f.DriftOver
	}
	for i := range history {
		if p := history[i].Phase; p == Final || p == Holdout {
			steps--
		}
	}
	secs := sum / float64(n) * float64(max(0, steps))
	if v.Virtual {
		if n <= v.had {
			return 0
		}
		secs = time.Since(v.began).Seconds() / float64(n-v.had) * float64(max(0, steps))
	} else if f.Time > 0 && sum < f.Time {
		secs = min(secs, f.Time-sum)
	}
	return time.Duration(secs * float64(time.Second))
}
