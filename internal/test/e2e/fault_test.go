package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// mischief is one way for the server to misbehave and what a client must make of it.
type mischief struct {
	name  string
	fault string     // as --fault takes it, without the requests it strikes
	want  call.Fault // NoFault: it must not matter
	flags []string
}

var mischiefs = []mischief{
	{name: "reset", fault: "reset", want: call.FaultReset},
	{name: "429", fault: "status,code=429", want: call.FaultShed},
	{name: "500", fault: "status,code=500", want: call.FaultStatus},
	{name: "503", fault: "status,code=503", want: call.FaultStatus},
	{name: "503 retry after", fault: "status,code=503,retry_after=1", want: call.FaultShed},
	{name: "stall before headers", fault: "stall,at=headers", want: call.FaultTimeout, flags: []string{"--request-timeout", "4s"}},
	{name: "stream that stands still", fault: "stall,at=2", want: call.FaultIdle, flags: []string{"--idle-timeout", "2s"}},
	{name: "stall in the stream", fault: "stall,at=2", want: call.FaultTimeout, flags: []string{"--request-timeout", "4s"}},
	{name: "cut", fault: "cut,at=2", want: call.FaultCut},
	{name: "cut within an event", fault: "cut,at=2,bytes=9", want: call.FaultCut},
	{name: "cut by reset", fault: "cut,at=2,reset=true", want: call.FaultCut},
	{name: "error event", fault: "error,at=2,text=out of memory", want: call.FaultEvent},
	{name: "garbage event", fault: "garbage,at=2,text={]garbage", want: call.FaultJSON},
	{name: "garbage bytes", fault: "garbage,at=2", want: call.FaultUTF8},
	{name: "garbage for a chunk", fault: "garbage,at=2,where=http", want: call.FaultHTTP},
	{name: "garbage for headers", fault: "garbage,where=headers", want: call.FaultHTTP},
	{name: "not UTF-8", fault: "utf8,at=2", want: call.FaultUTF8},
	{name: "empty", fault: "empty", want: call.FaultEmpty},
	{name: "no finish", fault: "no_finish"},
	{name: "no done", fault: "no_done"},
	{name: "ping", fault: "ping"},
	{name: "crlf", fault: "crlf"},
	{name: "split bytes", fault: "split,bytes=1"},
	{name: "batch", fault: "batch"},
	{name: "drip", fault: "drip,bytes=40"},
	{name: "flood", fault: "flood"},
}

// TestFaults lets three of eight requests meet each fault, through both HTTP clients and, in
// turn, both protocols. Exactly these must fail, for exactly that reason.
func TestFaults(t *testing.T) {
	t.Parallel()
	slow(t, "waits until servers that stand still are given up")
	for i, m := range mischiefs {
		for k, client := range []string{"raw", "std"} {
			how := []string{"--backend", []string{"openai", "openai-chat"}[(i+k)%2], "--http-client", client}
			t.Run(strings.Join([]string{m.name, how[1], how[3]}, "/"), func(t *testing.T) {
				t.Parallel()
				m.try(t, how)
			})
		}
	}
}

