package page

import (
	"bytes"
	"strings"

	"spate/internal/safe/escape"
)

// html is the page as it grows. It is written by plain functions, one per part: a template package calls methods
// by name, and then the linker must keep every method of every type, which made the program 5 MB larger.
type html struct{ bytes.Buffer }

// put adds markup of our own; what is filled in cannot become markup.
func (h *html) put(markup string, args ...any) { h.WriteString(escape.HTML(markup, args...)) }

// attribute adds one where it has a value.
func (h *html) attribute(name, value string) {
	if value != "" {
		h.put(` `+name+`="%s"`, value)
	}
}

// section opens a section that the navigation may name.
func (h *html) section(id, title string) {
	h.put(`<section id="%s" aria-labelledby="%s-h"><h2 id="%s-h">%s</h2>`, id, id, id, title)
}

// end closes a section.
func (h *html) end() { h.put("</section>\n") }

// sectionOf opens a section of one run; the first run's can be named.
func (h *html) sectionOf(run int, id, title string) {
	h.put("<section")
	if run == 0 {
		h.attribute("id", id)
	}
	h.put("><h2>%s</h2>", title)
}

func (h *html) page(v *view) {
	h.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>%s</title>
<style>%s</style>
</head>
<body>
<header class="top"><div>
<b>spate</b>
<nav aria-label="Sections">`, v.CSP, v.Title, v.Style)
	for _, l := range v.Nav {
		h.put(`<a href="#%s">%s</a>`, l.ID, l.Name)
	}
	h.put(`</nav>
<button type="button" id="theme" title="Switch between dark and light" hidden>Dark</button>
</div></header>
<main`)
	if len(v.Runs) > 1 {
		h.attribute("class", "many")
	}
	h.put(">\n<h1>%s</h1>\n<p class=\"sub\">%s</p>", v.Title, v.Subtitle)
	h.together(v)
	h.charts(v)
	h.each(v)
	h.put(`</main>
<footer>%s</footer>
<noscript><p class="sub">Charts need JavaScript; all tables are complete without it.</p></noscript>
<script type="application/json" id="data">%s</script>
<script>%s</script>
</body>
</html>
`, v.Footer, v.Data, v.Script)
}

// together is what is said of all results.
func (h *html) together(v *view) {
	if len(v.Cards) > 0 {
		h.section("overview", "Overview")
		h.cards(v.Cards)
		h.end()
	}
	if len(v.Runs) == 1 {
		h.summary(v.Runs[0])
	}
	if len(v.Says) > 0 {
		h.section("says", "What it says")
		h.says(v.Says)
		h.end()
	}
	if v.Pivot != nil {
		h.pivot(v.Pivot)
	}
	if v.Results != nil {
		h.section("results", "Results")
		h.put(`
<div class="picks" hidden data-filter><label>Filter <input type="search" placeholder="words that a row must have" aria-label="Show only rows with these words"></label><span class="muted" role="status"></span></div>
`)
		h.noted(v.Results)
		h.end()
	}
}

func (h *html) pivot(p *pivotView) {
	h.section("pivot", "Compared by "+p.Factor)
	if len(p.Tables) > 1 {
		h.put(`<div class="picks"><label>Figure <select data-table>`)
		for i, t := range p.Tables {
			h.put(`<option value="%d">%s</option>`, i, t.Label)
		}
		h.put(`</select></label></div>`)
	}
	for _, t := range p.Tables {
		h.put(`<div class="choice"><h4>%s</h4>`, t.Label)
		h.table(t)
		h.put(`</div>`)
	}
	h.put("\n<p class=\"note\">The best of each row is marked. Factors are relative to the baseline. %s</p>", p.Note)
	h.end()
}

// charts are the places of the charts of all results; page.js draws them.
func (h *html) charts(v *view) {
	if v.Load != nil {
		h.section("load", "Latency by load")
		h.put("\n<div class=\"picks\">\n")
		h.pick("Load", "load", v.Load.Loads)
		h.put("\n")
		h.pick("Latency", "stat", v.Load.Stats)
		h.put("\n</div>\n<div class=\"grid2\">")
		for _, l := range v.Load.Latencies {
			h.put(`<figure data-key="load:{load}:{stat}:%s"></figure>`, l)
		}
		h.put("</div>\n<p class=\"note\">One point for each run, joined in the order of the requested load. A line that turns back or rises steeply has passed what the server can do.</p>\n")
		h.end()
	}
	if v.Pareto {
		h.section("pareto", "Throughput against speed")
		h.put("\n<figure data-key=\"pareto\"></figure>\n<p class=\"note\">Up and to the right is better. The frontier joins the runs that no other beats in both.</p>\n")
		h.end()
	}
	if len(v.Spread) > 0 {
		h.section("latency", "Latency distribution")
		h.put("\n<div class=\"picks\">")
		h.pick("Latency", "metric", v.Spread)
		h.put("</div>\n" + `<div class="grid2"><figure data-key="percentiles:{metric}"></figure><figure data-key="cdf:{metric}"></figure><figure class="whole" data-key="histogram:{metric}"></figure></div>` + "\n")
		h.end()
	}
}

// pick is a choice of which charts are shown.
func (h *html) pick(label, key string, choices []choice) {
	h.put(`<label>%s <select data-pick="%s">`, label, key)
	for _, c := range choices {
		h.put(`<option value="%s">%s</option>`, c.Key, c.Name)
	}
	h.put(`</select></label>`)
}

// each is what is said of single results.
func (h *html) each(v *view) {
	for _, s := range v.Explain {
		h.put(`<section aria-labelledby="explain-%d"`, s.ID)
		if s.First {
			h.attribute("id", "explain")
		}
		h.put(`><h2 id="explain-%d">%s</h2>`, s.ID, s.Title)
		h.says(s.Sentences)
		h.end()
	}
	if len(v.Runs) > 1 {
		h.put(`<div class="runbar" id="runs"><div class="picks"><h2>One run</h2><select id="run" aria-label="Run to show">`)
		for _, r := range v.Runs {
			h.put(`<option value="%d">%s</option>`, r.Index, r.Name)
		}
		h.put("</select></div></div>\n")
	}
	for _, r := range v.Runs {
		h.put(`<article data-run="%d" aria-label="%s">`, r.Index, r.Name)
		if len(v.Runs) > 1 {
			h.put("\n")
			h.summary(r)
			h.put("\n")
		}
		h.details(r)
		h.put("</article>\n")
	}
}

func (h *html) cards(all []card) {
	h.put(`<div class="cards">`)
	for _, c := range all {
		h.put(`<div class="card"><span>%s</span><b>%s`, c.Name, c.Value)
		h.small(c.Unit)
		h.put("</b>")
		if c.Note != "" {
			h.put("<em>%s</em>", c.Note)
		}
		h.put("</div>")
	}
	h.put("</div>")
}

// small adds a unit or a remark behind a figure.
func (h *html) small(text string) {
	if text != "" {
		h.put(" <small>%s</small>", text)
	}
}

// says lists sentences; all but the first few are folded away.
func (h *html) says(all []string) {
	n := min(len(all), unfolded)
	h.sentences(all[:n])
	if rest := all[n:]; len(rest) > 0 {
		h.put("<details><summary>%d more</summary>", len(rest))
		h.sentences(rest)
		h.put("</details>")
	}
}

func (h *html) sentences(all []string) {
	h.put(`<ul class="says">`)
	for _, s := range all {
		h.put("<li>")
		for i, part := range strings.Split(s, "`") { // every second one was quoted as code
			if i%2 == 1 {
				h.put("<code>%s</code>", part)
			} else {
				h.put("%s", part)
			}
		}
		h.put("</li>")
	}
	h.put("</ul>")
}

