package sweep

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/result"
	"spate/internal/safe/escape"
)

// figures are the columns of the overview behind those of the settings.
var figures = figure.List("completed", "unanswered", "duration", "request_throughput", "output_throughput",
	"mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_tpot_ms", "mean_itl_ms")

// form is how a figure is printed.
func form(f figure.Ref) string {
	if f.Whole() {
		return "%.0f"
	}
	return "%.2f"
}

// Overview prints one line for each measurement, as they end.
type Overview struct {
	w       io.Writer
	plan    *Plan
	columns []column
	started bool
}

// column is a setting's place in the overview.
type column struct {
	head  string
	width int
}

// NewOverview makes an overview of a plan.
func NewOverview(w io.Writer, p *Plan) *Overview {
	o := &Overview{w: w, plan: p}
	for i, head := range p.heads() {
		c := column{head: head, width: len(head)}
		for j := range p.Points {
			c.width = max(c.width, len(p.cells(&p.Points[j])[i]))
		}
		o.columns = append(o.columns, c)
	}
	return o
}

// heads name the settings that tell points apart.
func (p *Plan) heads() []string {
	var out []string
	if len(p.Servers) > 0 {
		out = append(out, "server")
	}
	return append(out, p.Axes()...)
}

// cells are a point's settings under the heads.
func (p *Plan) cells(pt *Point) []string {
	var out []string
	if len(p.Servers) > 0 {
		out = append(out, pt.Server)
	}
	for _, flag := range p.Axes() {
		text := ""
		if i := slices.IndexFunc(pt.Settings, func(s Setting) bool { return s.Flag == flag }); i >= 0 {
			text = pt.Settings[i].Text()
		}
		out = append(out, text)
	}
	return out
}

// Row prints how a measurement went.
func (o *Overview) Row(r Row) error {
	var b strings.Builder
	if !o.started {
		o.started = true
		o.head(&b)
	}
	fmt.Fprintf(&b, "%*d/%d", len(strconv.Itoa(r.Of)), r.N, r.Of)
	for i, cell := range o.plan.cells(r.Point) {
		fmt.Fprintf(&b, "  %*s", o.columns[i].width, cell)
	}
	if o.plan.Repeat > 1 {
		fmt.Fprintf(&b, "  %6d", r.Repeat)
	}
	if r.Run == nil {
		first, _, _ := strings.Cut(r.Err.Error(), "\n")
		fmt.Fprintf(&b, "  no result: %s\n", first)
		return o.write(&b)
	}
	for _, f := range figures {
		fmt.Fprintf(&b, "  %*s", max(8, len(f.Short())), fmt.Sprintf(form(f), f.Of(&r.Run.Summary).V))
	}
	e := result.FromRun(r.Run)
	fmt.Fprintf(&b, "  %s", e.Verdict())
	switch {
	case r.Earlier:
		b.WriteString("  (earlier)")
	case r.Left > 0:
		fmt.Fprintf(&b, "  (about %v left)", r.Left)
	}
	b.WriteByte('\n')
	return o.write(&b)
}

func (o *Overview) write(b *strings.Builder) error {
	_, err := io.WriteString(o.w, strings.ReplaceAll(b.String(), " \n", "\n"))
	return err
}

func (o *Overview) head(b *strings.Builder) {
	of := 0
	for _, g := range o.plan.Steps() {
		of += len(g)
	}
	fmt.Fprintf(b, "%*s", 2*len(strconv.Itoa(of))+1, "run")
	for _, c := range o.columns {
		fmt.Fprintf(b, "  %*s", c.width, c.head)
	}
	if o.plan.Repeat > 1 {
		b.WriteString("  repeat")
	}
	for _, f := range figures {
		fmt.Fprintf(b, "  %*s", max(8, len(f.Short())), f.Short())
	}
	b.WriteByte('\n')
}

