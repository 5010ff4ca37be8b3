package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What "ten minutes" means for docs/trace.md.
const (
	maxStops      = 9
	maxTraceLines = 450
)

var traceRow = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| (.+?) \\| (.+) \\|$")

// TestTraceNamesWhatExists looks at each table of docs/trace.md: one request, one prediction, one imported block.
func TestTraceNamesWhatExists(t *testing.T) {
	parts := strings.Split(read(t, "docs/trace.md"), "\n## ")[1:]
	if len(parts) < 3 {
		t.Errorf("docs/trace.md follows %d things, want 3", len(parts))
	}
	for _, part := range parts {
		title, _, _ := strings.Cut(part, "\n")
		t.Run(title, func(t *testing.T) { traceTable(t, part) })
	}
}

func traceTable(t *testing.T, text string) {
	t.Helper()
	rows := traceRow.FindAllStringSubmatch(text, -1)
	if len(rows) < 7 || len(rows) > maxStops {
		t.Fatalf("%d stops, want 7 to %d", len(rows), maxStops)
	}
	total := 0
	for i, row := range rows {
		if want := fmt.Sprint(i + 1); row[1] != want {
			t.Errorf("stop %s stands in place %s", row[1], want)
		}
		f := find(t, row[2])
		if f == nil {
			t.Errorf("stop %s: %s is gone", row[1], row[2])
			continue
		}
		for name := range strings.SplitSeq(row[3], ", ") {
			lines := funcLines(f, strings.Trim(name, "`"))
			if lines == 0 {
				t.Errorf("stop %s: %s has no function %s", row[1], row[2], name)
			}
			total += lines
		}
	}
	if total > maxTraceLines {
		t.Errorf("the functions have %d lines together, more than %d: choose better stops", total, maxTraceLines)
	}
}

// Other files the trace and the architecture mention in passing.
var pathMention = regexp.MustCompile("`((?:internal/)?[a-z_0-9]+(?:/[a-z_0-9]+)*\\.(?:go|md|sh))`")

func TestDocumentsNameFilesThatExist(t *testing.T) {
	for _, doc := range []string{"docs/trace.md", "docs/ARCHITECTURE.md"} {
		for _, m := range pathMention.FindAllStringSubmatch(read(t, doc), -1) {
			if !exists(t, m[1]) {
				t.Errorf("%s mentions %s, which is nowhere", doc, m[1])
			}
		}
	}
}

// exists reports whether some file's path ends in the mentioned one.
func exists(t *testing.T, mention string) bool {
	t.Helper()
	return slices.ContainsFunc(sources(t, true), func(f source) bool { return strings.HasSuffix("/"+f.path, "/"+mention) })
}

func find(t *testing.T, path string) *source {
	t.Helper()
	all := sources(t, true)
	i := slices.IndexFunc(all, func(f source) bool { return f.path == path })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// funcLines is how long a function is, written F or (*T).F; 0 when the file has none of that name.
func funcLines(f *source, name string) int {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && funcName(fn) == name {
			return positions.Position(fn.End()).Line - positions.Position(fn.Pos()).Line + 1
		}
	}
	return 0
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	switch r := fn.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		if id, ok := r.X.(*ast.Ident); ok {
			return "(*" + id.Name + ")." + fn.Name.Name
		}
	case *ast.Ident:
		return r.Name + "." + fn.Name.Name
	}
	return ""
}

func TestArchitectureShowsTheLevels(t *testing.T) {
	text := read(t, "docs/ARCHITECTURE.md")
	var want strings.Builder
	for i, l := range levels {
		fmt.Fprintf(&want, "%d  %s\n", i+1, strings.Join(l.packages, "  "))
	}
	_, rest, ok := strings.Cut(text, "<!-- levels -->\n```\n")
	got, _, end := strings.Cut(rest, "```")
	if !ok || !end || got != want.String() {
		t.Errorf("docs/ARCHITECTURE.md shows\n%s\nwant\n%s", got, want.String())
	}
	for pkg := range levelOf() {
		if base := pkg[strings.LastIndexByte(pkg, '/')+1:]; !strings.Contains(text, "  "+base+"/ ") && !strings.Contains(text, "`"+pkg+"`") && !strings.Contains(text, pkg+"/ ") {
			t.Errorf("docs/ARCHITECTURE.md does not say what %s is for", pkg)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z][^\s]*\.[^\s]+) (v[^\s]+)`)

// TestDependenciesAreExplained: every module this code imports is in docs/dependencies.md at its version.
func TestDependenciesAreExplained(t *testing.T) {
	text := read(t, "docs/dependencies.md")
	direct := map[string]bool{}
	modules := requirement.FindAllStringSubmatch(read(t, "go.mod"), -1)
	for _, f := range sources(t, true) {
		for _, im := range f.imports {
			if m := owner(modules, im); m != nil && !direct[m[1]] {
				direct[m[1]] = true
				if !strings.Contains(text, "`"+m[1]+"` "+m[2]) {
					t.Errorf("docs/dependencies.md does not explain `%s` %s", m[1], m[2])
				}
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` v").FindAllStringSubmatch(text, -1) {
		if !direct[row[1]] {
			t.Errorf("docs/dependencies.md explains %s, which nothing imports", row[1])
		}
	}
	if len(direct) == 0 {
		t.Error("found no modules: the pattern for go.mod is wrong")
	}
}

// owner is the module an import belongs to: the one with the longest path.
func owner(modules [][]string, im string) []string {
	var best []string
	for _, m := range modules {
		if (im == m[1] || strings.HasPrefix(im, m[1]+"/")) && (best == nil || len(m[1]) > len(best[1])) {
			best = m
		}
	}
	return best
}
