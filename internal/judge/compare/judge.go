package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"spate/internal/judge/stats"
	"spate/internal/result"
)

// source is where the uncertainty of a comparison comes from.
type source interface {
	describe() string
	metric(d def) contrast
	ranks(d def) *Ranks
}

// summaries are figures without a spread.
type summaries struct{}

func (summaries) describe() string { return "figures only: no records, no repeats" }

func (summaries) metric(def) contrast {
	return contrast{none: "one figure for each side has no spread; records on both sides or repeated runs would show it"}
}

func (summaries) ranks(def) *Ranks { return nil }

func sourceOf(p *pair, defs []def) source {
	switch {
	case len(p.a) > 1 || len(p.b) > 1:
		return newBetween(p.a, p.b)
	case len(p.a[0].slots) > 0 && len(p.b[0].slots) > 0:
		return newWithin(p.a[0], p.b[0], defs)
	}
	return summaries{}
}

// compare judges every metric of two groups of runs.
func (j *job) compare(p pair) Comparison {
	src := sourceOf(&p, j.defs)
	out := Comparison{Setting: p.setting, A: shown(p.nameA, p.a), B: shown(p.nameB, p.b)}
	var tests []*test
	for _, d := range j.defs {
		t := &test{def: d, m: Metric{Name: d.name, Unit: d.unit, Higher: d.higher, Primary: d.primary}}
		if !t.figures(p) {
			continue
		}
		t.contrast = j.contrast(src, p, t)
		t.m.Ranks = src.ranks(d)
		t.floor, t.floored = j.opt.Noise.floor(p, d.name)
		t.margin = math.Log1p(j.opt.Margin)
		if allowed, ok := j.opt.Thresholds.of(d); ok && d.name != errorRate {
			t.margin = min(t.margin, math.Log1p(allowed))
		}
		tests = append(tests, t)
	}
	adjust(tests)
	for _, t := range tests {
		t.judge(len(tests))
		out.Metrics = append(out.Metrics, t.m)
	}
	out.Method = src.describe()
	out.Notes = j.notes(p, src)
	if identical(tests) {
		out.Notes = append(out.Notes, "both sides agree to the last digit: it is the same run twice, or the same simulation with the same seed")
	}
	out.conclude()
	return out
}

// identical reports whether no figure differs at all.
func identical(tests []*test) bool {
	return len(tests) > 1 && !slices.ContainsFunc(tests, func(t *test) bool { return t.m.A != t.m.B })
}

func shown(name string, group []*measured) Shown {
	s := Shown{Name: name}
	var entries []*result.Entry
	for _, t := range group {
		s.Runs, entries = append(s.Runs, t.entry.ID), append(entries, t.entry)
	}
	s.Grades = result.Count(entries)
	return s
}

// test is one metric on its way to a verdict.
type test struct {
	def      def
	m        Metric
	contrast contrast
	shares   *[4]int // failed and due of both sides, for error_rate
	p, adj   float64
	floor    float64 // on the scale of logarithms
	floored  bool
	margin   float64 // likewise
	tail     int     // requests beyond a percentile, on the side with fewer; enoughTail where repeats speak
}

// enoughTail is how many requests must lie beyond a percentile for one run to show a difference in it. The
// few slowest of a run often shared one batch: they are one event, whatever their number.
const enoughTail = 10

// figures fills in the two values; false when a side has none.
func (t *test) figures(p pair) bool {
	if t.def.name == errorRate {
		xa, na := failures(p.a)
		xb, nb := failures(p.b)
		if na == 0 || nb == 0 {
			return false
		}
		t.shares = &[4]int{xa, na, xb, nb}
		t.m.A, t.m.B = 100*float64(xa)/float64(na), 100*float64(xb)/float64(nb)
		return true
	}
	var okA, okB bool
	t.m.A, okA = middle(p.a, t.def.name)
	t.m.B, okB = middle(p.b, t.def.name)
	t.tail = enoughTail
	if t.def.pct > 50 && len(p.a) == 1 && len(p.b) == 1 {
		done := min(p.a[0].due-p.a[0].failed, p.b[0].due-p.b[0].failed)
		t.tail = int(float64(done) * (1 - t.def.pct/100))
	}
	return okA && okB
}

func failures(group []*measured) (failed, due int) {
	for _, t := range group {
		failed += t.failed
		due += t.due
	}
	return failed, due
}

// middle is the geometric mean over repeats: the value whose logarithm is compared.
func middle(group []*measured, name string) (float64, bool) {
	var xs []float64
	for _, t := range group {
		if v, ok := t.values[name]; ok {
			xs = append(xs, v)
		}
	}
	switch {
	case len(xs) == 0:
		return 0, false
	case len(xs) == 1 || slices.Min(xs) <= 0:
		return stats.Mean(xs), true
	}
	return math.Exp(stats.Mean(logs(xs))), true
}

