package result

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
)

// victim runs until it is killed, saying how many requests it has finished.
func victim(dir string) {
	f, err := Create(newRun(), Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	recs := records()
	for id := 0; ; id++ {
		r := recs[id%len(recs)]
		r.ID = id
		if err := f.Log.Record(&r); err != nil {
			os.Exit(1)
		}
		if id%3 == 0 {
			fmt.Println(f.Log.Stats().Written)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// TestKilledRunsAreRecovered kills runs at random moments; each must open with every request it had
// reported as finished.
func TestKilledRunsAreRecovered(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint("run-", round))
		acked := killed(t, dir, time.Duration(rng.IntN(20_000))*time.Microsecond)
		run, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if run.State != Recovered || run.ID != filepath.Base(dir) || run.Server.Model != "org/some-model" {
			t.Fatalf("round %d: state %s, id %s, model %s", round, run.State, run.ID, run.Server.Model)
		}
		want := call.Tally{Due: run.Tally.Due, OK: run.Tally.Due - run.Tally.Due/6, Failed: run.Tally.Due / 6, Attempts: run.Tally.Due}
		if run.Tally.Due < acked || run.Tally != want || run.Summary.Completed != want.OK {
			t.Fatalf("round %d: tally %+v, want %+v with at least %d due", round, run.Tally, want, acked)
		}
	}
}

// killed starts a run, kills it d after its first request is written, and returns the last count it gave.
func killed(t *testing.T, dir string, d time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RESULT_VICTIM="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	acked := -1
	var timer *time.Timer
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // the end of the pipe, perhaps within a line
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("victim said %q", line)
		}
		acked = n
		if timer == nil && n > 0 {
			timer = time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed, as asked
	if acked < 0 {
		t.Fatal("victim ended before it began")
	}
	return acked
}
