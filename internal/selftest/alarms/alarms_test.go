package alarms

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"spate/internal/judge/verdict"
)

// TestEveryCheckIsBent: a check that nothing bends has misses that nobody counts.
func TestEveryCheckIsBent(t *testing.T) {
	bent := Checks()
	for _, f := range verdict.Judge(verdict.Input{}).Findings {
		if !slices.Contains(bent, f.Name) {
			t.Errorf("no run bends the check %s", f.Name)
		}
	}
	for _, j := range bentJobs() {
		if j.size != 1 && j.size != 3 || j.how == "" || j.name == "" || len(j.client) == 0 {
			t.Errorf("%+v", j)
		}
	}
}

// TestCleanRunsAreWithinBounds: what is drawn covers the ranges it is to cover, and the same seed draws the same runs.
func TestCleanRunsAreWithinBounds(t *testing.T) {
	jobs := cleanJobs(200, 1)
	all := ""
	for i, j := range jobs {
		if j.check != "" || (i%2 == 0) != slices.Contains(j.client, "--max-concurrency") {
			t.Errorf("run %d: %+v", i, j)
		}
		all += j.name + "\n"
	}
	for _, want := range []string{
		" 1 in flight", " 1000 in flight", " 10/s", "TTFT 5ms", "TTFT 2s", "ITL 2ms", "ITL 50ms", "warm-up", "shared prefix",
		"a connection for each", "no tokenizer", "chat", " 30 requests",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no run has %q", want)
		}
	}
	for i, j := range cleanJobs(200, 1) {
		if j.name != jobs[i].name || !slices.Equal(j.client, jobs[i].client) {
			t.Errorf("run %d differs when drawn again", i)
		}
	}
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		cores, parallel int
		server, client  []int // of the last run
	}{
		{16, 6, []int{10}, []int{11}}, {2, 1, []int{0}, []int{1}}, {2, 2, []int{1}, []int{1}}, {8, 2, []int{4, 5}, []int{6, 7}},
	} {
		all := make([]int, c.cores)
		for i := range all {
			all[i] = i
		}
		got := divide(all, c.parallel)
		if last := got[len(got)-1]; len(got) != c.parallel || !slices.Equal(last.server, c.server) || !slices.Equal(last.client, c.client) {
			t.Errorf("%d cores for %d: %+v", c.cores, c.parallel, got)
		}
	}
}

// TestReportCounts has four clean runs, one a false alarm and one without a verdict, and three bent ones: one named, one
// found under another name, one missed.
func TestReportCounts(t *testing.T) {
	bad := func(name string) []Bad { return []Bad{{Name: name, Level: "suspect", Sentence: "late | lost"}} }
	r := Report{Planned: 8, Parallel: 1, Runs: []Outcome{
		{Name: "a", Grade: "VALID"},
		{Name: "b", Grade: "VALID"},
		{Name: "c", Grade: "SUSPECT", Bad: bad("send_lag")},
		{Name: "d", Error: "it took longer"},
		{Name: "e", Check: "client_gap", Size: 1, How: ByProcess, Bad: bad("client_gap"), Named: true},
		{Name: "f", Check: "client_gap", Size: 1, How: ByProcess, Bad: bad("send_lag")},
		{Name: "g", Check: "client_gap", Size: 3, How: ByProcess, Grade: "VALID"},
	}}
	for _, c := range []struct {
		got  Share
		x, n int
	}{{r.Valid(), 2, 3}, {r.Found(), 2, 3}, {r.Named(), 1, 3}} {
		if c.got.X != c.x || c.got.N != c.n || c.got.Low >= c.got.Of() || c.got.High <= c.got.Of() {
			t.Errorf("%+v, want %d of %d within its interval", c.got, c.x, c.n)
		}
	}
	if r.Met() {
		t.Error("goals are met by two of three")
	}
	var b bytes.Buffer
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"VALID: **2 of 3: 66.7 % (20.8 to 93.9)**", "| `send_lag` | 1 | 33.3 % (6.1 to 79.2) | late \\| lost (c) |",
		"| `client_gap` | process | its bound | 2 of 2: 100.0 % (34.2 to 100.0) | 1 of 2: 50.0 % (9.5 to 90.5) |",
		"| `client_gap` | process | three times | 0 of 1", "1 runs had no verdict, such as d: it took longer", "1 of 8 runs were not made",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}
