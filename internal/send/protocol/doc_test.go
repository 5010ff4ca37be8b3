package protocol

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedBackends holds docs/backends.md against the table: every protocol has its row where it
// goes and one for what is sent, and the tests named there exist.
func TestDocumentedBackends(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	where, what, ok := strings.Cut(string(raw), "## What is sent")
	if !ok {
		t.Fatal("docs/backends.md has no section on what is sent")
	}
	for _, p := range All() {
		row := fmt.Sprintf("| `%s` | `%s` | %d | %s | ", p.Name, p.Path, p.Port, p.Family)
		if !strings.Contains(where, row) {
			t.Errorf("docs/backends.md lacks %q", row)
		}
	}
	if n := strings.Count(where, "\n| `"); n != len(All()) {
		t.Errorf("docs/backends.md has %d backends, there are %d", n, len(All()))
	}
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(what, -1) {
		for name := range strings.FieldsSeq(row[1]) {
			told = append(told, strings.Trim(name, "`"))
		}
	}
	slices.Sort(told)
	names := slices.Sorted(slices.Values(Names()))
	if !slices.Equal(told, names) {
		t.Errorf("docs/backends.md says what is sent for %v, there are %v", told, names)
	}
	code := testCode(t)
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(what, -1) {
		if !strings.Contains(code, "func "+name+"(") {
			t.Errorf("docs/backends.md names %s, which does not exist", name)
		}
	}
}

// testCode is the text of the tests that speak protocols.
func testCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"send/client", "test/e2e", "judge/metrics"} {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	return all.String()
}
