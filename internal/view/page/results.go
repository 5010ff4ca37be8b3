package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"spate/internal/figure"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/view/curve"
	"spate/internal/view/table"
)

// grid is a table of the page.
type grid struct {
	Label, Class, Note string
	Over               []over // what stands above groups of columns
	Head               []head
	Rows               [][]cell
}

type over struct {
	Text string
	Span int
	Gap  bool
}

type head struct{ Text, Class, Title string }

// cell is one field. Sort is what the column is sorted by where that is not the text.
type cell struct{ Text, Sort, Class, Title, Badge, Run, Note string }

type card struct{ Name, Value, Unit, Note string }

// shown is a figure of the results table.
type shown struct{ key, head, over, title string }

func figures() []shown {
	var out []shown
	for _, f := range []struct{ key, head, over string }{
		{"completed", "ok", "Requests"},
		{"failed", "failed", "Requests"},
		{"duration", "duration, s", "Requests"},
		{"request_throughput", "requests/s", "Throughput"},
		{"request_goodput", "good/s", "Throughput"},
		{"output_throughput", "output tok/s", "Throughput"},
		{"total_token_throughput", "total tok/s", "Throughput"},
	} {
		out = append(out, shown{f.key, f.head, f.over, figure.Must(f.key).Meaning})
	}
	for _, r := range figure.Stats("mean", "median", "p99") {
		stat := strings.TrimSuffix(r.Short(), " "+r.Label)
		out = append(out, shown{r.Key(), stat, r.Label + ", ms", stat + " " + strings.ToLower(r.Meaning) + " in milliseconds"})
	}
	return out
}

// results is the table of all of them: what tells them apart, then the figures.
func results(set []result.Entry, names []string, g *table.Grid) *grid {
	if len(set) < 2 {
		return nil // the run's own section has it all
	}
	out := &grid{Label: "Results", Class: "wide sort", Head: []head{{Text: "Run"}}}
	if g.Judged {
		out.Head = append(out.Head, head{Text: "Verdict"})
	}
	var factors []table.Factor
	var hidden []string
	for _, f := range g.Factors {
		if f.Key == "run" || echoes(set, factors, f) {
			continue
		}
		if rare(set, f.Key) {
			hidden = append(hidden, f.Title)
			continue
		}
		factors = append(factors, f)
		h := head{Text: f.Title}
		if setting(&set[0], f.Key).Class == "n" {
			h.Class = "n"
		}
		out.Head = append(out.Head, h)
	}
	out.Over = []over{{Span: len(out.Head)}}
	shown := out.figures(set)
	bare := 0
	for i := range set {
		e := &set[i]
		if !e.Measured() {
			bare++
			continue
		}
		row := []cell{{Text: names[i], Run: strconv.Itoa(i), Title: names[i]}}
		if g.Judged {
			row = append(row, cell{Text: e.Verdict(), Badge: badge(e.Grade())})
		}
		for _, f := range factors {
			row = append(row, setting(e, f.Key))
		}
		for _, f := range shown {
			c := number(e, f.key)
			if f.head == "mean" || f.head == "ok" || f.head == "requests/s" {
				c.Class += " gap"
			}
			row = append(row, c)
		}
		out.Rows = append(out.Rows, row)
	}
	var common []string
	for _, s := range g.Common {
		if s.Value != "" && len(set) > 1 {
			common = append(common, s.Title+" "+s.Value)
		}
	}
	if len(common) > 0 {
		out.Note = "The same for all: " + strings.Join(common, ", ") + "."
	}
	if len(hidden) > 0 {
		out.Note = strings.TrimSpace(out.Note + " Labels that few results have are left to each run: " + strings.Join(hidden, ", ") + ".")
	}
	if bare > 0 {
		out.Note = strings.TrimSpace(out.Note + fmt.Sprintf(" %d more have no figures: servers that did not start, or an engine's log alone.", bare))
	}
	return out
}

// rare reports whether so few of many results have a setting that its column would be empty.
func rare(set []result.Entry, key string) bool {
	n := 0
	for i := range set {
		if set[i].Setting(key) != "" {
			n++
		}
	}
	return len(set) >= 10 && 10*n <= len(set)
}

