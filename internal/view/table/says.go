package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/result"
)

// Says is what the figures say, in sentences with their figures: which setting wins on what and by how
// much, where more load stops giving more, what failed, how far repeats lie apart. It claims nothing
// about noise that single runs cannot show.
func Says(set []result.Entry, opt Options) []string {
	g, err := New(set, Options{})
	if err != nil {
		return nil
	}
	out := g.failures()
	out = append(out, g.rest()...)
	contests, repeats := g.compared(set, opt), g.repeats()
	out = append(out, contests...)
	out = append(out, g.ladders()...)
	out = append(out, repeats...)
	if len(contests) > 0 && len(repeats) == 0 {
		out = append(out, "Each row is one run, so it is not known how much of a difference is noise; `spate compare` shows it where records or repeats exist.")
	}
	return out
}

// rest takes out the rows that nothing may be said from, and says which those are.
func (g *Grid) rest() []string {
	all := make([]*result.Entry, len(g.Rows))
	for i := range g.Rows {
		all[i] = g.Rows[i].Entry
	}
	basis := result.BasisOf(all)
	var out []string
	if basis.Predicted {
		out = append(out, "These results are predicted by the simulator, not measured.")
	}
	left := map[string][]string{}
	var use []Row
	for _, r := range g.Rows {
		if basis.Holds(r.Entry) {
			use = append(use, r)
			continue
		}
		left[r.Entry.Grade()] = append(left[r.Entry.Grade()], g.name(r))
	}
	for _, grade := range slices.Sorted(maps.Keys(left)) {
		names := left[grade]
		are := "are"
		if len(names) == 1 {
			are = "is"
		}
		text := fmt.Sprintf("%d of %d results %s %s and not compared: %s", len(names), len(all), are, grade, strings.Join(names[:min(len(names), 6)], "; "))
		if more := len(names) - 6; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out = append(out, text+".")
	}
	g.Rows = use
	return out
}

// name is what tells a row from the others, in words.
func (g *Grid) name(r Row) string {
	if text := g.words(r, func(Factor) bool { return true }); text != "" {
		return text
	}
	return r.Entry.Name
}

// measures are the figures settings compete on.
var measures = figure.List("output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_itl_ms")

// workload reports whether a factor is part of what was asked, not of who answered.
func workload(f Factor) bool {
	return f.Load || f.Key == "dataset" || f.Key == "input_len" || f.Key == "output_len"
}

// by sorts rows into those equal in the factors that keep chooses, in the order they stand.
func (g *Grid) by(keep func(Factor) bool) [][]Row {
	var order []string
	groups := map[string][]Row{}
	for _, r := range g.Rows {
		key := g.words(r, keep)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
	}
	out := make([][]Row, len(order))
	for i, key := range order {
		out[i] = groups[key]
	}
	return out
}

