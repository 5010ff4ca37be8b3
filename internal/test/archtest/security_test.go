package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// TestPromisesNameTestsThatExist reads the table of docs/security.md: each promise names its tests, and they are there.
func TestPromisesNameTestsThatExist(t *testing.T) {
	_, table, ok := strings.Cut(read(t, "docs/security.md"), "| promise | against | held by |")
	if !ok {
		t.Fatal("docs/security.md has no table of promises")
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")
	rows := 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.TrimSpace(line) == "|" {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("a promise without a test: %s", line)
		}
		for _, m := range tests {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("package %s has no %s", m[1], m[2])
			}
		}
	}
	if rows < 5 {
		t.Errorf("%d promises were read", rows)
	}
}

// TestFuzzingSpendsItsTimeOnInputs reads the recipe of make fuzz: without a bound, shrinking one input takes up to a
// minute of the time that each target has.
func TestFuzzingSpendsItsTimeOnInputs(t *testing.T) {
	text := read(t, "Makefile")
	for _, want := range []string{"FUZZSHRINK ?= 0s\n", "-fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZSHRINK)"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Makefile has no %q", want)
		}
	}
}

// hasTest reports whether a package of that name, in whichever room, has a test.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	for _, f := range sources(t, true) {
		if (f.pkg == pkg || strings.HasSuffix(f.pkg, "/"+pkg)) && strings.Contains(read(t, f.path), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
