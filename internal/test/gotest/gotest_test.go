package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module of its own for go test to run, and goes into it.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
}

const passing = `package a
import ("testing"; "time"; "fmt")
func TestQuick(t *testing.T) { fmt.Println("chatter"); t.Log("more chatter") }
func TestSlow(t *testing.T) { time.Sleep(400 * time.Millisecond) }
func TestNotHere(t *testing.T) { t.Skip("needs something") }
`

// TestPassing: go test's closing line stays, chatter of tests that pass does not, and while a test takes its time a
// line says which.
func TestPassing(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": passing})
	var out bytes.Buffer
	code, err := run([]string{"./..."}, &out, 20*time.Millisecond)
	if code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, out.String())
	}
	for _, want := range []string{"ok  \tm/a\t", "; compiling\n", "1 tests passed; 1 running, longest m/a TestSlow (", "\n2 tests passed, 0 failed, 1 skipped in ", "; slowest: m/a TestSlow ("} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "chatter") {
		t.Errorf("tells what a passing test said:\n%s", out.String())
	}
}

// TestFailing: whatever goes wrong is shown with all that was said, and the exit code is go test's.
func TestFailing(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"a test": {
			map[string]string{"a/a_test.go": passing, "b/b_test.go": "package b\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Run(\"part\", func(t *testing.T) { t.Error(\"wrong figure\") }) }\n"},
			[]string{"ok  \tm/a\t", "wrong figure", "--- FAIL: TestBad (", "--- FAIL: TestBad/part", "FAIL\tm/b\t", "2 tests passed, 2 failed, 1 skipped"},
		},
		"a panic": {
			map[string]string{"b/b_test.go": "package b\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Log(\"before\"); panic(\"the cause\") }\n"},
			[]string{"the cause", "before", "FAIL\tm/b\t"},
		},
		"an exit": {
			map[string]string{"b/b_test.go": "package b\nimport (\"os\"; \"testing\"; \"fmt\")\nfunc TestBad(t *testing.T) { fmt.Println(\"last words\"); os.Exit(3) }\n"},
			[]string{"last words", "FAIL\tm/b\t"},
		},
		"code that does not compile": {
			map[string]string{"b/b_test.go": "package b\nimport \"testing\"\nfunc TestBad(t *testing.T) { nothing() }\n"},
			[]string{"undefined: nothing", "FAIL\tm/b [build failed]"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			module(t, test.files)
			var out bytes.Buffer
			code, err := run([]string{"./..."}, &out, time.Minute)
			if code != 1 || err != nil {
				t.Errorf("exit code %d, %v", code, err)
			}
			for _, want := range test.want {
				if strings.Count(out.String(), want) != 1 {
					t.Errorf("wants %q once:\n%s", want, out.String())
				}
			}
		})
	}
}

// TestNotEvents: lines that are no events, whatever they hold, are printed and stop nothing.
func TestNotEvents(t *testing.T) {
	var out bytes.Buffer
	f := newFollower(&out, time.Now)
	text := "go: downloading x\n{\"Action\":1}\n{\"Action\":\"later-kind\",\"Package\":\"p\"}\n{broken\n"
	if err := f.follow(strings.NewReader(text), time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "go: downloading x\n{\"Action\":1}\n{broken\n0 tests passed, 0 failed, 0 skipped in 0s\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestPortIsHeld: while tests run, something answers at vLLM's port.
func TestPortIsHeld(t *testing.T) {
	module(t, map[string]string{"a/a_test.go": "package a\nimport (\"net\"; \"testing\")\nfunc TestTaken(t *testing.T) {\n" +
		"if l, err := net.Listen(\"tcp\", \":8000\"); err == nil { l.Close(); t.Error(\"port 8000 is free\") } }\n"})
	var out bytes.Buffer
	if code, err := run([]string{"./..."}, &out, time.Minute); code != 0 || err != nil {
		t.Errorf("exit code %d, %v\n%s", code, err, out.String())
	}
}

// TestSlowestAreInnermost: a test that waited for the parallel ones within it is not the slow one.
func TestSlowestAreInnermost(t *testing.T) {
	var out strings.Builder
	events := `{"Action":"pass","Package":"m","Test":"TestKilled/rounds/1","Elapsed":1}
{"Action":"pass","Package":"m","Test":"TestFit","Elapsed":9}
{"Action":"pass","Package":"m","Test":"TestKilled/rounds/2","Elapsed":2}
{"Action":"pass","Package":"m","Test":"TestKilled/rounds","Elapsed":0}
{"Action":"pass","Package":"m","Test":"TestKilled","Elapsed":244}
`
	if err := newFollower(&out, time.Now).follow(strings.NewReader(events), time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "; slowest: m TestFit (9 s), m TestKilled/rounds/2 (2 s), m TestKilled/rounds/1 (1 s)\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("ends with %q, want %q", out.String(), want)
	}
}