// words are a row's settings that keep chooses.
func (g *Grid) words(r Row, keep func(Factor) bool) string {
	var parts []string
	for i, f := range g.Factors {
		if keep(f) && r.Settings[i] != "" {
			text := r.Settings[i]
			if isNumber(text) || workload(f) || f.Key == "model" || f.Key == "backend" { // a number alone says nothing
				text = f.Title + " " + text
			}
			if !slices.Contains(parts, text) { // a label that repeats the setting
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// who is what answered; a setting named after the model says it once.
func (g *Grid) who(r Row) string {
	setting := r.Entry.Setting(result.TheSetting)
	return g.words(r, func(f Factor) bool {
		base := r.Entry.Setting("model")
		base = base[strings.LastIndexByte(base, '/')+1:]
		return !workload(f) && !(f.Key == "model" && base != "" && strings.Contains(setting, base))
	})
}

// fewConditions is up to how many of them every one gets sentences of its own.
const fewConditions = 3

// compared is what differs on purpose: the levels of one factor under the same conditions.
func (g *Grid) compared(set []result.Entry, opt Options) []string {
	p, err := NewPivot(set, opt.By, opt.Baseline, nil)
	switch {
	case err != nil || p == nil:
		return nil
	case opt.By != "" || len(p.Conditions) > fewConditions:
		return p.Says()
	}
	return g.contests(func(f Factor) bool { return workload(f) || f.Key == "model" && p.Factor.Key != "model" })
}

// contests are the settings that answered under the same conditions.
func (g *Grid) contests(condition func(Factor) bool) []string {
	var out []string
	for _, rows := range g.by(condition) {
		names := map[string]bool{}
		for _, r := range rows {
			names[g.who(r)] = true
		}
		if len(names) < 2 || slices.ContainsFunc(g.Factors, func(f Factor) bool { return f.Key == runKey }) {
			continue
		}
		at := g.words(rows[0], condition)
		if at != "" {
			at = "At " + at + ": "
		}
		for _, m := range measures {
			if text := g.contest(rows, m); text != "" {
				out = append(out, at+text)
			}
		}
	}
	return out
}

// contest says who wins one measure.
func (g *Grid) contest(rows []Row, m figure.Ref) string {
	ranked := withFigure(rows, m.Key())
	if len(ranked) < 2 {
		return ""
	}
	slices.SortStableFunc(ranked, func(a, b Row) int {
		if m.Better == figure.Higher {
			a, b = b, a
		}
		return cmp.Compare(value(a, m.Key()), value(b, m.Key()))
	})
	best, next, last := ranked[0], ranked[1], ranked[len(ranked)-1]
	x, y, z := value(best, m.Key()), value(next, m.Key()), value(last, m.Key())
	if m.Better == figure.Higher && g.offered(rows) {
		return fmt.Sprintf("every setting keeps up with the load, so %s does not show a difference (%s to %s %s).",
			m.Words(), Cell(last.Entry, m.Key()), Cell(best.Entry, m.Key()), m.Unit)
	}
	if ratio(x, z) < 1.02 {
		return fmt.Sprintf("%s is within 2 %% for all (%s to %s %s).", m.Words(), Cell(best.Entry, m.Key()), Cell(last.Entry, m.Key()), m.Unit)
	}
	word, side := "lowest", "below"
	if m.Better == figure.Higher {
		word, side = "highest", "above"
	}
	if ratio(x, y) < 1.02 {
		return fmt.Sprintf("the %s %s is a tie within 2 %%: %s %s (%s) and %s (%s); the last is %s (%s).", word, m.Words(),
			Cell(best.Entry, m.Key()), m.Unit, g.who(best), Cell(next.Entry, m.Key()), g.who(next), Cell(last.Entry, m.Key()), g.who(last))
	}
	text := fmt.Sprintf("%s has the %s %s, %s %s, %s %s the next (%s: %s)", g.who(best), word, m.Words(), Cell(best.Entry, m.Key()), m.Unit,
		apart(x, y), side, g.who(next), Cell(next.Entry, m.Key()))
	if len(ranked) > 2 {
		text += fmt.Sprintf(" and %s %s the last (%s: %s)", apart(x, z), side, g.who(last), Cell(last.Entry, m.Key()))
	}
	return text + "."
}

// offered reports whether all rows had a request rate and achieved it.
func (g *Grid) offered(rows []Row) bool {
	return !slices.ContainsFunc(rows, func(r Row) bool {
		rate, asked := r.Entry.Number("request_rate")
		got, ok := r.Entry.Float("request_throughput")
		return !asked || math.IsInf(rate, 0) || rate <= 0 || !ok || got < 0.95*rate
	})
}

// kneeGain is the share of a relative increase in load that must come back as throughput: below it a
// doubling of the load gives less than a quarter more.
const kneeGain = 0.3

// ladders are runs of one setting at growing load.
func (g *Grid) ladders() []string {
	load := slices.IndexFunc(g.Factors, func(f Factor) bool { return f.Load })
	if g.Group >= 0 && g.Factors[g.Group].Load {
		load = g.Group
	}
	if load < 0 {
		return nil
	}
	var out []string
	for _, rows := range g.by(func(f Factor) bool { return f.Key != g.Factors[load].Key }) {
		rows = withFigure(rows, "output_throughput")
		slices.SortStableFunc(rows, func(a, b Row) int { return compareValues(a.Settings[load], b.Settings[load]) })
		if len(rows) >= 3 {
			out = append(out, g.ladder(rows, load))
		}
	}
	return out
}

// ladder says where throughput stops following the load.
func (g *Grid) ladder(rows []Row, load int) string {
	name := g.Factors[load].Title
	who := g.words(rows[0], func(f Factor) bool { return f.Key != g.Factors[load].Key })
	if who == "" {
		who = "Output throughput"
	} else {
		who = "With " + who + ", output throughput"
	}
	at := func(r Row) string { return name + " " + r.Settings[load] }
	first, last := rows[0], rows[len(rows)-1]
	text := fmt.Sprintf("%s goes from %s tok/s at %s to %s at %s", who, Cell(first.Entry, "output_throughput"), at(first), Cell(last.Entry, "output_throughput"), at(last))
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1], rows[i]
		more, gain := g.amount(b, load)/g.amount(a, load), value(b, "output_throughput")/value(a, "output_throughput")
		if !(more > 1) || math.IsInf(more, 0) || math.Log(gain) >= kneeGain*math.Log(more) {
			continue
		}
		change := fmt.Sprintf("%s %% more", trim(100*(gain-1)))
		if gain < 1 {
			change = fmt.Sprintf("%s %% less", trim(100*(1-gain)))
		}
		text += fmt.Sprintf("; the knee is at %s: %s times that load gives %s throughput", at(a), trim(more), change)
		if x, y := value(a, "mean_ttft_ms"), value(b, "mean_ttft_ms"); x > 0 && y > 0 {
			text += fmt.Sprintf(" and %s times the mean TTFT (%s to %s ms)", trim(y/x), Cell(a.Entry, "mean_ttft_ms"), Cell(b.Entry, "mean_ttft_ms"))
		}
		return text + "."
	}
	return text + " and still follows the load there: the limit was not reached."
}

// repeats are results no setting tells apart.
func (g *Grid) repeats() []string {
	var out []string
	for _, rows := range g.by(func(f Factor) bool { return f.Key != runKey }) {
		for _, key := range []string{"request_throughput", "output_throughput", "mean_ttft_ms"} {
			some := withFigure(rows, key)
			if len(some) < 2 {
				continue
			}
			slices.SortStableFunc(some, func(a, b Row) int { return cmp.Compare(value(a, key), value(b, key)) })
			low, high := some[0], some[len(some)-1]
			out = append(out, fmt.Sprintf("%d results with the same known settings differ by %s in %s (%s to %s).",
				len(some), apart(value(high, key), value(low, key)), title(key), Cell(low.Entry, key), Cell(high.Entry, key)))
		}
	}
	return out
}

// failures are runs that did not get all their answers.
func (g *Grid) failures() []string {
	var out []string
	for _, r := range g.Rows {
		done, ok := r.Entry.Float("completed")
		asked, _ := r.Entry.Number("num_prompts")
		if r.Entry.State() != "" { // a run of spate counts its failures; one that was interrupted did not ask all it could
			asked = done
		}
		if failed, known := r.Entry.Float("failed"); known && failed > 0 {
			asked = done + failed
		}
		if run := r.Entry.Run; run != nil { // it knows what it asked for, and what a stop left undone
			asked = done + float64(run.Summary.ErrorAdjusted.Failures)
			if text := run.Undone(); text != "" {
				out = append(out, fmt.Sprintf("%s (%s).", strings.ToUpper(text[:1])+text[1:], g.name(r)))
			}
		}
		if !ok || !(asked > done) {
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s requests did not succeed (%s); latencies and throughput are of the others.", trim(asked-done), trim(asked), g.name(r)))
	}
	return out
}

func withFigure(rows []Row, key string) []Row {
	var out []Row
	for _, r := range rows {
		if v, ok := r.Entry.Float(key); ok && !math.IsNaN(v) && v > 0 {
			out = append(out, r)
		}
	}
	return out
}

func value(r Row, key string) float64 {
	v, _ := r.Entry.Float(key)
	return v
}

// amount is a setting that is a number; NaN where it is none.
func (g *Grid) amount(r Row, factor int) float64 {
	if v, ok := r.Entry.Number(g.Factors[factor].Key); ok {
		return v
	}
	return math.NaN()
}

// ratio is how many times the larger is of the smaller.
func ratio(a, b float64) float64 { return max(a, b) / min(a, b) }

// apart is the distance of a from b in per cent of b.
func apart(a, b float64) string { return trim(100*math.Abs(a-b)/b) + " %" }

// trim is a number with two or three digits.
func trim(v float64) string {
	if math.Abs(v) >= 10 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