func (h *html) table(g *grid) {
	h.put(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table class="%s">`+"\n<thead>", g.Label, g.Class)
	if len(g.Over) > 0 {
		h.put("<tr>")
		for _, o := range g.Over {
			h.put(`<th colspan="%d" scope="colgroup"`, o.Span)
			if o.Gap {
				h.attribute("class", "gap")
			}
			h.put(">%s</th>", o.Text)
		}
		h.put("</tr>")
	}
	h.put("\n<tr>")
	for _, c := range g.Head {
		h.put(`<th scope="col"`)
		h.attribute("class", c.Class)
		h.attribute("title", c.Title)
		h.put(">%s</th>", c.Text)
	}
	h.put("</tr></thead>\n<tbody>")
	for _, row := range g.Rows {
		h.put("<tr>")
		for i := range row {
			h.cell(&row[i])
		}
		h.put("</tr>\n")
	}
	h.put("</tbody></table></div>")
}

func (h *html) cell(c *cell) {
	h.put("<td")
	h.attribute("class", c.Class)
	h.attribute("data-v", c.Sort)
	h.attribute("title", c.Title)
	h.put(">")
	switch {
	case c.Badge != "":
		h.put(`<span class="badge %s">%s</span>`, c.Badge, c.Text)
	case c.Run != "":
		h.put(`<a href="#runs" data-run="%s">%s</a>`, c.Run, c.Text)
	default:
		h.put("%s", c.Text)
	}
	h.small(c.Note)
	h.put("</td>")
}

// noted is a table and what is to be said about it.
func (h *html) noted(g *grid) {
	h.table(g)
	h.put(`<p class="note">%s</p>`, g.Note)
}

// titled is a table with a heading, where there is one.
func (h *html) titled(title string, g *grid) {
	if g != nil {
		h.put("<h4>%s</h4>", title)
		h.noted(g)
	}
}

// summary is the upper part of a run: verdict, figures, and what limited it.
func (h *html) summary(r *runView) {
	h.put("<section")
	if r.Alone {
		h.attribute("id", "overview")
	}
	h.put("><h2>%s</h2>\n<p class=\"sub\">%s</p>\n", r.Name, r.Sub)
	if v := r.Verdict; v != nil {
		h.put(`<p class="verdict"><span class="badge %s">%s</span><span>%s</span></p>`, v.Badge, v.Grade, v.Sentence)
	}
	h.put("\n")
	h.cards(r.Cards)
	h.put("\n")
	h.titled("Latency, ms", r.Latency)
	h.put("\n")
	h.titled("Tenants", r.Tenants)
	h.titled("Workers", r.Workers)
	if r.Facts != nil {
		h.put("<h4>What is known of it</h4>")
		h.table(r.Facts)
	}
	h.put("\n")
	if len(r.Problems) > 0 {
		h.put("<h4>Notes</h4>")
		h.says(r.Problems)
	}
	h.put("\n</section>\n")
	for _, s := range r.Explain {
		h.put("<section><h2>%s</h2>", s.Title)
		h.says(s.Sentences)
		h.end()
	}
}

// details is the lower part of a run: its charts, errors, checks and environment.
func (h *html) details(r *runView) {
	if len(r.Time) > 0 {
		h.overTime(r)
	}
	if e := r.Errors; e != nil {
		h.sectionOf(e.Index, "errors", "Errors")
		if e.Sentence != "" {
			h.put("<p>%s</p>", e.Sentence)
		}
		h.put("\n")
		if e.Kinds != nil {
			h.table(e.Kinds)
		}
		h.put("\n")
		if len(e.Examples) > 0 {
			h.put("<h4>First messages</h4><pre>%s\n</pre>", strings.Join(e.Examples, "\n"))
		}
		h.end()
	}
	if r.Checks != nil {
		h.sectionOf(r.Index, "checks", "Can the figures be trusted")
		h.table(r.Checks)
		h.end()
	}
	if len(r.Commands) > 0 {
		h.environment(r)
	}
}

func (h *html) overTime(r *runView) {
	h.sectionOf(r.Index, "time", "Over time")
	h.stack(r, r.Time, r.Waterfall)
	h.put("\n")
	if len(r.Host) > 0 {
		h.put("<details><summary>The client's own host</summary>")
		h.stack(r, r.Host, false)
		h.put("</details>")
	}
	h.put("\n<p class=\"note\">All charts here share one time axis: drag to zoom into a stretch of it, double-click or press Escape to see all.</p>")
	h.end()
}

// stack are the places of charts of one run, one above the other.
func (h *html) stack(r *runView, keys []string, waterfall bool) {
	h.put(`<div class="stack">`)
	for _, key := range keys {
		h.put(`<figure data-key="%s" data-run="%d"></figure>`, key, r.Index)
	}
	if waterfall {
		h.put(`<figure data-waterfall data-run="%d"></figure>`, r.Index)
	}
	h.put("</div>")
}

func (h *html) environment(r *runView) {
	h.sectionOf(r.Index, "environment", "Commands and environment")
	h.put("\n")
	for _, c := range r.Commands {
		h.put("<h4>%s</h4><pre>%s</pre>", c.Title, c.Text)
	}
	h.put("\n")
	if r.Environment != nil {
		h.put("<details><summary>Environment: %s</summary>", r.Environment.Note)
		h.table(r.Environment)
		h.put("</details>")
	}
	h.put("\n")
	if r.Elsewhere {
		h.put(`<p class="note">Environment and all settings are in the run's folder (result.json), and on a page of this run alone.</p>`)
	}
	h.put("\n")
	if r.Config != "" {
		h.put("<details><summary>All settings of the run</summary><pre>%s</pre></details>", r.Config)
	}
	h.put("\n")
	h.end()
}
