package archtest

import (
	"regexp"
	"strings"
	"testing"

	"spate/internal/load/workload"
	"spate/internal/send/protocol"
	"spate/internal/settings/dialect"
)

var (
	testName   = regexp.MustCompile(`\bTest[A-Z]\w*`)
	scriptName = regexp.MustCompile(`\bscript (\w+\.txtar)`)
	shellName  = regexp.MustCompile("`(scripts/[\\w/.-]+)`")
)

// compatDoc says what works.
const compatDoc = "docs/compatibility.md"

// TestCompatibilityTable: what the document says works has a row for everything there is, and each row names proof that
// exists.
func TestCompatibilityTable(t *testing.T) {
	text := read(t, compatDoc)
	tests := testsByName(t)
	rows := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasSuffix(strings.TrimSpace(line), "proven by |") {
			for _, name := range testName.FindAllString(line, -1) {
				if !tests[name] {
					t.Errorf("%s names %s, which does not exist", compatDoc, name)
				}
			}
			continue
		}
		rows[strings.TrimSpace(cells[0])] = true
		checkProof(t, line, cells, tests)
	}
	var all []string
	for _, d := range workload.Datasets() {
		all = append(all, d.Name)
	}
	for _, name := range append(append(all, protocol.Names()...), dialect.Names()...) {
		if !rows["`"+name+"`"] {
			t.Errorf("%s has no row for %s", compatDoc, name)
		}
	}
}

// checkProof looks at one row: what does not work needs none.
func checkProof(t *testing.T, line string, cells []string, tests map[string]bool) {
	t.Helper()
	proof := cells[len(cells)-1]
	names := testName.FindAllString(proof, -1)
	for _, name := range names {
		if !tests[name] {
			t.Errorf("%s names %s, which does not exist", compatDoc, name)
		}
	}
	for _, m := range scriptName.FindAllStringSubmatch(proof, -1) {
		names = append(names, m[1])
		_ = read(t, "internal/test/e2e/testdata/script/"+m[1])
	}
	for _, m := range shellName.FindAllStringSubmatch(proof, -1) {
		names = append(names, m[1])
		_ = read(t, m[1])
	}
	if len(names) == 0 && !strings.Contains(line, "| not: ") {
		t.Errorf("%s claims without proof: %s", compatDoc, strings.TrimSpace(line))
	}
}

// testsByName are all tests of the tree.
func testsByName(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, f := range sources(t, true) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, f.path), -1) {
			out[m[1]] = true
		}
	}
	return out
}
