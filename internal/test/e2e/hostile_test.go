package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/judge/verdict"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// hostile is a server whose answers to requests are written by answer; it names one model.
func hostile(t *testing.T, model string, answer http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","root":%q}]}`, model, model)
	})
	mux.HandleFunc("/v1/completions", answer)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestMadeUpCounts runs against a server that claims two billion tokens for an answer of three: the run goes
// on, the claim is a finding, and the folder can be read by everything that reads folders.
func TestMadeUpCounts(t *testing.T) {
	t.Parallel()
	url := hostile(t, "m", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, finish := range []string{"null", "null", `"stop"`} {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":%s}]}\n\n", finish)
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":2147483647}}\n\ndata: [DONE]\n\n")
	})
	e := benchCmd(t, "--base-url", url, "--num-prompts", "4", "--random-input-len", "12", "--random-output-len", "6").want(cli.ExitDone)
	run := e.balanced()
	if run.Tally.OK != 4 || run.Summary.TotalOutput != 12 || run.Summary.Lengths.Contradicted != 4 || run.Summary.Lengths.MaxClaimed != math.MaxInt32 {
		t.Errorf("tally %+v, output %d, %d counts contradicted of up to %d", run.Tally, run.Summary.TotalOutput, run.Summary.Lengths.Contradicted, run.Summary.Lengths.MaxClaimed)
	}
	found := false
	for _, f := range run.Verdict.Bad() {
		found = found || f.Name == "token_counts" && f.Level == verdict.Suspect
	}
	if !found {
		t.Errorf("no finding names the counts: %+v", run.Verdict.Bad())
	}
	for _, args := range [][]string{{"report", e.folder}, {"explain", e.folder}, {"import", e.folder}} {
		prepare(t, nil, args...).want(cli.ExitDone)
	}
}

// readFolder lets the commands that read a run folder have one with these files, and fails when one of them
// panics. It returns what they said.
func readFolder(t *testing.T, plan, records []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{result.RunFile: plan, result.RecordsFile: records} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	for _, args := range [][]string{{"report", dir}, {"report", dir, "-o", filepath.Join(dir, "x.html")}, {"explain", dir}} {
		cli.Run(context.Background(), cli.Process{
			Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			Env:   func(name string) (string, bool) { return dir, name == "SPATE_STORE" || name == "HOME" },
			Getwd: func() (string, error) { return dir, nil }, ReadFile: os.ReadFile,
		})
	}
	return out.String()
}

const goodLine = `{"id":0,"phase":"measure","due_ns":0,"dispatched_ns":0,"started_ns":0,"sent_ns":10,"first_byte_ns":900,"headers_ns":900,` +
	`"first_token_ns":1000,"first_text_ns":1000,"last_token_ns":3000,"last_event_ns":3000,"end_ns":3100,"chunk_ns":[1000,2000,3000],"out":{"n":3,"from":"server"},"outcome":"ok"}` + "\n"

// TestDamagedFolders puts numbers at the edges of an int64 into the lines and the plan of a folder.
func TestDamagedFolders(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{math.MinInt64, math.MinInt64 + 1, -2, math.MaxInt64 - 1, math.MaxInt64} {
		for _, field := range []string{"due_ns", "sent_ns", "headers_ns", "end_ns", "last_event_ns"} {
			bad := strings.Replace(goodLine, `"outcome"`, fmt.Sprintf(`%q:%d,"outcome"`, field, n), 1)
			said := readFolder(t, []byte(`{"schema":1,"plan":{}}`), []byte(goodLine+bad))
			has(t, "what is said of the line", said, "line 2: "+field)
		}
		bad := strings.Replace(goodLine, "2000,", fmt.Sprintf("%d,", n), 1)
		has(t, "what is said of the line", readFolder(t, nil, []byte(goodLine+bad)), "line 2: chunk 1")
		plan := fmt.Sprintf(`{"schema":1,"plan":{"start_ns":%d,"end_ns":%d}}`, n, -n)
		has(t, "what is said of the plan", readFolder(t, []byte(plan), []byte(goodLine)), "run.json cannot be read", "start_ns")
	}
}

