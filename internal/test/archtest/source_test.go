package archtest

import (
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNoInitFunctions(t *testing.T) {
	for _, f := range sources(t, true) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: an init function runs where nobody reads it", at(fn))
			}
		}
	}
}

func TestPackagesIntroduceThemselves(t *testing.T) {
	docs := map[string][]string{}
	for _, f := range sources(t, false) {
		if docs[f.pkg] == nil {
			docs[f.pkg] = []string{}
		}
		if f.ast.Doc == nil {
			continue
		}
		docs[f.pkg] = append(docs[f.pkg], f.path)
		start := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			start = "Command " + path.Base(f.pkg) + " "
		}
		if text := f.ast.Doc.Text(); !strings.HasPrefix(text, start) {
			t.Errorf("%s: the package comment does not begin with %q", f.path, start)
		}
	}
	for pkg, files := range docs {
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments %v, want one", pkg, len(files), files)
		}
		if name := path.Base(pkg); slices.Contains(vague, name) {
			t.Errorf("package %s: %q says nothing about what is inside", pkg, name)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, f := range sources(t, true) {
		if f.lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: split it", f.path, f.lines, maxLines)
		}
	}
}

// TestSkipsSayWhy: a test that does not run must at least say so.
func TestSkipsSayWhy(t *testing.T) {
	for _, f := range sources(t, true) {
		if !f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := c.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "SkipNow":
				t.Errorf("%s skips without a reason", at(c))
			case "Skip", "Skipf":
				if len(c.Args) == 0 || !isReason(c.Args[0]) {
					t.Errorf("%s skips without a reason in words", at(c))
				}
			}
			return true
		})
	}
}

// isReason accepts a few words, or a value such as an error that carries them.
func isReason(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return !ok || lit.Kind == token.STRING && len(strings.Fields(lit.Value)) >= 3
}

// TestNoGlobalState: a package-level variable is set where it is declared and never again, so there is
// no registry to fill and no order of calls to know.
func TestNoGlobalState(t *testing.T) {
	byPackage := map[string][]*ast.File{}
	for _, f := range sources(t, false) {
		if ok, err := build.Default.MatchFile(filepath.Join(root, path.Dir(f.path)), path.Base(f.path)); err != nil {
			t.Fatal(err)
		} else if ok {
			byPackage[f.pkg] = append(byPackage[f.pkg], f.ast)
		}
	}
	for pkg, files := range byPackage {
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		// Imports stay unresolved: only the package's own names matter here, and they resolve without.
		conf := types.Config{Importer: noImports{}, Error: func(error) {}}
		checked, _ := conf.Check(pkg, positions, files, info)
		for _, f := range files {
			for _, w := range writes(f) {
				id := rootOf(w)
				if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == checked.Scope() {
					t.Errorf("%s: %s changes while the program runs; pass it to those who need it", at(id), id.Name)
				}
			}
		}
	}
}

type noImports struct{}

func (noImports) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(strings.TrimSuffix(p, "/v2")))
	pkg.MarkComplete()
	return pkg, nil
}

// writes are the expressions a file assigns to, inside functions.
func writes(f *ast.File) []ast.Expr {
	var out []ast.Expr
	ast.Inspect(f, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				out = append(out, s.Lhs...)
			}
		case *ast.IncDecStmt:
			out = append(out, s.X)
		case *ast.CallExpr:
			if fn, ok := s.Fun.(*ast.Ident); ok && fn.Name == "delete" && len(s.Args) > 0 {
				out = append(out, s.Args[0])
			}
		}
		return true
	})
	return out
}

// rootOf is the variable at the bottom of an expression: m of m[k].f.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
