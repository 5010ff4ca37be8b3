package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"spate/internal/view/table"
)

// patience is how long a busy machine may take for anything.
const patience = 60 * time.Second

// chromium finds a browser to open pages with.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium on this machine: scripts/test-deps.sh installs one")
	return ""
}

// tab is a page open in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// open starts a browser that every test of a page shares.
func open(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits for its end, so that its folder can go
			t.Logf("close browser: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start browser: %v", err)
	}
	return ctx
}

// visit opens a page of its own in a new tab and, when the test ends, asks that nothing went wrong in it.
func visit(browser context.Context, t *testing.T, page []byte, width, height int64, how ...chromedp.EmulateViewportOption) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first action
		t.Fatalf("open a tab: %v", err)
	}
	v := &tab{t, ctx}
	v.do(chromedp.EmulateViewport(width, height, how...))
	var mu sync.Mutex
	var wrong []string
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			mu.Lock()
			wrong = append(wrong, m.String())
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		mu.Lock()
		if len(wrong) > 0 {
			t.Errorf("the console says:\n%s", strings.Join(wrong, "\n"))
		}
		mu.Unlock()
		cancel()
		reading.Wait()
	})
	v.do(chromedp.Navigate("file://" + file))
	v.wait("document.documentElement.classList.contains('ready')")
	return v
}

func (v *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		v.t.Fatal(err)
	}
}

func eval[T any](v *tab, js string) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		v.t.Fatalf("%s: %v", js, err)
	}
	return out
}

// wait asks until something holds.
func (v *tab) wait(js string) {
	v.t.Helper()
	for end := time.Now().Add(patience); !eval[bool](v, "!!("+js+")"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			v.t.Fatalf("never came true: %s", js)
		}
	}
}

