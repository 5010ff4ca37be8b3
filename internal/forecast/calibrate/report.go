package calibrate

import (
	"fmt"
	"io"
	"math"
	"strings"

	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
)

// headline are the figures with a goal.
var headline = figure.List("output_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "mean_itl_ms", "p99_itl_ms")

// head is the title of a figure's column.
func head(r figure.Ref) string { return strings.TrimPrefix(r.Words(), "output ") }

// Summary writes the errors of each group: of the fit, and of rows predicted without having been seen.
func Summary(w io.Writer, f *predict.File, done *Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "mean absolute error of shown rows, %%: fitted / left out\n%-22s %5s %5s", "group", "rows", "free")
	for _, h := range headline {
		fmt.Fprintf(&b, " %14s", head(h))
	}
	b.WriteByte('\n')
	for _, p := range done.Profiles {
		fmt.Fprintf(&b, "%-22s %5d %5d", p.Name, len(p.Provenance.Rows), free(p))
		pairs(&b, p.Provenance.Fit, p.Provenance.Cross)
	}
	for _, s := range sums(f.Shown()) {
		fmt.Fprintf(&b, "%-22s %5d %5s", s.name, len(s.rows), "")
		pairs(&b, predict.MeanErrors(s.rows, done.Fitted), predict.MeanErrors(s.rows, done.Cross))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sum is rows whose errors are told together.
type sum struct {
	name string
	rows []*predict.Row
}

// sums are all rows, and those of closed and of open loads apart where there are both: what happens to an
// open load hangs on its arrivals, and rows of it tell less about each other.
func sums(rows []*predict.Row) []sum {
	var open, closed []*predict.Row
	for _, r := range rows {
		if r.Workload.Rate.Burst() {
			closed = append(closed, r)
		} else {
			open = append(open, r)
		}
	}
	all := []sum{{"all", rows}}
	if len(open) == 0 || len(closed) == 0 {
		return all
	}
	return append(all, sum{"all sent at once", closed}, sum{"all sent at a rate", open})
}

// free counts a profile's fitted parameters.
func free(p *profile.Profile) int {
	n := 0
	for _, q := range p.Params {
		if q.Free {
			n++
		}
	}
	return n
}

func pairs(b *strings.Builder, fit, cross profile.Errors) {
	for _, h := range headline {
		fmt.Fprintf(b, " %6s / %5s", number(fit, h.Key()), number(cross, h.Key()))
	}
	b.WriteByte('\n')
}

func number(e profile.Errors, name string) string {
	v, ok := e[name]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// Document is a file of the report. The report itself has no name.
type Document struct {
	Name string
	Data []byte
}

// Report is the fidelity report in Markdown, and the pictures it shows.
func Report(f *predict.File, done *Outcome) []Document {
	var b strings.Builder
	b.WriteString(reportHead)
	reportGoals(&b, f, done)
	for _, h := range headline[:6] {
		fmt.Fprintf(&b, "![%s, predicted against measured](fidelity/%s.svg)\n", head(h), h.Key())
	}
	reportTransfer(&b, f, done)
	reportSizes(&b, done)
	reportRows(&b, f, done)
	reportParams(&b, done)
	docs := []Document{{Data: []byte(b.String())}}
	for _, h := range headline[:6] {
		docs = append(docs, Document{Name: "fidelity/" + h.Key() + ".svg", Data: picture(h.Key(), head(h), f, done)})
	}
	return docs
}

const reportHead = `# Fidelity

How near the simulator comes to published measurements. Written by ` + "`make fidelity`" + `
(` + "`spate calibrate ROWS -o profiles/ --report docs/fidelity.md`" + `); how it is done is in
[calibration.md](calibration.md).

"Fitted" is the error of rows the parameters were fitted to. "Left out" is the error of a row when it
is predicted by a fit that has not seen it. A row that alone carries some information (the only long
prompt, the only lone request, one of the two runs of a server, the only run of a link at its length) is predicted
badly when it is left out, because then nothing tells the parameter. How uncertain the rows in between are, with
all shown rows fitted, is what ` + "`spate predict --validate ROWS --intervals`" + ` says.

Only the parameters are refitted without the row. The form of the model, the expected efficiencies (products
grouped by expert, how many experts are used, time per layer, tiles of attention kernels, KV of windowed
layers), the noise of each figure, the spreads of lengths and the batch size at which an unknown engine changes
were chosen with all shown rows in view, after several alternatives had been tried on them. So "left out" is somewhat too good, and "without any fit" is not a blind
test; only rows that were never shown are one.

## Mean absolute errors, percent

`

func reportGoals(b *strings.Builder, f *predict.File, done *Outcome) {
	b.WriteString("| group | rows | fitted parameters |")
	for _, h := range headline {
		fmt.Fprintf(b, " %s |", head(h))
	}
	b.WriteString("\n| --- | --- | --- |" + strings.Repeat(" --- |", len(headline)) + "\n")
	line := func(name string, n int, params string, fit, cross profile.Errors) {
		fmt.Fprintf(b, "| %s | %d | %s |", name, n, params)
		for _, h := range headline {
			fmt.Fprintf(b, " %s / %s |", number(fit, h.Key()), number(cross, h.Key()))
		}
		b.WriteString("\n")
	}
	for _, p := range done.Profiles {
		line(p.Name, len(p.Provenance.Rows), fmt.Sprint(free(p)), p.Provenance.Fit, p.Provenance.Cross)
	}
	for _, s := range sums(f.Shown()) {
		line(s.name, len(s.rows), "", predict.MeanErrors(s.rows, done.Fitted), predict.MeanErrors(s.rows, done.Cross))
	}
	b.WriteString("\nEach cell is fitted / left out.\n\n")
}

// reportTransfer tells how servers are predicted that were not fitted at all.
func reportTransfer(b *strings.Builder, f *predict.File, done *Outcome) {
	if len(done.Transfer) == 0 {
		return
	}
	b.WriteString("\n## Without any fit\n\nMean absolute error, percent, of servers predicted from datasheet, model and usual efficiencies, with\n" +
		"none of their rows fitted.\n\n| group |")
	for _, h := range headline {
		fmt.Fprintf(b, " %s |", head(h))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(headline)) + "\n")
	for _, p := range done.Profiles {
		var rows []*predict.Row
		for _, r := range f.Shown() {
			if _, ok := done.Transfer[r.ID]; ok && r.Group == p.Name {
				rows = append(rows, r)
			}
		}
		if len(rows) == 0 {
			continue
		}
		e := predict.MeanErrors(rows, done.Transfer)
		fmt.Fprintf(b, "| %s |", p.Name)
		for _, h := range headline {
			fmt.Fprintf(b, " %s |", number(e, h.Key()))
		}
		b.WriteString("\n")
	}
}

// reportSizes tells how models are predicted from others of their series.
func reportSizes(b *strings.Builder, done *Outcome) {
	if len(done.Sizes) == 0 {
		return
	}
	b.WriteString("\n## Another model size on the same GPU, without a fit of its own\n\nMean absolute error, percent, of one server predicted with the parameters of another: each keeps its ratio to\n" +
		"what is expected of the model it was fitted to, and nothing but model, tensor parallelism and KV size changes.\n\n| fitted | predicted |")
	for _, h := range headline {
		fmt.Fprintf(b, " %s |", head(h))
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(headline)) + "\n")
	for _, s := range done.Sizes {
		fmt.Fprintf(b, "| %s | %s |", s.From, s.To)
		for _, h := range headline {
			fmt.Fprintf(b, " %s |", number(s.Errors, h.Key()))
		}
		b.WriteString("\n")
	}
}

func reportRows(b *strings.Builder, f *predict.File, done *Outcome) {
	b.WriteString("\n## Every shown row: measured, then signed error fitted / left out, percent\n\n| row | group |")
	for _, h := range headline {
		fmt.Fprintf(b, " %s |", head(h))
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(headline)) + "\n")
	for _, r := range f.Shown() {
		fmt.Fprintf(b, "| %s | %s |", r.ID, r.Group)
		for _, h := range headline {
			want := r.Metrics[h.Key()]
			fmt.Fprintf(b, " %s: %s / %s |", short(want), signed(done.Fitted[r.ID], h.Key(), want), signed(done.Cross[r.ID], h.Key(), want))
		}
		b.WriteString("\n")
	}
}