func (m mischief) try(t *testing.T, how []string) {
	rule, err := serve.ParseFault(m.fault + ",index=2-4")
	if err != nil {
		t.Fatal(err)
	}
	srv := sim(t, serve.Config{
		Truth: true, Script: &serve.Script{Rules: []serve.Rule{rule}},
		Timetable: serve.TimetableConfig{TTFT: 2 * time.Millisecond, ITL: time.Millisecond},
	})
	args := append([]string{"--base-url", srv.URL(), "--num-prompts", "8", "--random-input-len", "12", "--random-output-len", "6"}, how...)
	e := benchCmd(t, append(args, m.flags...)...).want(cli.ExitDone)
	run := e.balanced()
	bad := 3
	if m.want == call.NoFault {
		bad = 0
	}
	want := call.Tally{Due: 8, OK: 8 - bad, Failed: bad, Attempts: 8}
	if run.Tally != want {
		t.Errorf("tally %+v, want %+v\n%s", run.Tally, want, e.out)
	}
	unnamed := 0
	var failed call.Record
	for _, r := range e.measured() {
		if r.Outcome == call.Failed {
			failed = r
		}
		if r.Outcome == call.OK && r.Finish == "" && m.fault == "no_finish" {
			unnamed++
			r.Finish = "length"
		}
		if r.Outcome == call.Failed && (r.Fault != m.want || r.Err == "") {
			t.Errorf("request %d failed with %q (%s), want %q", r.ID, r.Fault, r.Err, m.want)
		}
		if r.Outcome == call.OK && (r.Out.N != 6 || r.Finish != "length") {
			t.Errorf("request %d: %d tokens, finish %q", r.ID, r.Out.N, r.Finish)
		}
	}
	if m.fault == "no_finish" {
		if f := finding(t, run, "finish_reasons"); unnamed != 3 || f.Sentence != "3 of 8 answers named no finish reason; 0 of them are shorter than asked for." {
			t.Errorf("%d answers without a finish reason, and the verdict says: %s", unnamed, f.Sentence)
		}
	}
	_, figures := blockOf(t, e.out)
	if figures["Successful requests:"] != fmt.Sprint(8-bad) || figures["Failed requests:"] != fmt.Sprint(bad) {
		t.Errorf("block says %s and %s", figures["Successful requests:"], figures["Failed requests:"])
	}
	if bad == 0 {
		return
	}
	above, below, _ := strings.Cut(e.out, "============ Serving")
	has(t, "lines above the block", above, "Failed requests during benchmark run detected (capping to 10):\nError 0: ", "\nError 2: ")
	has(t, "findings", below, "Not answered", "\n  "+m.want.Named(failed.Status), "8 due = 5 ok + 3 failed + 0 dropped + 0 canceled")
}

// finding is what one check of a run's verdict says.
func finding(t *testing.T, run *result.Run, name string) verdict.Finding {
	t.Helper()
	for _, f := range run.Verdict.Findings {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("the verdict has no check %s", name)
	return verdict.Finding{}
}

// TestRefusedConnections has the server reset connections as they are accepted.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	rule, err := serve.ParseFault("refuse,index=20-29")
	if err != nil {
		t.Fatal(err)
	}
	srv := sim(t, serve.Config{
		Script:    &serve.Script{Rules: []serve.Rule{rule}},
		Timetable: serve.TimetableConfig{TTFT: 2 * time.Second, ITL: time.Millisecond}, // no connection is free again soon
	})
	e := benchCmd(t, "--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init", "--connect", "in-band",
		"--num-prompts", "40", "--random-input-len", "12", "--random-output-len", "4").want(cli.ExitDone)
	run := e.balanced()
	if run.Tally.Failed != 10 || run.Tally.OK != 30 || srv.Stats().Refused != 10 {
		t.Errorf("tally %+v with %d connections refused", run.Tally, srv.Stats().Refused)
	}
	for _, r := range e.measured() {
		if r.Outcome == call.Failed && r.Fault != call.FaultReset && r.Fault != call.FaultConnect {
			t.Errorf("request %d: %s (%s)", r.ID, r.Fault, r.Err)
		}
	}
}

// TestServerDies kills the server for good in the middle of an open-loop run: what was in flight is
// lost, what comes after finds nobody, and a run told to goes on to its planned end.
func TestServerDies(t *testing.T) {
	t.Parallel()
	slow(t, "waits until a dead server is given up")
	for _, client := range []string{"raw", "std"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 10 * time.Millisecond, ITL: 5 * time.Millisecond}})
			c := benchCmd(t, "--base-url", srv.URL(), "--http-client", client, "--model", "spate-sim", "--skip-tokenizer-init", "--num-prompts", "220", "--request-rate", "100", "--abort-on-error", "off",
				"--burstiness", "inf", "--random-input-len", "12", "--random-output-len", "20")
			c.start()
			untilSent(t, srv, 60)
			if err := srv.Stop(); err != nil {
				t.Fatal(err)
			}
			e := c.wait()
			if e.code != cli.ExitDone {
				t.Fatalf("exit code %d\n%s", e.code, e.stderr)
			}
			run := e.balanced()
			kinds := map[call.Fault]int{}
			for _, r := range e.measured() {
				kinds[r.Fault]++
			}
			if run.Tally.Due != 220 || run.Tally.OK == 0 || kinds[call.FaultCut]+kinds[call.FaultReset] == 0 || kinds[call.FaultConnect] == 0 {
				t.Errorf("tally %+v, faults %v", run.Tally, kinds)
			}
			has(t, "findings", e.out, "Not answered", "connect", "220 due = ")
		})
	}
}
