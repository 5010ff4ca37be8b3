package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeps runs the script that installs what tests need, on a system without Chromium whose package manager only
// says that it was called: installing for real is not for a test to do.
func TestDeps(t *testing.T) {
	script, err := filepath.Abs("../../../scripts/test-deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, text := range map[string]string{
		"apt-get": "echo \"CALLED apt-get $*\" >&2", "id": "echo 0", "initdb": "", "timeout": "shift; exec \"$@\"", "ls": "exit 1",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		choice string
		want   []string // in this order
		never  string
	}{
		"as it comes": {"", []string{
			"chromium    the report's tests open the HTML page in a browser", "Installing them now, into the system: apt-get update && apt-get install --no-install-recommends chromium",
			"SPATE_TEST_DEPS=skip", "CALLED apt-get update", "CALLED apt-get install -y -qq --no-install-recommends chromium", "!!! chromium is not installed",
		}, "postgresql  "},
		"skip":     {"skip", []string{"SPATE_TEST_DEPS=skip: nothing is installed; missing: chromium", "!!! chromium is not installed"}, "CALLED"},
		"misspelt": {"skp", []string{"SPATE_TEST_DEPS=skp: want skip or install", "!!! chromium is not installed"}, "CALLED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", script)
			cmd.Env = []string{"PATH=" + bin, "SPATE_TEST_DEPS=" + test.choice}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			rest := string(out)
			for _, want := range test.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("lacks %q, or not in this place:\n%s", want, out)
				}
				rest = after
			}
			if strings.Contains(string(out), test.never) {
				t.Errorf("has %q:\n%s", test.never, out)
			}
		})
	}
}
