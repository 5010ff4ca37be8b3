package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"spate/internal/judge/metrics"
	"spate/internal/judge/stats"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/view/curve"
)

// runView is everything about one result.
type runView struct {
	Index       int
	Alone       bool // on the page
	Name, Sub   string
	Verdict     *verdictView
	Cards       []card
	Latency     *grid
	Tenants     *grid
	Workers     *grid
	Facts       *grid
	Problems    []string
	Explain     []Section
	Time, Host  []string
	Waterfall   bool
	Errors      *errorView
	Checks      *grid
	Commands    []command
	Environment *grid
	Config      string
	Elsewhere   bool // environment and settings are in its folder only
}

type verdictView struct{ Badge, Grade, Sentence string }

type errorView struct {
	Index    int
	Sentence string
	Kinds    *grid
	Examples []string
}

type command struct{ Title, Text string }

func newRun(i int, name string, e *result.Entry, d *data, opt Options) *runView {
	v := &runView{
		Index: i, Name: name, Time: d.Runs[i].time, Host: d.Runs[i].host, Waterfall: d.Runs[i].Waterfall != nil,
		Cards: cards(e), Latency: latency(e, d.samples[i]),
	}
	for _, s := range opt.Explain {
		if s.Run != "" && s.Run == e.ID {
			if s.Title == name {
				s.Title = "What limited it" // the name stands above it already
			}
			v.Explain = append(v.Explain, s)
		}
	}
	if why := d.Runs[i].lack; why != "" {
		v.Problems = append(v.Problems, "No charts of single requests: "+why)
	}
	for _, p := range e.Problems {
		v.Problems = append(v.Problems, p.Text)
	}
	if e.Run == nil {
		v.foreign(e)
	} else {
		v.own(e.Run)
	}
	if g := e.Grade(); g != "" {
		v.Verdict = &verdictView{Badge: badge(g), Grade: g, Sentence: gradeSentence(e)}
	}
	return v
}

// gradeSentence is what a verdict rests on.
func gradeSentence(e *result.Entry) string {
	switch {
	case e.Predicted():
		return "The simulator made these figures: no server was measured."
	case e.Run != nil:
		return e.Run.Verdict.Sentence
	}
	return ""
}

// foreign is what is known of another tool's result: what its text said, and where.
func (v *runView) foreign(e *result.Entry) {
	v.Sub = fmt.Sprintf("%s, %s line %d", e.Format, e.Source.File, e.Source.Line)
	if e.Error != "" {
		v.Errors = &errorView{Index: v.Index, Sentence: "The server did not start.", Examples: []string{e.Error}}
	}
	g := &grid{Label: "Context", Head: []head{{Text: "What"}, {Text: "Value"}, {Text: "From"}}}
	for _, f := range e.Context {
		switch f.Name {
		case "command", "server_command":
			v.Commands = append(v.Commands, command{strings.ReplaceAll(f.Name, "_", " "), e.Context.Text(f.Name)})
			continue
		case "arguments", "server_arguments", "engine_log":
			continue
		}
		from := f.From
		if f.Line > 0 {
			from += ", line " + strconv.Itoa(f.Line)
		}
		g.Rows = append(g.Rows, []cell{
			{Text: strings.ReplaceAll(f.Name, "_", " "), Class: "key"}, {Text: e.Context.Text(f.Name), Class: "value"}, {Text: from, Class: "muted"},
		})
	}
	if len(g.Rows) > 0 {
		v.Facts = g
	}
}