// contrast finds a metric's difference and its uncertainty.
func (j *job) contrast(src source, p pair, t *test) contrast {
	if t.shares != nil {
		return contrast{}
	}
	if t.m.A <= 0 || t.m.B <= 0 {
		return contrast{none: "a value of zero has no ratio"}
	}
	est := math.Log(t.m.B / t.m.A)
	c := src.metric(t.def)
	if c.none != "" {
		if s, ok := j.opt.Noise.scatter(p, t.def.name); ok {
			c = contrast{se: s.se, df: s.df, lent: true}
		}
	}
	c.est = est
	return c
}

// adjust computes p values, alone and by Holm's method among all metrics of the comparison: metrics that
// look at the same requests are far from independent, and Holm's bound holds whatever they share.
func adjust(tests []*test) {
	var with []*test
	for _, t := range tests {
		switch {
		case t.shares != nil:
			s := t.shares
			t.p = stats.FisherExact(s[0], s[1], s[2], s[3])
		case t.contrast.none != "":
			t.p, t.adj = 1, 1
			continue
		case t.contrast.se == 0 && t.contrast.est == 0:
			t.p = 1
		default:
			t.p = stats.TailT(t.contrast.est/t.contrast.se, t.contrast.df)
		}
		with = append(with, t)
	}
	slices.SortStableFunc(with, func(a, b *test) int { return cmp.Compare(a.p, b.p) })
	most := 0.0
	for i, t := range with {
		most = max(most, min(1, float64(len(with)-i)*t.p))
		t.adj = most
	}
}

// judge gives the verdict. An interval within the margin is the same, whichever side of zero it is on;
// one that leaves zero out is a difference, if it stays one among all metrics, is larger than the margin
// and than what equal runs on this machine show, and rests on more than a few requests; anything else
// cannot be told.
func (t *test) judge(metrics int) {
	m, c := &t.m, t.contrast
	if t.shares != nil {
		t.judgeShares(metrics)
		return
	}
	if m.A > 0 && m.B > 0 {
		m.Change = percent(c.est)
	}
	if t.floored {
		m.Floor = percent(t.floor)
	}
	if c.none != "" {
		m.Verdict, m.Why = CannotTell, c.none
		return
	}
	half := stats.CriticalT(c.df, Confidence) * c.se
	m.Low, m.High = percent(c.est-half), percent(c.est+half)
	m.P, m.Adjusted = finite(t.p), finite(t.adj)
	// The first step of Holm's method is what a lone difference would have had to pass.
	level := 1 - (1-Confidence)/float64(metrics)
	m.Detectable = percent((stats.CriticalT(c.df, level) + stats.CriticalT(c.df, 2*Power-1)) * c.se)
	margin := max(t.margin, t.floor)
	switch {
	case math.Abs(c.est)+half <= margin:
		m.Verdict, m.Why = Same, t.sameWhy(margin)
	case c.lent && math.Abs(c.est) <= t.floor:
		m.Verdict, m.Why = Same, t.belowFloor()
	case math.Abs(c.est) <= half:
		m.Verdict, m.Why = CannotTell, unseen(m.Detectable)
	case t.adj > 1-Confidence:
		m.Verdict, m.Why = CannotTell, fmt.Sprintf("p = %.2g alone, but %.2g among %d metrics", t.p, t.adj, metrics)
	case math.Abs(c.est) <= t.floor:
		m.Verdict, m.Why = Same, t.belowFloor()
	case math.Abs(c.est) <= margin:
		m.Verdict, m.Why = CannotTell, fmt.Sprintf("it differs, but perhaps by less than the margin of %.3g %%", *percent(margin))
	case t.tail < enoughTail:
		m.Verdict, m.Why = CannotTell, fmt.Sprintf("only %d requests are beyond this percentile: %d would be enough, or repeated runs", t.tail, enoughTail)
	default:
		m.Verdict = t.direction(c.est)
		m.Why = fmt.Sprintf("p = %.2g among %d metrics", t.adj, metrics)
	}
}

func (t *test) sameWhy(margin float64) string {
	if t.floor > t.margin {
		return fmt.Sprintf("within the noise floor of %.1f %%", 100*math.Expm1(t.floor))
	}
	return fmt.Sprintf("the interval lies within ±%.3g %%", 100*math.Expm1(margin))
}

func (t *test) belowFloor() string {
	return fmt.Sprintf("below the noise floor of %.1f %%", 100*math.Expm1(t.floor))
}

func unseen(detectable *float64) string {
	if detectable == nil || *detectable > 999 {
		return "a difference of ten times could not have been shown either"
	}
	return fmt.Sprintf("less than %.1f %% could not have been shown", *detectable)
}

// direction turns the sign of a difference into a verdict.
func (t *test) direction(d float64) Verdict {
	if (d > 0) == t.def.higher {
		return Better
	}
	return Worse
}

