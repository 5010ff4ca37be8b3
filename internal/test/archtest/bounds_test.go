package archtest

import "testing"

// How large the house may grow: packages on the longest way along imports, what package cli may hold and know, and the
// lines of a package, tests aside.
const (
	maxDepth        = 9
	maxCLILines     = 4000
	maxCLIImports   = 25
	maxPackageLines = 6000
)

func TestImportsAreNotDeep(t *testing.T) {
	g := graph(t)
	known := map[string][]string{}
	var longest func(pkg string) []string
	longest = func(pkg string) []string {
		if way, ok := known[pkg]; ok {
			return way
		}
		var below []string
		for _, im := range g[pkg] {
			if way := longest(im); len(way) > len(below) {
				below = way
			}
		}
		known[pkg] = append([]string{pkg}, below...)
		return known[pkg]
	}
	for pkg := range g {
		if way := longest(pkg); len(way) > maxDepth {
			t.Errorf("%d packages import one another, more than %d: %v", len(way), maxDepth, way)
		}
	}
}

func TestCommandsStaySmall(t *testing.T) {
	lines := packageLines(t)["cli"]
	if lines == 0 || lines >= maxCLILines {
		t.Errorf("package cli has %d lines, want fewer than %d: a command parses, calls once and prints; its work goes into its room", lines, maxCLILines)
	}
	if own := graph(t)["cli"]; len(own) > maxCLIImports {
		t.Errorf("package cli imports %d packages of its own, more than %d: %v", len(own), maxCLIImports, own)
	}
}

func TestPackagesStaySmall(t *testing.T) {
	for pkg, lines := range packageLines(t) {
		if lines > maxPackageLines {
			t.Errorf("package %s has %d lines, more than %d: split it along a seam", pkg, lines, maxPackageLines)
		}
	}
}

// packageLines are the lines of each package, tests aside.
func packageLines(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, f := range sources(t, false) {
		out[f.pkg] += f.lines
	}
	return out
}
