package store

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"spate/internal/host/enginelog"
	"spate/internal/result"
)

// The tests run themselves as further processes: these say what such a one does.
const (
	childStore = "STORE_TEST_WHERE"
	childFirst = "STORE_TEST_FIRST"
	childCount = "STORE_TEST_COUNT"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(childStore); where != "" {
		os.Exit(child(where))
	}
	code := m.Run()
	if err := pg.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// child puts numbered results into a store and says each on standard output once it is in.
func child(where string) int {
	first, _ := strconv.Atoi(os.Getenv(childFirst)) // the parent writes numbers
	count, _ := strconv.Atoi(os.Getenv(childCount))
	s, err := Open(context.Background(), where)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for n := first; n < first+count; n++ {
		id, err := s.Put(context.Background(), numbered(n))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(n, id)
	}
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childCmd is another process that puts results first to first+count-1.
func childCmd(t *testing.T, where string, first, count int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childStore+"="+where, childFirst+"="+strconv.Itoa(first), childCount+"="+strconv.Itoa(count), "GORACE=atexit_sleep_ms=5")
	return cmd
}

// numbered is a result like no other, with enough figures to take several pages.
func numbered(n int) result.Entry {
	r := result.Entry{Source: result.Source{File: "numbered.txt", Line: n + 1}, Format: result.FormatVLLMBlock, EngineLog: []enginelog.Sample{}}
	for i := range 60 {
		r.Metrics = append(r.Metrics, result.NewPrinted(fmt.Sprintf("figure_%02d", i), fmt.Sprintf("%d.%02d", n, i), ""))
	}
	r.Metrics = append(r.Metrics, result.NewPrinted("mean_ttft_ms", strconv.Itoa(n), ""))
	return result.Named(r)
}

// open opens a store and closes it with the test.
func open(t *testing.T, where string) *Store {
	t.Helper()
	s, err := Open(context.Background(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests have closed it already
	return s
}

// databases are where the contract is held: each call gives an empty store's place.
var databases = []struct {
	name string
	make func(t *testing.T) string
}{
	{"sqlite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "some folder", "st%re?.db") }},
	{"postgres", postgresURL},
}