// judgeShares compares shares of failed requests, in points of percent.
func (t *test) judgeShares(metrics int) {
	m, s := &t.m, t.shares
	in := stats.ShareDifference(s[0], s[1], s[2], s[3], Confidence)
	m.Change, m.Low, m.High = finite(m.B-m.A), finite(100*in.Low), finite(100*in.High)
	m.P, m.Adjusted = finite(t.p), finite(t.adj)
	both := (float64(s[0]+s[2]) + 1) / (float64(s[1]+s[3]) + 2)
	se := math.Sqrt(both * (1 - both) * (1/float64(s[1]) + 1/float64(s[3])))
	inf := math.Inf(1)
	level := 1 - (1-Confidence)/float64(metrics)
	m.Detectable = finite(100 * (stats.CriticalT(inf, level) + stats.CriticalT(inf, 2*Power-1)) * se)
	switch {
	case s[0] == 0 && s[2] == 0:
		m.Verdict, m.Why = Same, "no request failed on either side"
	case t.adj <= 1-Confidence:
		m.Verdict, m.Why = t.direction(m.B-m.A), fmt.Sprintf("p = %.2g among %d metrics", t.adj, metrics)
	case max(100*in.High, -100*in.Low) <= 1:
		m.Verdict, m.Why = Same, "the interval lies within ±1 point"
	default:
		m.Verdict, m.Why = CannotTell, fmt.Sprintf("less than %.1f points could not have been shown", *m.Detectable)
	}
}

// percent turns a difference of logarithms into percent.
func percent(log float64) *float64 { return finite(100 * math.Expm1(log)) }

// finite is the number, or nil where JSON has none.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// conclude gives the verdict over all metrics.
func (c *Comparison) conclude() {
	var better, worse, unsure []string
	same, told, open := 0, 0, false
	for i := range c.Metrics {
		m := &c.Metrics[i]
		switch m.Verdict {
		case Better:
			better = append(better, m.short())
		case Worse:
			worse = append(worse, m.short())
		case Same:
			same++
		case CannotTell:
			unsure = append(unsure, m.Name)
			open = open || m.Primary
		}
		if m.Primary {
			told++
		}
	}
	switch {
	case len(worse) > 0 && len(better) > 0:
		c.Verdict = Mixed
		c.Sentence = fmt.Sprintf("%s is worse than %s on %s, and better on %s", c.B.Name, c.A.Name, some(worse), some(better))
	case len(worse) > 0:
		c.Verdict = Worse
		c.Sentence = fmt.Sprintf("%s is worse than %s on %s", c.B.Name, c.A.Name, some(worse))
	case len(better) > 0:
		c.Verdict = Better
		c.Sentence = fmt.Sprintf("%s is better than %s on %s", c.B.Name, c.A.Name, some(better))
	case told > 0 && !open:
		c.Verdict = Same
		c.Sentence = fmt.Sprintf("%s is the same as %s on %d of %d metrics and different on none", c.B.Name, c.A.Name, same, len(c.Metrics))
		if len(unsure) > 0 {
			c.Sentence += fmt.Sprintf("; %d cannot be told: %s", len(unsure), some(unsure))
		}
	default:
		c.Verdict = CannotTell
		c.Sentence = fmt.Sprintf("whether %s and %s differ cannot be told on %d of %d metrics: %s", c.A.Name, c.B.Name, len(unsure), len(c.Metrics), some(unsure))
		if told == 0 {
			c.Sentence = fmt.Sprintf("%s and %s have no figures in common that could be compared", c.A.Name, c.B.Name)
		}
	}
}

// short is a metric with its change, for sentences.
func (m *Metric) short() string {
	if m.Change == nil {
		return m.Name
	}
	return m.Name + " (" + m.ChangeText() + ")"
}

// some lists a few names and counts the rest.
func some(names []string) string {
	const most = 4
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// notes are what a reader must know to use the verdicts.
func (j *job) notes(p pair, src source) []string {
	var out []string
	for _, m := range p.mismatch {
		out = append(out, "compared all the same: "+m)
	}
	switch s := src.(type) {
	case summaries:
		out = append(out, "summaries support no verdict: without requests or repeated runs, nobody knows how much the figures vary")
	case *within:
		if len(s.apart) > 0 {
			out = append(out, "the runs sent different requests, which are not compared in pairs: "+some(s.apart))
		}
		if !j.opt.Noise.knows(p) && !p.a[0].entry.Predicted() {
			out = append(out, "one run for each side: the intervals do not include drift between runs; bench --repeat with --interleave, or a learned noise floor, adds it")
		}
		if s.size < 30 {
			out = append(out, fmt.Sprintf("the requests of a run depend on each other so much that they say as little as %.0f independent ones", s.size))
		}
	}
	for _, g := range [][]*measured{p.a, p.b} {
		for _, t := range g {
			if t.unread != nil {
				out = append(out, "only the figures of "+t.entry.Name+" are used: "+t.unread.Error())
			}
		}
		if x, n := failures(g); n > 0 && float64(x) > 0.01*float64(n) {
			out = append(out, fmt.Sprintf("%d of %d requests of %s failed; latencies are of the others", x, n, g[0].entry.Name))
		}
	}
	return append(out, suspect(p.a, p.b)...)
}