// FuzzFolder holds that no plan and no records make a command panic that reads them.
func FuzzFolder(f *testing.F) {
	f.Add([]byte(`{"schema":1,"plan":{"start_ns":1,"end_ns":0,"percentiles":[99.99999999999999,0,100],"objectives":["ttft:1e308"]}}`), []byte(goodLine+goodLine))
	f.Add([]byte(`{"schema":1,"plan":{"max_concurrency":1,"steady_threshold":-1e308},"tenants":[{"name":"x"}]}`), []byte(strings.Replace(goodLine, "3100", "31622400000000000", 1)))
	f.Add([]byte(`{"schema":1,"plan":{}}`), []byte(strings.Replace(goodLine, `"n":3`, `"n":2147483647`, 1)))
	f.Add([]byte(`{"schema":1,"plan":{"end_rule":"headers"}}`), []byte(strings.Replace(goodLine, `"outcome"`, `"inputs":2147483647,"labels":{"tenant":"x","repeat":""},"outcome"`, 1)))
	f.Fuzz(func(t *testing.T, plan, records []byte) { readFolder(t, plan, records) })
}

// TestServedNameIsNoPath has servers call their model after a device, a pipe and a file: none of them is opened.
func TestServedNameIsNoPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "tokenizer.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("not a tokenizer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"/dev/zero", pipe, file, dir} {
		url := hostile(t, model, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		})
		e := benchCmd(t, "--base-url", url, "--num-prompts", "2", "--random-input-len", "12", "--random-output-len", "6").want(cli.ExitDone)
		run := e.balanced()
		if run.Tally.OK != 2 {
			t.Errorf("%s: tally %+v", model, run.Tally)
		}
		has(t, "notes", strings.Join(run.Notes, "\n"), "no tokenizer for "+model)
	}
}

// TestNoPipesNoDevices names a pipe that nobody writes to and a device without an end wherever a file is read.
func TestNoPipesNoDevices(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	url := quick(t).URL()
	for path, want := range map[string]string{pipe: "is a named pipe: want a regular file", "/dev/zero": "is a device: want a regular file"} {
		for _, args := range [][]string{
			{"bench", "--base-url", url, "--tokenizer", path},
			{"bench", "--base-url", url, "--dataset-name", "sharegpt", "--dataset-path", path},
			{"bench", "--base-url", url, "--server-log", path},
			{"bench", "--base-url", url, "--config", path},
			{"bench", "--base-url", "https://127.0.0.1:1", "--ca-cert", path},
			{"import", path},
			{"report", path},
		} {
			e := prepare(t, nil, args...).run()
			if e.code == cli.ExitDone {
				t.Errorf("%s ended well", strings.Join(args, " "))
			}
			has(t, strings.Join(args, " "), e.stderr, want)
		}
	}
}

// TestHostileTokenizerEndsTheRun names a tokenizer whose pattern takes longer than any text is worth.
func TestHostileTokenizerEndsTheRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	vocab := []string{`"[UNK]":0`}
	for i := range 50 {
		vocab = append(vocab, fmt.Sprintf(`"%s":%d`, strings.Repeat("a", i+1), i+1))
	}
	text := `{"added_tokens":[],"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a|aa)+$"},"behavior":"Isolated","invert":true},` +
		`"decoder":{"type":"Fuse"},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"","max_input_chars_per_word":1000,"vocab":{` + strings.Join(vocab, ",") + `}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(data, []byte(`{"prompt":"`+strings.Repeat("a", 80)+`!"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := prepare(t, nil, "bench", "--base-url", quick(t).URL(), "--tokenizer", file, "--num-prompts", "2", "--dataset-name", "custom", "--dataset-path", data, "--custom-output-len", "4").run()
	if e.code == cli.ExitDone {
		t.Errorf("the run ended well\n%s", e.stderr)
	}
	has(t, "standard error", e.stderr, `the pattern "(a|aa)+$" takes more than 1s`)
}

