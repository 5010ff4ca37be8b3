package recorder

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// victim writes records as fast as it can and says on stdout how many are written, until killed.
func victim(path string) {
	l, err := Create(path, Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for id := 0; ; id++ {
		r := sample(id, 1+id%200)
		if err := l.Record(&r); err != nil {
			os.Exit(1)
		}
		if id%7 == 0 {
			fmt.Println(l.Stats().Written)
		}
	}
}

// TestKill9 kills a writing process at random moments. Every record it had reported as written must
// be readable, in order and whole.
func TestKill9(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	const rounds = 25
	total := 0
	for round := range rounds {
		path := filepath.Join(dir, fmt.Sprintf("%d.jsonl", round))
		acked := killAfter(t, path, time.Duration(rng.IntN(30_000))*time.Microsecond)
		recs, damage, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if damage.Bad != 0 {
			t.Fatalf("round %d: %v; only the last line may be torn", round, damage)
		}
		if len(recs) < acked {
			t.Fatalf("round %d: %d records readable, %d were acknowledged", round, len(recs), acked)
		}
		for i, r := range recs {
			if r.ID != i || len(r.Chunks) != 1+i%200 {
				t.Fatalf("round %d: record %d is request %d with %d chunks", round, i, r.ID, len(r.Chunks))
			}
		}
		total += acked
	}
	t.Logf("%d kills, %d records acknowledged, none lost", rounds, total)
}

// killAfter starts a victim, kills it d after its first record is written, and returns its last count.
func killAfter(t *testing.T, path string, d time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RECORDER_VICTIM="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	acked := 0
	for acked == 0 {
		acked = readAck(t, in)
	}
	timer := time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	rest, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed: an error is what we asked for
	for line := range strings.Lines(string(rest)) {
		if !strings.HasSuffix(line, "\n") {
			break // torn by the kill
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("victim said %q", line)
		}
		acked = max(acked, n)
	}
	return acked
}

func readAck(t *testing.T, in *bufio.Reader) int {
	t.Helper()
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatalf("victim ended early: %v (%q)", err, line)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("victim said %q", line)
	}
	return n
}