// box is where an element is on the screen, after scrolling to it.
func (v *tab) box(selector string) (x, y, width, height float64) {
	v.t.Helper()
	r := eval[[]float64](v, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`, selector))
	return r[0], r[1], r[2], r[3]
}

// drag marks a part of an element with the mouse, in shares of its width and height.
func (v *tab) drag(selector string, fromX, fromY, toX, toY float64) {
	v.t.Helper()
	x, y, w, h := v.box(selector)
	v.do(chromedp.DragAndDropXY(x+fromX*w, y+fromY*h, x+toX*w, y+toY*h))
}

const rate0 = `figure[data-key="r0:time-rate"]`

func TestPageInABrowser(t *testing.T) {
	browser := open(t)
	s := several()
	pivot, err := table.NewPivot(s.entries, "request_rate", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	page := s.page(t, Options{Says: []string{"It says this."}, Pivot: pivot})
	v := visit(browser, t, page, 1280, 900)
	for _, c := range []struct {
		name string
		run  func(*tab)
	}{
		{"charts are drawn", seeCharts},
		{"tables sort", sortTables},
		{"rows are filtered", filterRows},
		{"one figure is compared at a time", chooseFigure},
		{"dragging zooms", zoom},
		{"pointers and keys read values", readValues},
		{"legends hide lines", toggle},
		{"axes become logarithmic", logarithm},
		{"choices change charts", choices},
		{"another run is shown", anotherRun},
		{"dark and light", themes},
		{"it prints", prints},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&tab{t, v.ctx}) })
	}
	t.Run("on a phone", func(t *testing.T) {
		v := visit(browser, t, page, 390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)
		fits(v)
	})
	t.Run("one run alone", func(t *testing.T) {
		s := &set{}
		s.add(made("alone", 40, 10, 0, 6))
		v := visit(browser, t, s.page(t, Options{}), 1280, 900)
		v.wait(`drawAll() || document.querySelectorAll("figure .series path[d]").length >= 6`)
	})
	t.Run("a hundred thousand requests", func(t *testing.T) {
		v := visit(browser, t, big().page(t, Options{}), 1280, 900)
		v.wait(`performance.getEntriesByType("navigation")[0].loadEventEnd > 0`)
		loaded := eval[float64](v, `performance.getEntriesByType("navigation")[0].loadEventEnd`)
		v.wait(`(() => { drawAll(); return document.querySelector("canvas"); })()`)
		drawn := eval[float64](v, `(() => { const at = performance.now(); drawn.get(document.querySelector("figure[data-waterfall]")).draw(); return performance.now() - at; })()`)
		t.Logf("loaded in %.0f ms, the waterfall redrawn in %.0f ms", loaded, drawn)
		v.wait(`document.querySelector("figure[data-waterfall] .note").textContent.includes("stands for about")`)
		if n := eval[int](v, `drawn.get(document.querySelector("figure[data-waterfall]")).picked.filter((i) => drawn.get(document.querySelector("figure[data-waterfall]")).bars.fate[i] !== 0).length`); n < 50 {
			t.Errorf("%d lines show one of the 100 failures", n)
		}
	})
}

func seeCharts(v *tab) {
	v.wait(`document.querySelector('figure[data-key^="load:"] .series path.line')`)
	eval[any](v, "drawAll()")
	hosts := `[...document.querySelectorAll("figure[data-key]")].filter((f) => !f.closest("[hidden]"))`
	if n := eval[int](v, hosts+".length"); n < 11 {
		v.t.Errorf("%d charts", n)
	}
	blank := eval[[]string](v, hosts+`.filter((f) => f.closest("details") === null && ![...f.querySelectorAll(".series path")].some((p) => p.getTotalLength() > 10)).map((f) => f.dataset.key)`)
	if len(blank) > 0 {
		v.t.Errorf("blank charts: %v", blank)
	}
	ink := eval[int](v, `(() => { const c = document.querySelector("article:not([hidden]) canvas"); const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; })()`)
	if ink < 3 {
		v.t.Errorf("the waterfall has %d colours", ink)
	}
	if n := eval[int](v, `document.querySelectorAll("svg[role=img]:not([aria-label])").length`); n > 0 {
		v.t.Errorf("%d charts without a label", n)
	}
}

func sortTables(v *tab) {
	column := func() []string {
		return eval[[]string](v, `(() => { const t = document.querySelector("#results table"); const k = [...t.tHead.rows[1].cells].findIndex((c) => c.textContent === "requests/s");
			return [...t.tBodies[0].rows].map((r) => r.cells[k].textContent); })()`)
	}
	press := `[...document.querySelectorAll("#results th button")].find((b) => b.textContent === "requests/s").click()`
	before := column()
	eval[any](v, press)
	up := column()
	eval[any](v, press)
	down := column()
	if len(before) != 4 || before[0] == up[0] && before[1] == up[1] && before[2] == up[2] {
		v.t.Errorf("sorting changed nothing: %v", before)
	}
	for i := range up {
		if up[i] != down[len(down)-1-i] {
			v.t.Errorf("up %v, down %v", up, down)
		}
	}
	if !eval[bool](v, `(() => { const xs = `+fmt.Sprintf("%q", strings.Join(up, " "))+`.split(" ").map(Number); return xs.every((x, i) => i === 0 || x >= xs[i - 1]); })()`) {
		v.t.Errorf("not in order of their numbers: %v", up)
	}
	if got := eval[string](v, `[...document.querySelectorAll("#results th")].find((h) => h.textContent === "requests/s").getAttribute("aria-sort")`); got != "descending" {
		v.t.Errorf("aria-sort is %q", got)
	}
}

func filterRows(v *tab) {
	shown := `[...document.querySelectorAll("#results tbody tr")].filter((r) => !r.hidden).length`
	enter := func(text string) {
		eval[any](v, fmt.Sprintf(`(() => { const i = document.querySelector("#results input"); i.value = %q; i.dispatchEvent(new Event("input")); })()`, text))
	}
	for text, want := range map[string]int{"RATE-20": 1, "suspect": 3, "suspect rate-10": 1, "nothing has this": 0, "": 4} {
		enter(text)
		if n := eval[int](v, shown); n != want {
			v.t.Errorf("%q leaves %d rows, not %d", text, n, want)
		}
	}
	enter("")
	// The table is wider than its box here: a shadow says where it goes on.
	if !eval[bool](v, `(() => { const b = document.querySelector("#results .scroll"); return b.scrollWidth <= b.clientWidth || b.classList.contains("more-right"); })()`) {
		v.t.Error("a table that goes on beyond its edge does not say so")
	}
}

func chooseFigure(v *tab) {
	seen := `[...document.querySelectorAll("#pivot .choice")].filter((c) => !c.hidden).map((c) => c.querySelector("table").closest("[aria-label]").getAttribute("aria-label")).join()`
	first := eval[string](v, seen)
	eval[any](v, `(() => { const s = document.querySelector("#pivot select"); s.selectedIndex = 1; s.dispatchEvent(new Event("change")); })()`)
	if next := eval[string](v, seen); first == "" || next == first || strings.Contains(next, ",") {
		v.t.Errorf("%q, then %q", first, next)
	}
	if n := eval[int](v, `document.querySelectorAll("#pivot td.best").length`); n == 0 {
		v.t.Error("nothing is marked as best")
	}
}

func zoom(v *tab) {
	domain := func(host string) []float64 {
		return eval[[]float64](v, fmt.Sprintf(`(() => { const c = drawn.get(document.querySelector(%q)); return [c.x.low, c.x.high]; })()`, host))
	}
	eval[any](v, "drawAll()")
	full := domain(rate0)
	v.drag(rate0+" svg", 0.3, 0.5, 0.6, 0.52)
	got := domain(rate0)
	if !(got[0] > full[0] && got[1] < full[1] && got[1]-got[0] < 0.5*(full[1]-full[0])) {
		v.t.Errorf("from %v to %v by dragging over 30 %%", full, got)
	}
	for _, other := range []string{`figure[data-key="r0:time-in-flight"]`, `figure[data-waterfall][data-run="0"]`} {
		if o := domain(other); o[0] != got[0] || o[1] != got[1] {
			v.t.Errorf("%s shows %v, not %v", other, o, got)
		}
	}
	eval[any](v, fmt.Sprintf(`document.querySelector(%q).click()`, rate0+" .reset"))
	if got := domain(rate0); got[0] != full[0] || got[1] != full[1] {
		v.t.Errorf("reset to %v, not %v", got, full)
	}
	// A box on a chart that shares no axis zooms both ways.
	pareto := `figure[data-key="pareto"]`
	v.drag(pareto+" svg", 0.2, 0.2, 0.7, 0.8)
	if !eval[bool](v, fmt.Sprintf(`(() => { const c = drawn.get(document.querySelector(%q)); return !!(c.zoomed.x && c.zoomed.y); })()`, pareto)) {
		v.t.Error("a box did not zoom both axes")
	}
	x, y, w, h := v.box(pareto + " svg")
	v.do(chromedp.MouseClickXY(x+w/2, y+h/2))
	eval[any](v, fmt.Sprintf(`document.querySelector(%q).click()`, pareto+" .reset"))
	rows := `(() => { const w = drawn.get(document.querySelector('figure[data-waterfall][data-run="0"]')); return w.rows[1] - w.rows[0]; })()`
	all := eval[int](v, rows)
	v.drag(`figure[data-waterfall][data-run="0"] canvas`, 0.3, 0.2, 0.6, 0.5)
	if n := eval[int](v, rows); n >= all || n < 1 {
		v.t.Errorf("%d of %d requests after zooming into the waterfall", n, all)
	}
	eval[any](v, `document.querySelector('figure[data-waterfall][data-run="0"] .reset').click()`)
	if n := eval[int](v, rows); n != all {
		v.t.Errorf("%d of %d requests after reset", n, all)
	}
}

func readValues(v *tab) {
	x, y, w, h := v.box(rate0 + " svg")
	v.do(chromedp.MouseEvent("mouseMoved", x+w/2, y+h/2))
	v.wait(fmt.Sprintf(`document.querySelector(%q)?.textContent.includes("requests/s")`, rate0+" .tip.on"))
	v.wait(`document.querySelector('figure[data-key="r0:time-in-flight"] .tip.on')`) // the cursor is shared
	v.do(chromedp.MouseEvent("mouseMoved", 2, 2))
	v.wait(fmt.Sprintf(`!document.querySelector(%q)`, rate0+" .tip.on"))
	point := `figure[data-key="pareto"]`
	eval[any](v, fmt.Sprintf(`document.querySelector(%q).focus()`, point+" svg"))
	v.do(chromedp.KeyEvent(kb.ArrowRight))
	v.wait(fmt.Sprintf(`document.querySelector(%q)?.textContent.includes("tokens/s")`, point+" .tip.on"))
	v.do(chromedp.KeyEvent("+"))
	v.wait(fmt.Sprintf(`drawn.get(document.querySelector(%q)).zoomed.x`, point))
	v.do(chromedp.KeyEvent(kb.Escape))
	v.wait(fmt.Sprintf(`!drawn.get(document.querySelector(%q)).zoomed.x`, point))
	eval[any](v, `document.querySelector('figure[data-waterfall][data-run="0"] canvas').focus()`)
	v.do(chromedp.KeyEvent(kb.ArrowDown))
	v.wait(`document.querySelector('figure[data-waterfall][data-run="0"] .tip.on')?.textContent.includes("Request 0")`)
	eval[any](v, `document.activeElement.blur()`)
}

func toggle(v *tab) {
	lines := fmt.Sprintf(`document.querySelectorAll(%q).length`, rate0+" .series")
	before := eval[int](v, lines)
	press := fmt.Sprintf(`document.querySelector(%q).click()`, rate0+" .legend .key")
	eval[any](v, press)
	if got := eval[int](v, lines); got != before-1 {
		v.t.Errorf("%d lines after hiding one of %d", got, before)
	}
	if got := eval[string](v, fmt.Sprintf(`document.querySelector(%q).getAttribute("aria-pressed")`, rate0+" .legend .key")); got != "false" {
		v.t.Errorf("aria-pressed is %q", got)
	}
	eval[any](v, press)
	if got := eval[int](v, lines); got != before {
		v.t.Errorf("%d lines of %d after showing it again", got, before)
	}
}

func logarithm(v *tab) {
	host := `figure[data-key="load:{load}:{stat}:tpot"]`
	state := fmt.Sprintf(`drawn.get(document.querySelector(%q)).y.kind`, host)
	before := eval[string](v, state)
	press := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((b) => b.textContent === "log y").click()`, host+" .tools button")
	eval[any](v, press)
	after := eval[string](v, state)
	if before == after || before != "log" && after != "log" {
		v.t.Errorf("from %s to %s", before, after)
	}
	eval[any](v, press)
	data := fmt.Sprintf(`[...document.querySelectorAll(%q)].find((b) => b.textContent === "data").click()`, host+" .tools button")
	eval[any](v, data)
	if n := eval[int](v, fmt.Sprintf(`document.querySelectorAll(%q).length`, host+" .data tbody tr")); n != 4 {
		v.t.Errorf("%d rows of data for 4 runs", n)
	}
	eval[any](v, data)
}

