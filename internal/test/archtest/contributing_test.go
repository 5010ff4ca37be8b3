package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guides are the documents for those who change the code.
func guides(t *testing.T) []string {
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil || len(notes) < 11 {
		t.Fatalf("%d files in docs/design: %v", len(notes), err)
	}
	out := []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md"}
	for _, n := range notes {
		out = append(out, "docs/design/"+filepath.Base(n))
	}
	return out
}

// TestGuidesNameWhatExists: tests and Go files. Links and make targets are looked at in all documents.
func TestGuidesNameWhatExists(t *testing.T) {
	tests := testsByName(t)
	source := regexp.MustCompile("`((?:[a-z0-9]+/)+[a-z_]+\\.go)`")
	for _, doc := range guides(t) {
		text := read(t, doc)
		for _, name := range testName.FindAllString(text, -1) {
			if !tests[name] {
				t.Errorf("%s names %s, which does not exist", doc, name)
			}
		}
		if doc != "CONTRIBUTING.md" { // whose paths are below internal/, as it says; ARCHITECTURE.md has a test of its own
			continue
		}
		for _, m := range source.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, "internal", strings.TrimPrefix(m[1], "internal/"))); err != nil {
				t.Errorf("%s names %s: %v", doc, m[1], err)
			}
		}
	}
}

// TestDecisionsAreListed: every decision has its line in the list, and the four parts.
func TestDecisionsAreListed(t *testing.T) {
	list := read(t, "docs/design/README.md")
	for _, doc := range guides(t) {
		name := path.Base(doc)
		if path.Dir(doc) != "docs/design" || name == "README.md" {
			continue
		}
		if !strings.Contains(list, "| ["+name[:4]+"]("+name+") |") {
			t.Errorf("docs/design/README.md does not list %s", name)
		}
		text := read(t, doc)
		for _, part := range []string{"# " + name[:4] + ": ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", doc, strings.TrimSpace(part))
			}
		}
		if !strings.Contains(text, "\n## Measured\n") && !strings.Contains(text, "\n## Compared\n") {
			t.Errorf("%s does not say what was measured or compared", doc)
		}
	}
}
