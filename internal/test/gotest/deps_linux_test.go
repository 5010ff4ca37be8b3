package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bare is a folder of programs for PATH: a system without Chromium whose package manager only says that it was called,
// because installing for real is not for a test to do.
func bare(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for name, text := range map[string]string{
		"apt-get": "echo \"CALLED apt-get $*\" >&2", "id": "echo 0", "initdb": "", "timeout": "shift; exec \"$@\"", "ls": "exit 1",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// terminal opens a pseudo terminal: what is typed on it, and the side a program has as its standard input.
func terminal(t *testing.T) (typed, input *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(typed.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	input, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = typed.Close(), input.Close() }) // nothing is left on either side
	return typed, input
}

// TestDeps runs the script that installs what tests need: it says what is missing and what it does, asks at a terminal
// before it installs anything, and asks nobody in CI.
func TestDeps(t *testing.T) {
	script, err := filepath.Abs("../../../scripts/test-deps.sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := bare(t)
	const why, how = "chromium    the report's tests open the HTML page in a browser", "apt-get update && apt-get install --no-install-recommends chromium"
	const question, none = "Install them now?", "!!! chromium is not installed"
	called := []string{"CALLED apt-get update", "CALLED apt-get install -y -qq --no-install-recommends chromium", none}
	tests := map[string]struct {
		env    []string
		answer string   // what is typed at a terminal; without one there is none
		want   []string // in this order
		never  string
	}{
		"no terminal":        {nil, "", append([]string{why, how, "no terminal: installing without asking", "SPATE_TEST_DEPS=skip"}, called...), question},
		"a terminal, in CI":  {[]string{"CI=true"}, "n\n", append([]string{why, how, "CI=true", "installing without asking"}, called...), question},
		"a terminal, yes":    {nil, "y\n", append([]string{why, how, question}, called...), "without asking"},
		"a terminal, no":     {nil, "n\n", []string{why, how, question, "Nothing is installed", none}, "CALLED"},
		"a terminal, return": {nil, "\n", []string{question, "Nothing is installed", none}, "CALLED"},
		"a terminal, told":   {[]string{"SPATE_TEST_DEPS=install"}, "n\n", append([]string{why, how, "SPATE_TEST_DEPS=install: installing without asking"}, called...), question},
		"skip":               {[]string{"SPATE_TEST_DEPS=skip"}, "y\n", []string{"SPATE_TEST_DEPS=skip: nothing is installed; missing: chromium", none}, "CALLED"},
		"misspelt":           {[]string{"SPATE_TEST_DEPS=skp"}, "y\n", []string{"SPATE_TEST_DEPS=skp: want skip or install", none}, "CALLED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", script)
			cmd.Env = append([]string{"PATH=" + bin}, test.env...)
			if test.answer != "" {
				typed, input := terminal(t)
				cmd.Stdin = input
				if _, err := typed.WriteString(test.answer); err != nil {
					t.Fatal(err)
				}
			}
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
			for _, never := range []string{test.never, "postgresql  "} { // initdb is there
				if strings.Contains(string(out), never) {
					t.Errorf("has %q:\n%s", never, out)
				}
			}
		})
	}
}