func choices(v *tab) {
	eval[any](v, `(() => { const s = document.querySelector('#latency [data-pick="metric"]'); s.value = "e2el"; s.dispatchEvent(new Event("change")); })()`)
	v.wait(`document.querySelector('figure[data-key="cdf:{metric}"] h3').textContent.startsWith("End-to-end")`)
	eval[any](v, `(() => { const s = document.querySelector('#load [data-pick="stat"]'); s.value = "median"; s.dispatchEvent(new Event("change")); })()`)
	v.wait(`document.querySelector('figure[data-key$=":ttft"] h3').textContent === "Median TTFT by load"`)
}

func anotherRun(v *tab) {
	shown := `[...document.querySelectorAll("article")].filter((a) => !a.hidden).map((a) => a.getAttribute("aria-label")).join()`
	if got := eval[string](v, shown); got != "rate-10" {
		v.t.Errorf("%q is shown at first, not the lowest load", got)
	}
	eval[any](v, `(() => { const s = document.getElementById("run"); s.value = "2"; s.dispatchEvent(new Event("change")); })()`)
	if got := eval[string](v, shown); got != "rate-40" {
		v.t.Errorf("%q is shown after choosing the third", got)
	}
	eval[any](v, `document.querySelector('article:not([hidden]) figure[data-key$="time-rate"]').scrollIntoView()`)
	v.wait(`document.querySelector('article:not([hidden]) figure[data-key$="time-rate"] .series')`)
	eval[any](v, `document.querySelector('a[data-run="0"]').click()`)
	if got := eval[string](v, shown); got != "rate-10" {
		v.t.Errorf("%q is shown after following its link", got)
	}
}

