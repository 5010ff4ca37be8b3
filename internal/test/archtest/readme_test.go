package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spate/internal/settings/flags"
)

var (
	mdLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	makeWord = regexp.MustCompile(`(?m)^make ([a-z-]+)|` + "`make ([a-z-]+)`")
)

// documents are the Markdown files people read.
func documents(t *testing.T) []string {
	t.Helper()
	docs := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/design/*.md"} {
		more, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil || len(more) == 0 {
			t.Fatalf("%s: %v, %v", pattern, more, err)
		}
		docs = append(docs, more...)
	}
	return docs
}

func TestExamplesAreValidSettings(t *testing.T) {
	files, err := fs.Glob(os.DirFS(root), "examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		r, err := flags.Parse([]string{"--config", f}, options())
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if p := r.Bench.Dataset.Path; p != "" {
			if _, err := os.Stat(filepath.Join(root, p)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
		if usage := "spate bench --config " + f; !strings.Contains(read(t, f), usage) {
			t.Errorf("%s does not say how to use it: %s", f, usage)
		}
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for _, doc := range documents(t) {
		for _, m := range mdLink.FindAllStringSubmatch(read(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
}

func TestMakeTargetsInDocumentsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, doc := range documents(t) {
		for _, m := range makeWord.FindAllStringSubmatch(read(t, doc), -1) {
			if target := m[1] + m[2]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s says make %s, which the Makefile does not have", doc, target)
			}
		}
	}
}

func options() flags.Options {
	return flags.Options{
		Env:      func(string) (string, bool) { return "", false },
		ReadFile: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(root, name)) },
		IDPrefix: "doc-",
	}
}
