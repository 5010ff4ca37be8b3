package verdict

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDocumentedChecks(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/verdict.md")
	if err != nil {
		t.Fatal(err)
	}
	section, _, _ := strings.Cut(string(raw), "## What few samples can show")
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	for _, c := range checks {
		if !slices.Contains(names, c.name) {
			t.Errorf("docs/verdict.md does not describe the check %q", c.name)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.name == n }) {
			t.Errorf("docs/verdict.md describes the check %q, which does not exist", n)
		}
	}
}
