package e2e

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spate/internal/sim/serve"
)

// hostileName is what a server may call its model: it retitles and clears the terminal, turns the direction of
// writing, forges a row of a table, brings a picture and a script, and begins with a formula.
const hostileName = "=cmd|' /c calc'!A0\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\u2066\r\n| forged | row |\n## heading <script>alert(1)</script><img src=x onerror=y> ![p](http://127.0.0.1:1/p.png)"

// checkText fails on anything a terminal or a reader would take for a command.
func checkText(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			i := strings.IndexRune(text, r)
			t.Errorf("%s has %q: ...%q...", what, r, text[max(0, i-40):min(len(text), i+40)])
			return
		}
	}
}

func TestHostileNamesReachNoTerminalAndNoPage(t *testing.T) {
	slow(t, "runs every view")
	dir := t.TempDir()
	srv := sim(t, serve.Config{Models: []string{hostileName}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	spate := func(args ...string) ended {
		t.Helper()
		c := prepare(t, []string{"SPATE_STORE=" + filepath.Join(dir, "store.db")}, args...)
		c.cmd.Dir = dir
		e := c.want(0)
		checkText(t, "standard output of "+args[0], e.out)
		checkText(t, "standard error of "+args[0], e.stderr)
		return e
	}
	spate("bench", "--base-url", srv.URL(), "--num-prompts", "3", "--isl", "8", "--osl", "2", "--output-dir", "run", "--label", hostileName,
		"--metadata", "note="+hostileName, "--plot-timeline", "--save-result", "--save-detailed")
	spate("sweep", "--base-url", srv.URL(), "--num-prompts", "2,3", "--isl", "8", "--osl", "2", "--output-dir", "sweep", "--name", "@"+hostileName, "-o", "sweep.md")
	for _, args := range [][]string{
		{"list"},
		{"list", "--format", "json"},
		{"list", "--format", "csv"},
		{"show", "last"},
		{"tag", "last", "more=" + hostileName},
		{"import", "--no-store", "run"},
		{"export"},
		{"export", "--format", "csv"},
		{"explain", "run"},
		{"report", "run"},
		{"report", "--format", "md", "run"},
		{"report", "run", "sweep", "-o", "r.md", "-o", "r.html", "-o", "r.csv", "-o", "r.svg"},
	} {
		spate(args...)
	}
	for _, name := range []string{"r.md", "r.html", "r.csv", "r.svg", "sweep.md"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if name != "r.csv" && name != "r.html" { // JSON of a page is a script's business; cells of CSV hold what the text holds
			checkText(t, name, text)
		}
		if strings.HasSuffix(name, ".md") {
			for _, bad := range []string{"<script", "<img", "![p]", "\n| forged", "\n## heading"} {
				if strings.Contains(text, bad) {
					t.Errorf("%s has %q", name, bad)
				}
			}
		}
		if name == "r.csv" {
			checkCells(t, text)
		}
	}
}

// checkCells fails on cells that a spreadsheet takes for a formula.
func checkCells(t *testing.T, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, row := range rows {
		for _, cell := range row {
			seen = seen || strings.HasPrefix(cell, "'=cmd")
			if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				t.Errorf("cell %q", cell)
			}
		}
	}
	if !seen {
		t.Error("no cell holds the name: nothing was checked")
	}
}