// echoes reports whether a column says the same as one before it in every row.
func echoes(set []result.Entry, before []table.Factor, f table.Factor) bool {
	for _, b := range before {
		same := true
		for i := range set {
			same = same && set[i].Setting(b.Key) == set[i].Setting(f.Key)
		}
		if same {
			return true
		}
	}
	return false
}

// figures adds the columns that any result has.
func (g *grid) figures(set []result.Entry) []shown {
	var shown []shown
	for _, f := range figures() {
		found := false
		for i := range set {
			if _, ok := set[i].Float(f.key); ok {
				found = true
			}
		}
		if !found {
			continue
		}
		shown = append(shown, f)
		h := head{Text: f.head, Class: "n", Title: f.title}
		if last := &g.Over[len(g.Over)-1]; last.Text == f.over {
			last.Span++
		} else {
			g.Over = append(g.Over, over{Text: f.over, Span: 1, Gap: true})
			h.Class = "n gap"
		}
		g.Head = append(g.Head, h)
	}
	return shown
}

func setting(e *result.Entry, key string) cell {
	text := e.Setting(key)
	c := cell{Text: text, Class: "words"}
	if len(text) > 20 {
		c.Title = text
	}
	if _, ok := e.Number(key); ok {
		c.Class = "n"
	}
	return c
}

// number is a figure as it was printed, with two decimals where it has more; every digit is in its title.
func number(e *result.Entry, key string) cell {
	text := e.Text(key)
	v, ok := e.Float(key)
	if !ok {
		return cell{Text: text, Class: "n"}
	}
	c := cell{Text: text, Class: "n"}
	if _, decimals, _ := strings.Cut(text, "."); len(decimals) > 2 || strings.ContainsAny(text, "eE") {
		c.Sort = strconv.FormatFloat(v, 'g', 8, 64)
		c.Text, c.Title = strconv.FormatFloat(v, 'f', 2, 64), text
	}
	return c
}

func badge(grade string) string {
	switch grade {
	case string(verdict.Valid):
		return "ok"
	case string(verdict.SuspectRun):
		return "suspect"
	case string(verdict.InvalidRun):
		return "invalid"
	case "":
		return ""
	}
	return "none"
}

// headlines are the figures of which the best is named.
var headlines = []struct {
	figure.Ref
	name string
}{
	{figure.Must("output_throughput"), "Best output rate"},
	{figure.Must("request_throughput"), "Best request rate"},
	{figure.Must("p99_ttft_ms"), "Best P99 TTFT"},
	{figure.Must("median_tpot_ms"), "Best median TPOT"},
}

// overview are the headline figures of several results; one result has its own.
func overview(set []result.Entry, names []string) []card {
	if len(set) < 2 {
		return nil
	}
	all := result.Pointers(set)
	basis := result.BasisOf(all)
	out := []card{{Name: "Results", Value: strconv.Itoa(len(set)), Note: result.Count(all)}}
	of := ""
	if basis.Predicted {
		of = ", predicted"
	}
	ok, failed, found := 0.0, 0.0, false
	for _, e := range all {
		if !basis.Holds(e) {
			continue
		}
		if v, there := e.Float("completed"); there {
			ok, found = ok+v, true
		}
		if v, there := e.Float("failed"); there {
			failed += v
		}
	}
	if found {
		out = append(out, card{Name: "Requests answered" + of, Value: group(ok), Note: strings.TrimSuffix(group(failed)+" failed; "+basis.Note, "; ")})
	}
	for _, b := range headlines {
		best := -1
		var value float64
		for i := range set {
			v, there := curve.Value(&set[i], b.Key())
			if there && basis.Holds(&set[i]) && v > 0 && (best < 0 || (v > value) == (b.Better == figure.Higher) && v != value) {
				best, value = i, v
			}
		}
		if best >= 0 {
			out = append(out, card{Name: b.name + of, Value: group(value), Unit: b.Unit.Long(), Note: names[best]})
		}
	}
	return out
}

// group writes a number for people: few digits, thousands apart.
func group(v float64) string {
	digits := 2
	switch a := math.Abs(v); {
	case v == math.Trunc(v) || a >= 1000:
		digits = 0
	case a >= 100:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, rest, dot := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if dot {
		return sign + b.String() + "." + rest
	}
	return sign + b.String()
}
