// Package view writes results in every form there is: text, Markdown, one HTML page, CSV, JSON, pictures. It puts together
// what the packages below it make: report the text of one run, table the rows, page and picture the charts. Everything
// comes from result.Entry, whoever made the result. Read Write.
package view

import (
	"fmt"
	"io"
	"strings"

	"spate/internal/judge/explain"
	"spate/internal/result"
	"spate/internal/safe/escape"
	"spate/internal/view/curve"
	"spate/internal/view/page"
	"spate/internal/view/picture"
	"spate/internal/view/report"
	"spate/internal/view/table"
)

// Formats are the forms by name, which is also their file's ending.
var Formats = []string{"text", "md", "html", "csv", "json", "png", "svg"}

// Options of a view.
type Options struct {
	Title  string   // of a page
	Charts []string // of a picture, by name; the most telling ones where empty
	Table  table.Options
}

// Write writes results in one form.
func Write(w io.Writer, format string, set []result.Entry, o Options) error {
	switch format {
	case "md":
		return markdown(w, set, &o)
	case "html":
		return html(w, set, &o)
	case "csv":
		rows, opt := withTenants(set, o.Table)
		return table.CSV(w, rows, opt)
	case "json":
		rows, opt := withTenants(set, o.Table)
		return table.JSON(w, rows, opt)
	case "png", "svg":
		return drawn(w, format, set, o.Charts)
	}
	return text(w, set)
}

// drawn is a picture of the charts that are named, or of the most telling ones.
func drawn(w io.Writer, format string, set []result.Entry, ids []string) error {
	charts, err := picture.Charts(set, ids)
	if err != nil {
		return err
	}
	if format == "svg" {
		return picture.SVG(w, table.Heading(set), charts)
	}
	return picture.PNG(w, table.Heading(set), charts)
}

// text is each run's block and findings.
func text(w io.Writer, set []result.Entry) error {
	for i := range set {
		e := &set[i]
		if e.Run == nil {
			return fmt.Errorf("%s is a result of another tool, without records: --format md shows it", e.ID)
		}
		if err := report.Text(w, e.Run); err != nil {
			return err
		}
	}
	return nil
}

// Predicted prints a run that nobody made as a measured one.
func Predicted(w io.Writer, run *result.Run) error { return report.Predicted(w, run) }

// html is the page, with what the figures say and what limited each run.
func html(w io.Writer, set []result.Entry, o *Options) error {
	pivot, err := table.NewPivot(set, o.Table.By, o.Table.Baseline, o.Table.Columns)
	if err != nil {
		return err
	}
	opt := page.Options{Title: o.Title, Says: says(set, o.Table), Explain: reasons(set, curve.Names(set)), Pivot: pivot}
	return page.Write(w, set, opt)
}

// reasons are why the figures are what they are, a section for each result that something is known of, under its name.
func reasons(set []result.Entry, names []string) []page.Section {
	var out []page.Section
	for i := range set {
		s := page.Section{Title: names[i], Run: set[i].ID}
		for _, c := range explain.Brief(&set[i]) {
			if c.Name == explain.CannotTell {
				continue
			}
			text := c.Sentence
			if len(c.Try) > 0 {
				text += " What to try: " + c.Try[0] + "."
			}
			s.Sentences = append(s.Sentences, text)
		}
		if len(s.Sentences) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// markdown is the table, what it says and what limited each run.
func markdown(w io.Writer, set []result.Entry, o *Options) error {
	rows, opt := withTenants(set, o.Table)
	pivot, err := table.NewPivot(set, opt.By, opt.Baseline, opt.Columns)
	if err != nil {
		return err
	}
	if err := table.Markdown(w, rows, opt); err != nil {
		return err
	}
	if pivot != nil {
		if _, err := fmt.Fprintf(w, "\n## Compared by %s\n\n", escape.Markdown(pivot.Factor.Title)); err != nil {
			return err
		}
		if err := pivot.WriteMarkdown(w); err != nil {
			return err
		}
	}
	sections := append([]page.Section{{Title: "What it says", Sentences: says(set, o.Table)}}, limits(set)...)
	for _, s := range sections {
		if len(s.Sentences) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n## %s\n\n", escape.Markdown(s.Title)); err != nil {
			return err
		}
		for _, text := range s.Sentences {
			if _, err := fmt.Fprintf(w, "- %s\n", escape.Sentence(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// limits are the explanations in one section, each with the verdict on the run it is about.
func limits(set []result.Entry) []page.Section {
	out := page.Section{Title: "What limited it"}
	for _, s := range reasons(set, curve.Legend(set)) {
		out.Sentences = append(out.Sentences, s.Title+": "+strings.Join(s.Sentences, " "))
	}
	return []page.Section{out}
}
