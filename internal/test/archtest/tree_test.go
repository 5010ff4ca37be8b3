package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder, seen from this package.
const root = "../../.."

// source is one parsed Go file, whatever platform it is for.
type source struct {
	path    string // from the module's root, with slashes
	pkg     string // the name in the table: call, tokenizer/chat, cmd/spate
	test    bool
	ast     *ast.File
	imports []string
	lines   int
}

// tree parses every Go file of the module once.
var tree = sync.OnceValues(func() ([]source, error) {
	var files []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if hidden := path != root && strings.HasPrefix(d.Name(), "."); hidden || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parse(path)
		files = append(files, f)
		return err
	})
	return files, err
})

// positions of all parsed files.
var positions = token.NewFileSet()

func parse(path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	rel = filepath.ToSlash(rel)
	f := source{path: rel, pkg: packageOf(rel), test: strings.HasSuffix(rel, "_test.go"), lines: strings.Count(string(text), "\n")}
	f.ast, err = parser.ParseFile(positions, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	for _, im := range f.ast.Imports {
		name, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			return f, err
		}
		f.imports = append(f.imports, name)
	}
	return f, nil
}

// packageOf is the table's name for the package a file belongs to.
func packageOf(rel string) string {
	dir := rel[:max(0, strings.LastIndexByte(rel, '/'))]
	return strings.TrimPrefix(dir, "internal/")
}

// sources are the files of the module; tests included only when asked.
func sources(t *testing.T, tests bool) []source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if tests {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(f source) bool { return f.test })
}

// internalImport is the table's name of an imported package of this module.
func internalImport(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, moduleName+"/")
	return strings.TrimPrefix(rest, "internal/"), ok
}

// read returns a file of the module as text.
func read(t *testing.T, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// at is where a node stands, for people.
func at(n ast.Node) string {
	p := positions.Position(n.Pos())
	return strings.TrimPrefix(filepath.ToSlash(p.Filename), root+"/") + ":" + strconv.Itoa(p.Line)
}

// localName is the name under which a file knows an import, or "" when it does not import it.
func (f *source) localName(path string) string {
	for i, im := range f.imports {
		if im != path {
			continue
		}
		if name := f.ast.Imports[i].Name; name != nil {
			return name.Name
		}
		path = strings.TrimSuffix(path, "/v2")
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}