func themes(v *tab) {
	colours := `[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector("path.line")).stroke].join()`
	light := eval[string](v, colours)
	eval[any](v, `document.getElementById("theme").click()`)
	dark := eval[string](v, colours)
	if light == dark || !strings.HasPrefix(dark, "rgb(16, 19, 23)") {
		v.t.Errorf("light %s, dark %s", light, dark)
	}
	eval[any](v, `document.getElementById("theme").click()`)
	if back := eval[string](v, colours); back != light {
		v.t.Errorf("back to %s, not %s", back, light)
	}
}

func prints(v *tab) {
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF())
	if err != nil {
		v.t.Fatal(err)
	}
	if len(pdf) < 20_000 {
		v.t.Errorf("a PDF of %d bytes", len(pdf))
	}
	if got := eval[string](v, `document.documentElement.dataset.theme || "system"`); got != "light" && got != "system" {
		v.t.Errorf("theme %q after printing", got)
	}
}

// fits asks that a phone never scrolls sideways and that its charts fit.
func fits(v *tab) {
	eval[any](v, "drawAll()")
	v.wait(`document.querySelector("figure .series path")`)
	if over := eval[int](v, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		v.t.Errorf("the page is %d pixels wider than the screen", over)
	}
	wide := eval[[]string](v, `[...document.querySelectorAll("section, figure, .plot, .card, figcaption, .picks")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className + " " + (e.dataset.key || ""))`)
	if len(wide) > 0 {
		v.t.Errorf("beyond the edge of the screen: %q", wide)
	}
	x, y, w, h := v.box(rate0 + " svg")
	v.do(chromedp.TapXY(x+w/2, y+h/2))
	v.wait(fmt.Sprintf(`document.querySelector(%q)`, rate0+" .tip.on"))
}