func (v *runView) own(r *result.Run) {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(r.Plan.Text)
	add(r.Server.Model)
	add(strings.TrimSpace(r.Server.Kind + " " + r.Server.Version))
	add(r.Server.Backend)
	if !r.Started.IsZero() {
		add(r.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if r.State != result.Complete {
		add("state: " + string(r.State))
	}
	v.Sub = strings.Join(parts, " · ")
	if r.Verdict.Grade != "" {
		v.Checks = checks(r.Verdict)
	}
	v.Errors = failures(v.Index, r)
	v.Tenants = tenants(r)
	v.Workers = workers(r)
	if len(r.Command) > 0 {
		v.Commands = append(v.Commands, command{"Command", result.ShellLine(r.Command)})
	}
	if len(r.Server.URLs) > 0 {
		v.Commands = append(v.Commands, command{"Server", strings.Join(r.Server.URLs, "\n")})
	}
	v.Environment = flat(r.Environment)
	var pretty bytes.Buffer
	if json.Indent(&pretty, r.Config, "", "  ") == nil {
		v.Config = pretty.String()
	}
}

// cards are the headline figures of one result.
func cards(e *result.Entry) []card {
	var out []card
	add := func(key, name, unit, note string) {
		if v, ok := curve.Value(e, key); ok {
			out = append(out, card{Name: name, Value: group(v), Unit: unit, Note: note})
		}
	}
	also := func(key, before, unit string) string {
		v, ok := curve.Value(e, key)
		if !ok {
			return ""
		}
		return before + group(v) + unit
	}
	add("request_throughput", "Request throughput", "requests/s", also("request_rate", "asked for ", " requests/s"))
	add("output_throughput", "Output throughput", "tokens/s", also("total_token_throughput", "with input ", " tokens/s"))
	for _, l := range curve.Latencies() {
		k := "_" + string(l) + "_ms"
		if _, ok := e.Float("median" + k); ok {
			add("median"+k, "Median "+l.Short(), "ms", also("p99"+k, "P99 ", " ms"))
		} else {
			add("mean"+k, "Mean "+l.Short(), "ms", also("p99"+k, "P99 ", " ms"))
		}
	}
	add("completed", "Requests answered", "", also("failed", "", " failed"))
	add("duration", "Duration", "s", "")
	add("request_goodput", "Goodput", "requests/s", "met every objective")
	return out
}

// shownPercentiles are those of the table of latencies.
var shownPercentiles = []float64{50, 75, 90, 95, 99, 99.9}

// latency is the table of percentiles: exact over the records, or what the result printed.
func latency(e *result.Entry, s *curve.Samples) *grid {
	g := &grid{Label: "Latency in milliseconds", Class: "sort", Head: []head{{Text: "Latency"}, {Text: "samples", Class: "n"}, {Text: "mean", Class: "n"}}}
	if s != nil {
		g.Head = append(g.Head, head{Text: "min", Class: "n"})
	}
	for _, p := range shownPercentiles {
		g.Head = append(g.Head, head{Text: strings.ToUpper(stats.PercentileName(p)), Class: "n"})
	}
	if s != nil {
		g.Head = append(g.Head, head{Text: "max", Class: "n"})
	}
	for _, l := range curve.Latencies() {
		row := []cell{{Text: l.Short(), Title: l.Name()}}
		if xs := s.Of(l); len(xs) > 0 {
			row = append(row, num(float64(len(xs)), 0), num(stats.Mean(xs), 2), num(xs[0], 2))
			for _, p := range shownPercentiles {
				row = append(row, percentile(xs, p))
			}
			g.Rows = append(g.Rows, append(row, num(xs[len(xs)-1], 2)))
		} else if row, ok := reported(e, l, s != nil); ok {
			g.Rows = append(g.Rows, row)
		}
	}
	if len(g.Rows) == 0 {
		return nil
	}
	if s != nil {
		g.Note = "Grey: too few samples for this percentile, which says little more than the longest then."
	}
	return g
}

// percentile marks what the sample is too small to tell: not even its extremes bound it.
func percentile(sorted []float64, p float64) cell {
	c := num(stats.SortedPercentile(sorted, p), 2)
	if floor := stats.Floor(p, 0.95); len(sorted) < floor {
		c.Class, c.Title = "n muted", fmt.Sprintf("%d samples are too few: %d are needed", len(sorted), floor)
	}
	return c
}

func reported(e *result.Entry, l curve.Latency, wide bool) ([]cell, bool) {
	k := "_" + string(l) + "_ms"
	row := []cell{{Text: l.Short(), Title: l.Name()}, {Class: "n"}, number(e, "mean"+k)}
	if wide {
		row = append(row, cell{Class: "n"})
	}
	found := row[2].Text != ""
	for _, p := range shownPercentiles {
		key := stats.PercentileName(p)
		if p == 50 {
			key = "median"
		}
		c := number(e, key+k)
		found = found || c.Text != ""
		row = append(row, c)
	}
	if wide {
		row = append(row, cell{Class: "n"})
	}
	return row, found
}

func num(v float64, digits int) cell {
	return cell{Text: strconv.FormatFloat(v, 'f', digits, 64), Class: "n"} // which sorts by its text
}

// checks are the findings of the verdict, the worst first.
func checks(v verdict.Verdict) *grid {
	g := &grid{Label: "Validity checks", Class: "sort", Head: []head{{Text: "Check"}, {Text: "Result"}, {Text: "Figure", Class: "n"}, {Text: "Bound", Class: "n"}, {Text: "What was seen"}}}
	findings := slices.Clone(v.Findings)
	weight := map[verdict.Level]int{verdict.Invalid: 0, verdict.Suspect: 1, verdict.OK: 2}
	slices.SortStableFunc(findings, func(a, b verdict.Finding) int { return weight[a.Level] - weight[b.Level] })
	for _, f := range findings {
		row := []cell{{Text: strings.ReplaceAll(f.Name, "_", " ")}, {Text: string(f.Level), Badge: string(f.Level)}, {Class: "n"}, {Class: "n"}, {Text: strings.TrimSpace(f.Sentence + " " + f.Hint)}}
		switch {
		case f.Unit == verdict.KilledRun:
			row[2].Text = "not known"
		case f.Measured:
			row[2], row[3] = withUnit(f.Figure, f.Unit), withUnit(f.Bound, f.Unit)
		default:
			row[1] = cell{Text: "not measured", Badge: "none"}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func withUnit(v float64, unit string) cell {
	c := cell{Class: "n", Sort: strconv.FormatFloat(v, 'g', -1, 64)}
	if unit == "share" {
		v, unit = v*100, "%"
	}
	c.Text = strings.TrimSpace(brief(v) + " " + unit)
	return c
}

// brief is a number with about three digits and no exponent.
func brief(v float64) string {
	if a := math.Abs(v); a >= 100 || a == 0 {
		return group(v)
	}
	decimals := max(0, min(4, 2-int(math.Floor(math.Log10(math.Abs(v))))))
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// failures says what went wrong, or that nothing did.
func failures(index int, r *result.Run) *errorView {
	f, t := r.Summary.Failures, r.Tally
	v := &errorView{Index: index, Examples: r.Errors}
	if lost := t.Failed + t.Dropped + t.Canceled - f.Undone(); lost == 0 {
		v.Sentence = fmt.Sprintf("None: all %s requests were answered.", group(float64(t.OK)))
	} else {
		v.Sentence = fmt.Sprintf("Of %s requests %s were answered, %s failed, %s were dropped and %s cut off.",
			group(float64(t.OK+lost)), group(float64(t.OK)), group(float64(t.Failed)), group(float64(t.Dropped-f.Unsent)), group(float64(t.Canceled-f.Stopped)))
	}
	if text := r.Undone(); text != "" {
		v.Sentence += " " + strings.ToUpper(text[:1]) + text[1:] + "."
	}
	if f.Retries > 0 {
		v.Sentence += fmt.Sprintf(" %d attempts were retried; %d requests succeeded on a later one.", f.Retries, f.Recovered)
	}
	if len(f.Kinds) > 0 {
		v.Kinds = kinds(f)
	}
	return v
}

func kinds(f metrics.Failures) *grid {
	g := &grid{Label: "Errors by kind", Class: "sort", Head: []head{{Text: "Kind"}, {Text: "Count", Class: "n"}, {Text: "Example"}}}
	for _, k := range f.Kinds {
		g.Rows = append(g.Rows, []cell{{Text: k.Name()}, num(float64(k.Count), 0), {Text: k.Example, Class: "value"}})
	}
	var statuses []string
	for code := range f.Statuses {
		statuses = append(statuses, code)
	}
	slices.Sort(statuses)
	for _, code := range statuses {
		g.Rows = append(g.Rows, []cell{{Text: "HTTP status " + code}, num(float64(f.Statuses[code]), 0), {}})
	}
	return g
}

// flat is a JSON document as a table of paths and values, in its own order.
func flat(doc json.RawMessage) *grid {
	if len(doc) == 0 {
		return nil
	}
	g := &grid{Label: "Environment", Head: []head{{Text: "What"}, {Text: "Value"}}}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if g.walk(dec, "") != nil || len(g.Rows) == 0 {
		return nil
	}
	g.Note = host(doc)
	return g
}

// host is the client's machine in a few words.
func host(doc json.RawMessage) string {
	var env struct {
		Host struct {
			OS, Arch, Kernel, CPU string
			Cores                 int
			Memory                float64 `json:"memory_bytes"`
		}
	}
	if json.Unmarshal(doc, &env) != nil || env.Host.OS == "" {
		return "as recorded"
	}
	h := env.Host
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s %s %s", h.CPU, h.Cores, h.Memory/(1<<30), h.OS, h.Kernel, h.Arch)
}

// walk takes one value: an object goes deeper, a list of plain values becomes one line.
func (g *grid) walk(dec *json.Decoder, path string) error {
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	switch t {
	case json.Delim('{'):
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return fmt.Errorf("read environment: %w", err)
			}
			if err := g.walk(dec, join(path, fmt.Sprint(key))); err != nil {
				return err
			}
		}
		_, err = dec.Token()
	case json.Delim('['):
		from := len(g.Rows)
		for dec.More() {
			if err := g.walk(dec, path); err != nil {
				return err
			}
		}
		g.joinRows(from, path)
		_, err = dec.Token()
	default:
		if t != nil {
			g.Rows = append(g.Rows, []cell{{Text: path, Class: "key"}, {Text: fmt.Sprint(t), Class: "value"}})
		}
	}
	if err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	return nil
}

// joinRows puts the plain values of one list on one line.
func (g *grid) joinRows(from int, path string) {
	var values []string
	for _, row := range g.Rows[from:] {
		if row[0].Text != path {
			return // a list of objects: each line has a name
		}
		values = append(values, row[1].Text)
	}
	if len(values) > 0 {
		g.Rows = append(g.Rows[:from], []cell{{Text: path, Class: "key"}, {Text: strings.Join(values, ", "), Class: "value"}})
	}
}

func join(path, key string) string {
	key = strings.ReplaceAll(key, "_", " ")
	if path == "" {
		return key
	}
	return path + " · " + key
}
