package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// levelOf maps each package of the table to its level, from 1.
func levelOf() map[string]int {
	out := map[string]int{}
	for i, l := range levels {
		for _, p := range l.packages {
			out[p] = i + 1
		}
	}
	return out
}

// graph is who imports whom inside the module, tests aside.
func graph(t *testing.T) map[string][]string {
	t.Helper()
	edges := map[string]map[string]bool{}
	for _, f := range sources(t, false) {
		if edges[f.pkg] == nil {
			edges[f.pkg] = map[string]bool{}
		}
		for _, im := range f.imports {
			if name, ok := internalImport(im); ok {
				edges[f.pkg][name] = true
			}
		}
	}
	out := map[string][]string{}
	for pkg, set := range edges {
		out[pkg] = slices.Sorted(maps.Keys(set))
	}
	return out
}

func TestImportsGoDown(t *testing.T) {
	level := levelOf()
	g := graph(t)
	for pkg, imports := range g {
		if level[pkg] == 0 {
			t.Errorf("package %s is not in the table of levels: give it a line in table_test.go and docs/ARCHITECTURE.md", pkg)
			continue
		}
		for _, im := range imports {
			if level[im] >= level[pkg] {
				t.Errorf("%s (level %d) imports %s (level %d): a package imports only lower levels", pkg, level[pkg], im, level[im])
			}
		}
	}
	for pkg := range level {
		if _, ok := g[pkg]; !ok {
			t.Errorf("package %s is in the table of levels and not in the tree", pkg)
		}
	}
}

func TestWalls(t *testing.T) {
	g := graph(t)
	for _, w := range walls {
		if path := route(g, w.pkg, w.never, nil); path != nil {
			t.Errorf("%s knows %s through %v: %s", w.pkg, w.never, path, w.why)
		}
	}
}

// route is a way along imports from one package to another, nil when there is none.
func route(g map[string][]string, from, to string, seen []string) []string {
	if slices.Contains(seen, from) {
		return nil
	}
	seen = append(seen, from)
	for _, im := range g[from] {
		if im == to {
			return append(slices.Clone(seen), to)
		}
		if path := route(g, im, to, seen); path != nil {
			return path
		}
	}
	return nil
}

func TestOnlySomeReachTheMachine(t *testing.T) {
	may, used := map[string][]string{}, map[string]bool{}
	for _, m := range machine {
		if m.why == "" {
			t.Errorf("%s may reach the machine, for no stated reason", m.pkg)
		}
		may[m.pkg] = m.imports
	}
	for _, f := range sources(t, false) {
		for _, im := range f.imports {
			if !slices.Contains(touching, im) {
				continue
			}
			used[f.pkg] = true
			if !slices.Contains(may[f.pkg], im) {
				t.Errorf("%s imports %s: %s may not; move that to a package that may, or give the reason in table_test.go", f.path, im, f.pkg)
			}
		}
	}
	for pkg := range may {
		if !used[pkg] {
			t.Errorf("%s needs no leave to reach the machine any more", pkg)
		}
	}
}

func TestBlankImports(t *testing.T) {
	for _, f := range sources(t, true) {
		for i, im := range f.ast.Imports {
			if im.Name != nil && im.Name.Name == "_" && f.imports[i] != "embed" {
				t.Errorf("%s imports %s for its side effects", f.path, f.imports[i])
			}
		}
	}
}

func TestRandomnessComesFromStreams(t *testing.T) {
	for _, f := range sources(t, false) {
		if unseeded[f.pkg] != "" {
			continue
		}
		for _, im := range f.imports {
			switch {
			case im == "math/rand":
				t.Errorf("%s imports math/rand: draw from a stream of rng", f.path)
			case im == "math/rand/v2" && !slices.Contains(drawing, f.pkg):
				t.Errorf("%s imports math/rand/v2: draw from a stream of rng", f.path)
			case im == "crypto/rand" && unpredictable[f.pkg] == "":
				t.Errorf("%s imports crypto/rand: nobody could repeat the run", f.path)
			}
		}
		if f.pkg == "rng" {
			continue
		}
		for _, use := range uses(&f, "math/rand/v2") {
			if name := use.Sel.Name; name != "Rand" && name != "Source" {
				t.Errorf("%s: rand.%s is not one of rng's named streams", at(use), name)
			}
		}
	}
}

func TestTimelessPackagesReadNoClock(t *testing.T) {
	for _, f := range sources(t, false) {
		if !slices.Contains(timeless, f.pkg) {
			continue
		}
		for _, use := range uses(&f, "time") {
			if slices.Contains(clockFuncs, use.Sel.Name) {
				t.Errorf("%s: time.%s in %s, which must not know what time it is", at(use), use.Sel.Name, f.pkg)
			}
		}
	}
}

// uses are the places where a file names something of an import.
func uses(f *source, path string) []*ast.SelectorExpr {
	name := f.localName(path)
	if name == "" {
		return nil
	}
	var out []*ast.SelectorExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				out = append(out, sel)
			}
		}
		return true
	})
	return out
}