// Table writes Medians as Markdown.
func Table(w io.Writer, p *Plan, entries []result.Entry) error {
	head, rows := Medians(p, entries)
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n", strings.Join(markdown(head), " | "))
	fmt.Fprintf(&b, "|%s ---: | --- |%s\n", strings.Repeat(" --- |", len(p.heads())), strings.Repeat(" ---: |", len(figures)))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(markdown(row), " | "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown are cells of a table.
func markdown(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = escape.Markdown(c)
	}
	return out
}

// Medians are a row for each point: its settings, how many results it has, their verdicts, and the median of
// each figure, times in milliseconds. INVALID runs are counted and no part of a median.
func Medians(p *Plan, entries []result.Entry) (head []string, rows [][]string) {
	head = append(slices.Clone(p.heads()), "runs", "verdict")
	for _, f := range figures {
		head = append(head, f.Short())
	}
	for i := range p.Points {
		rows = append(rows, append(p.cells(&p.Points[i]), p.medians(&p.Points[i], entries)...))
	}
	return head, rows
}

// results are the runs of a point.
func (p *Plan) results(pt *Point, entries []result.Entry) []*result.Entry {
	var all []*result.Entry
	for r := 1; r <= p.Repeat; r++ {
		key := p.Key(Step{Point: pt, Repeat: r})
		if i := slices.IndexFunc(entries, func(e result.Entry) bool { return e.ID == key && e.Run != nil }); i >= 0 {
			all = append(all, &entries[i])
		}
	}
	return all
}

func (p *Plan) medians(pt *Point, entries []result.Entry) []string {
	all := p.results(pt, entries)
	var found []*metrics.Summary
	basis := result.BasisOf(all)
	for _, e := range all {
		if basis.Holds(e) {
			found = append(found, &e.Run.Summary)
		}
	}
	out := []string{strconv.Itoa(len(all)), cmp.Or(result.Count(all), "-")}
	for _, f := range figures {
		if len(found) == 0 {
			out = append(out, "-")
			continue
		}
		values := make([]float64, len(found))
		for i, s := range found {
			values[i] = f.Of(s).V
		}
		out = append(out, fmt.Sprintf(form(f), stats.Median(values)))
	}
	return out
}

// WritePlan prints the points and what they would take.
func (p *Plan) WritePlan(w io.Writer, resolve Resolve) error {
	var b strings.Builder
	b.WriteString("Plan (nothing was sent)\n")
	n := len(p.Points)
	fmt.Fprintf(&b, "%s, each %s, in %s order, prefix cache: %s\n", figure.Counted(n, "point"), times(p.Repeat), p.Order, p.Cache)
	at := 0
	for _, group := range p.Steps() {
		if sv := p.Server(group[0].Point.Server); sv != nil && sv.Launch != nil && p.launches(resolve, group[0].Point) {
			fmt.Fprintf(&b, "start %s: %s\n", sv.Name, strings.Join(sv.Launch.public().Command, " "))
		}
		for _, st := range group {
			at++
			cfg, err := resolve(p.Args(st.Point))
			if err != nil {
				return err
			}
			takes := "until its requests are done"
			if d, known := Lasts(cfg); known {
				takes = fmt.Sprintf("%v and the time of the last requests", d.Round(10*time.Millisecond))
			}
			fmt.Fprintf(&b, "%4d  %s  %s\n", at, pointText(p, st), takes)
		}
	}
	least, open, err := p.Expected(resolve)
	if err != nil {
		return err
	}
	if p.Predict != "" {
		fmt.Fprintf(&b, "predicted with profile %s, in virtual time: seconds for all of it\n", p.Predict)
		_, err = io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "expected time: at least %v", least.Round(10*time.Millisecond))
	if open > 0 {
		fmt.Fprintf(&b, ", plus the time of %s until all requests are done", figure.Counted(open, "measurement"))
	}
	b.WriteByte('\n')
	_, err = io.WriteString(w, b.String())
	return err
}

// launches reports whether a point's server is started, rather than simulated or predicted.
func (p *Plan) launches(resolve Resolve, pt *Point) bool {
	cfg, err := resolve(p.Args(pt))
	return p.Predict == "" && err == nil && !cfg.Sim.Enabled
}

func pointText(p *Plan, st Step) string {
	text := st.Point.String()
	if text == "" {
		text = "as given"
	}
	if p.Repeat > 1 {
		text += fmt.Sprintf(" (%d of %d)", st.Repeat, p.Repeat)
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}
