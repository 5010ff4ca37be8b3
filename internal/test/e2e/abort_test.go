package e2e

import (
	"strings"
	"testing"
	"time"

	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// many asks for more requests than anybody would wait for when they all fail.
var many = []string{"--num-prompts", "5000", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "4", "--disable-tqdm"}

// TestWrongModelEndsTheRun asks for a model the server does not have: a handful of requests and the run is
// over, with the server's words and its list of models.
func TestWrongModelEndsTheRun(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Models: []string{"right-model"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond}})
	e := benchCmd(t, append([]string{"--base-url", srv.URL(), "--model", "wrong-model", "--skip-tokenizer-init"}, many...)...).want(cli.ExitFailed)
	has(t, "stderr", e.stderr, "the run was ended early: the first 10 requests all failed: HTTP 404 Not Found", "wrong-model", "it has right-model", "--abort-on-error auto")
	run := e.balanced()
	if run.State != result.Aborted || run.Tally.Due > 100 || run.Tally.Failed < 10 || !strings.Contains(run.Aborted, "right-model") {
		t.Errorf("state %s, %+v: %s", run.State, run.Tally, run.Aborted)
	}
	if n := srv.Stats().Requests; n > 100 {
		t.Errorf("the server got %d requests", n)
	}
	has(t, "report", prepare(t, nil, "report", e.folder).want(cli.ExitDone).out, "(aborted)", "the first 10 requests all failed")
}

// TestWrongModelAllSent asks for that in so few requests that nothing is left to end: the run came to its end, and says
// what is wrong all the same.
func TestWrongModelAllSent(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Models: []string{"right-model"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond}})
	for _, n := range []string{"3", "10"} {
		e := benchCmd(t, "--base-url", srv.URL(), "--model", "wrong-model", "--skip-tokenizer-init", "--num-prompts", n, "--max-concurrency", "1",
			"--random-input-len", "12", "--random-output-len", "4", "--disable-tqdm").want(cli.ExitFailed)
		has(t, "stderr", e.stderr, `no request succeeded: the server has no model "wrong-model"; it has right-model`)
		has(t, "stdout", e.out, `hint: the server has no model "wrong-model"; it has right-model`)
		if run := e.balanced(); run.State != result.Complete || strings.Contains(strings.ToLower(e.out+e.stderr), "ended early") {
			t.Errorf("%s requests: state %s\n%s", n, run.State, e.out)
		}
	}
}

// TestServerGoesAway stops the server in the middle of a run that has answers already.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	for name, load := range map[string][]string{"closed": nil, "open": {"--request-rate", "200"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
			c := benchCmd(t, append(append([]string{"--base-url", srv.URL()}, many...), load...)...)
			c.start()
			untilSent(t, srv, 40)
			if err := srv.Stop(); err != nil {
				t.Error(err)
			}
			e := c.wait()
			if e.code != cli.ExitFailed {
				t.Fatalf("exit code %d\n%s", e.code, e.stderr)
			}
			has(t, "stderr", e.stderr, "20 requests in a row could not connect", "refused")
			run := e.balanced()
			if run.State != result.Aborted || run.Tally.OK < 30 || run.Tally.Failed < 20 || run.Tally.Due > 4000 {
				t.Errorf("state %s, %+v", run.State, run.Tally)
			}
		})
	}
}

// TestAbortBounds sets bounds of the user's own, and none.
func TestAbortBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag, says string
		code, due  int
	}{
		{"30%", "more than 30 %", cli.ExitFailed, 200},
		{"off", "", cli.ExitDone, 300},
		{"auto", "", cli.ExitDone, 300},
	} {
		t.Run(c.flag, func(t *testing.T) {
			t.Parallel()
			rule, err := serve.ParseFault("status,code=500,p=0.6")
			if err != nil {
				t.Fatal(err)
			}
			srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: time.Millisecond}, Script: &serve.Script{Rules: []serve.Rule{rule}}})
			e := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "300", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "4",
				"--abort-on-error", c.flag, "--ui", "plain").want(c.code)
			has(t, "stderr", e.stderr, c.says, "HTTP 500")
			if run := e.balanced(); run.Tally.Due > c.due || c.due == 300 && run.Tally.Due != 300 {
				t.Errorf("%+v", run.Tally)
			}
		})
	}
}