// TestOutOfFiles gives the client fewer descriptors than requests in flight: what could not be sent is dropped by the
// client, with the cure, and is no failure of the server.
func TestOutOfFiles(t *testing.T) {
	t.Parallel()
	slow(t, "sends thousands of requests")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 3 * time.Second, ITL: time.Millisecond}})
	for _, client := range []string{"raw", "std"} {
		c := benchCmd(t, "--base-url", srv.URL(), "--model", "spate-sim", "--skip-tokenizer-init", "--connect", "in-band", "--http-client", client,
			"--num-prompts", "120", "--random-input-len", "12", "--random-output-len", "4", "--ready-check-timeout-sec", "0")
		c.cmd.Args = append([]string{"sh", "-c", `ulimit -n 64; exec "$0" "$@"`, path}, c.cmd.Args[1:]...)
		c.cmd.Path = "/bin/sh"
		e := c.run()
		run := e.balanced()
		if run.Tally.Failed != 0 || run.Tally.Dropped == 0 || run.Tally.OK == 0 {
			t.Errorf("%s: tally %+v\n%s", client, run.Tally, e.stderr)
		}
		for _, r := range e.measured() {
			if r.Outcome == call.Dropped && (r.Fault != call.FaultLocal || !strings.Contains(r.Err, "ulimit -n")) {
				t.Fatalf("%s: request %d dropped as %s: %s", client, r.ID, r.Fault, r.Err)
			}
		}
		has(t, "findings", e.out, "ulimit -n")
	}
}

// TestStoppedClientIsAFinding stops the client for two seconds of a closed loop.
func TestStoppedClientIsAFinding(t *testing.T) {
	t.Parallel()
	slow(t, "stops the client for seconds")
	srv := sim(t, serve.Config{Timetable: serve.TimetableConfig{TTFT: 10 * time.Millisecond, ITL: 20 * time.Millisecond}})
	c := benchCmd(t, "--base-url", srv.URL(), "--num-prompts", "40", "--max-concurrency", "4", "--random-input-len", "12", "--random-output-len", "10")
	c.start()
	untilSent(t, srv, 8)
	c.signal(syscall.SIGSTOP)
	time.Sleep(2 * time.Second)
	c.signal(syscall.SIGCONT)
	e := c.wait()
	for _, f := range e.balanced().Verdict.Findings {
		if f.Name == "client_gap" {
			if f.Level == verdict.OK || f.Figure < 1500 {
				t.Errorf("%s: %v %s: %s", f.Level, f.Figure, f.Unit, f.Sentence)
			}
			return
		}
	}
	t.Errorf("no finding tells of it\n%s", e.out)
}

// TestFilesAreTheirOwners has a run, a sweep and a launched server write all they can in a folder that everybody may read:
// nobody else may read what they wrote.
func TestFilesAreTheirOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	url := quick(t).URL()
	self, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"bench", "--base-url", url, "--num-prompts", "3", "--isl", "8", "--osl", "2", "--output-dir", "run", "--save-result", "--save-detailed", "--plot-timeline", "--result-dir", "res"},
		{"bench", "--base-url", url, "--num-prompts", "3", "--isl", "8", "--osl", "2"},
		{"sweep", "--launch", self + " sim --port {port}", "--num-prompts", "2,3", "--isl", "8", "--osl", "2", "--output-dir", "sweep"},
	} {
		c := prepare(t, []string{"SPATE_STORE=" + filepath.Join(dir, "store.db")}, args...)
		c.cmd.Dir = dir
		c.want(cli.ExitDone)
	}
	n := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		n++
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d files and folders were looked at: %v", n, err)
	}
}

// TestLongModelName saves the result of a model whose name no file can have.
func TestLongModelName(t *testing.T) {
	t.Parallel()
	url := hostile(t, strings.Repeat("m", 5000), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	e := benchCmd(t, "--base-url", url, "--num-prompts", "2", "--random-input-len", "12", "--random-output-len", "6", "--save-result").want(cli.ExitDone)
	if files := e.result().Files; len(files) != 1 {
		t.Errorf("files %v, want one", files)
	}
}