func signed(m predict.Metrics, name string, want float64) string {
	got, ok := m[name]
	if !ok || !(want > 0) {
		return "-"
	}
	return fmt.Sprintf("%+.1f", 100*(got/want-1))
}

func short(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func reportParams(b *strings.Builder, done *Outcome) {
	b.WriteString("\n## Parameters\n\nThe range is that of other vectors that fit about as well. Held parameters are those the rows say nothing about.\n\n")
	b.WriteString("| profile | parameter | value | range | expected | |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range done.Profiles {
		for _, q := range p.Params {
			state := ""
			if !q.Free {
				state = "held"
			}
			fmt.Fprintf(b, "| %s | %s, %s | %.4g | %.3g to %.3g | %.3g | %s |\n", p.Name, q.Name, q.Unit, q.Value, q.Low, q.High, q.Prior, state)
		}
	}
}

// Size of a picture, in pixels.
const (
	side   = 420.0
	margin = 46.0
)

// picture is predicted against measured on logarithmic axes, as SVG. Filled dots are fitted rows, rings
// are the same rows left out.
func picture(name, head string, f *predict.File, done *Outcome) []byte {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range f.Shown() {
		for _, v := range []float64{r.Metrics[name], done.Fitted[r.ID][name], done.Cross[r.ID][name]} {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	at := func(v float64) float64 { return margin + (math.Log10(v)-low)/(high-low)*(side-2*margin) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="sans-serif" font-size="11">`+"\n", side, side, side, side)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/><text x="%g" y="20" font-size="14">%s: predicted against measured</text>`+"\n", side, side, margin, head)
	for d := low; d <= high; d++ {
		v := at(math.Pow(10, d))
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1fM%.1f %.1fH%.1f" stroke="#ddd"/>`, v, margin, side-margin, margin, side-v, side-margin)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%g</text><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n",
			v, side-margin+16, math.Pow(10, d), margin-4, side-v+4, math.Pow(10, d))
	}
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#888"/>`+"\n", margin, side-margin, side-margin, margin)
	for _, r := range f.Shown() {
		want := r.Metrics[name]
		dot(&b, at, want, done.Cross[r.ID][name], fmt.Sprintf(`r="4" fill="none" stroke="%s"`, colour(r.Group)), r.ID+" left out")
		dot(&b, at, want, done.Fitted[r.ID][name], fmt.Sprintf(`r="3" fill="%s"`, colour(r.Group)), r.ID)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func dot(b *strings.Builder, at func(float64) float64, want, got float64, style, title string) {
	if want > 0 && got > 0 {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" %s><title>%s: %.4g, measured %.4g</title></circle>`+"\n", at(want), side-at(got), style, title, got, want)
	}
}

// colour tells the reports apart.
func colour(group string) string {
	palette := []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"}
	sum := 0
	for _, c := range group[:min(3, len(group))] {
		sum += int(c)
	}
	return palette[sum%len(palette)]
}
