package result

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"spate/internal/call"
	"spate/internal/call/recorder"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
)

var update = flag.Bool("update", false, "write the golden folder of a new version")

func TestMain(m *testing.M) {
	if dir := os.Getenv("RESULT_VICTIM"); dir != "" {
		victim(dir)
	}
	goleak.VerifyTestMain(m)
}

const hidden = "sk-very-secret"

func redact(s string) string { return strings.ReplaceAll(s, hidden, "REDACTED") }

func newRun() *Run {
	run := &Run{
		Started: time.Date(2026, 8, 22, 3, 4, 5, 0, time.UTC), Tool: "spate 0.1.0",
		Command: []string{"spate", "bench", "--header", "X=it's " + hidden, "--model", "org/some-model"},
		Labels:  map[string]string{"gpu": "h100"},
		Server:  Server{URLs: []string{"http://127.0.0.1:8000"}, Backend: "openai", Model: "org/some-model"},
		Plan: NewPlan(metrics.Run{
			Requested: 6, RequestRate: 10, MaxConcurrency: 4, Percentiles: []float64{99, 99.9},
			Objectives: []metrics.Objective{{Metric: "ttft", Bound: 200}, {Metric: "tpot", Bound: 12.5}},
			EndRule:    metrics.LastEvent, Tokenizer: true, Seed: 7,
		}, "6 requests at 10/s, at most 4 at a time"),
		Block:       Block{Metrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99}, Tokenizer: true},
		Config:      json.RawMessage(`{"load":{"num_prompts":6,"request_rate":10},"dataset":{"name":"random"},"target":{"api_key":"` + hidden + `"}}`),
		Environment: json.RawMessage(`{"cpus":2,"note":"key ` + hidden + `"}`),
	}
	run.Plan.Judge = verdict.Settings{OpenLoop: true, IgnoreEOS: true}
	return run
}

// records are six requests: five answered, the last one refused.
func records() []call.Record {
	var recs []call.Record
	for id := range 6 {
		r := call.NewRecord(&call.Request{ID: id, Phase: call.Measure, In: call.Count{N: 10, From: call.FromTokenizer}, MaxOut: 4})
		at := time.Duration(id) * 100 * time.Millisecond
		r.Due, r.Dispatched, r.Started, r.Sent, r.End = at, at, at, at, at+80*time.Millisecond
		if id == 5 {
			r.Outcome, r.Fault, r.Err, r.Status = call.Failed, call.FaultStatus, "HTTP 500: boom", 500
		} else {
			r.Outcome, r.Out, r.In, r.Status = call.OK, call.Count{N: 4, From: call.FromServer}, call.Count{N: 10, From: call.FromServer}, 200
			for i := range 4 {
				r.Chunks = append(r.Chunks, call.Chunk{At: at + time.Duration(50+10*i)*time.Millisecond, Kind: call.Visible})
			}
			r.LastEvent = r.End
		}
		recs = append(recs, r)
	}
	return recs
}

// write makes a finished run in a folder, and leaves out the result when killed.
func write(t *testing.T, dir string, killed bool) *Run {
	t.Helper()
	run := newRun()
	f, err := Create(run, Options{Dir: dir, Redact: redact})
	if err != nil {
		t.Fatal(err)
	}
	recs := records()
	for i := range recs {
		if err := f.Log.Record(&recs[i]); err != nil {
			t.Fatal(err)
		}
	}
	if killed {
		if err := f.Log.Close(); err != nil {
			t.Fatal(err)
		}
		return run
	}
	run.State = Complete
	run.Notes = []string{"nothing to see, " + hidden}
	run.Compute(call.List(recs))
	run.Verdict = verdict.Judge(verdict.Input{Summary: run.Summary, Settings: run.Plan.Judge})
	if err := f.Finish(run); err != nil {
		t.Fatal(err)
	}
	return run
}

func TestWriteAndOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run-1")
	want := write(t, dir, false)
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want.Command[3], want.Notes[0] = redact(want.Command[3]), redact(want.Notes[0])
	want.Config = json.RawMessage(redact(string(want.Config)))
	want.Environment = json.RawMessage(redact(string(want.Environment)))
	compact(t, &got.Config, &got.Environment)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("run changed on disk (-written +read):\n%s", d)
	}
	if got.ID != "run-1" || got.State != Complete || got.Records.Written != 6 {
		t.Errorf("id %s, state %s, %d records written", got.ID, got.State, got.Records.Written)
	}
	tally := call.Tally{Due: 6, OK: 5, Failed: 1, Attempts: 6}
	if got.Tally != tally || !got.Tally.Balanced() {
		t.Errorf("tally %+v, want %+v", got.Tally, tally)
	}
	if !slices.Equal(got.Errors, []string{"HTTP 500: boom"}) {
		t.Errorf("errors %q", got.Errors)
	}
}

func compact(t *testing.T, texts ...*json.RawMessage) {
	t.Helper()
	for _, text := range texts {
		var b bytes.Buffer
		if err := json.Compact(&b, *text); err != nil {
			t.Fatal(err)
		}
		*text = b.Bytes()
	}
}

func TestFilesOfARun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	write(t, dir, false)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), hidden) {
			t.Errorf("%s holds the secret", e.Name())
		}
	}
	if d := cmp.Diff([]string{CommandFile, EnvironmentFile, RecordsFile, ResultFile, RunFile}, names); d != "" {
		t.Errorf("files: %s", d)
	}
	command, _ := os.ReadFile(filepath.Join(dir, CommandFile))
	if want := `spate bench --header 'X=it'\''s REDACTED' --model org/some-model` + "\n"; string(command) != want {
		t.Errorf("command %s", command)
	}
}

func TestRecoverEqualsResult(t *testing.T) {
	whole := write(t, filepath.Join(t.TempDir(), "whole"), false)
	dir := filepath.Join(t.TempDir(), "killed")
	write(t, dir, true)
	for _, c := range []struct {
		name   string
		damage func(t *testing.T)
		note   string
	}{
		{"no result", func(*testing.T) {}, "there is no result.json"},
		{"half a result", func(t *testing.T) { put(t, dir, ResultFile, `{"schema":1,"id":`) }, "cannot be read"},
		{"some other JSON", func(t *testing.T) { put(t, dir, ResultFile, `{"a":1}`) }, "no schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.damage(t)
			got, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.State != Recovered || !strings.Contains(strings.Join(got.Notes, "\n"), c.note) {
				t.Errorf("state %s, notes %q", got.State, got.Notes)
			}
			if d := cmp.Diff(whole.Summary, got.Summary); d != "" {
				t.Errorf("recovered figures differ (-result +recovered):\n%s", d)
			}
			if d := cmp.Diff(whole.Plan, got.Plan); d != "" {
				t.Error(d)
			}
			killed := verdict.Judge(verdict.Input{Summary: whole.Summary, Settings: whole.Plan.Judge, Killed: true})
			if d := cmp.Diff(killed, got.Verdict); d != "" || got.Verdict.Grade == verdict.Valid {
				t.Errorf("%s: %s", got.Verdict.Grade, d)
			}
			if got.Damage != nil || got.Tally != whole.Tally {
				t.Errorf("damage %v, tally %+v", got.Damage, got.Tally)
			}
		})
	}
}

// TestRecoverFromTheBeginning: a killed run is measured from where it is known to have begun, which is
// not its first request.
func TestRecoverFromTheBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		began time.Duration
		want  time.Duration // what is measured: the last answer comes at 1.58 s
	}{
		"origin of a schedule":                    {900 * time.Millisecond, 680 * time.Millisecond},
		"a request left a moment before another":  {1001 * time.Millisecond, 580 * time.Millisecond},
		"not known: from the first request on it": {0, 580 * time.Millisecond},
	} {
		dir := t.TempDir()
		run := newRun()
		f, err := Create(run, Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if c.began > 0 {
			if err := f.Began(run, c.began); err != nil || run.Plan.Start != 0 {
				t.Errorf("%s: %v, and the run itself begins at %v", name, err, run.Plan.Start)
			}
		}
		for _, r := range records() {
			for _, at := range []*time.Duration{&r.Due, &r.Dispatched, &r.Started, &r.Sent, &r.End, &r.LastEvent} {
				*at += time.Second
			}
			if err := f.Log.Record(&r); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Log.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := c.want.Seconds(); math.Abs(got.Summary.DurationS-want) > 1e-9 || math.Abs(got.Summary.RequestThroughput-5/want) > 1e-9 {
			t.Errorf("%s: %v s, %v requests per second, want %v s and %v", name, got.Summary.DurationS, got.Summary.RequestThroughput, want, 5/want)
		}
	}
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecoverDamagedRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "killed")
	write(t, dir, true)
	path := filepath.Join(dir, RecordsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, RecordsFile, string(data[:len(data)-20]))
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(run.Notes, "\n")
	if run.Tally.OK != 5 || run.Tally.Failed != 0 || run.Damage == nil || !run.Damage.Torn ||
		!strings.Contains(notes, "cut off") || !strings.Contains(notes, "1 of 6 planned requests have no record") {
		t.Errorf("tally %+v, damage %v, notes %s", run.Tally, run.Damage, notes)
	}
}

func TestRecoverWithoutPlan(t *testing.T) {
	for _, content := range []string{"", "{", `{"schema":0}`} {
		dir := filepath.Join(t.TempDir(), "killed")
		write(t, dir, true)
		if content == "" {
			if err := os.Remove(filepath.Join(dir, RunFile)); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, dir, RunFile, content)
		}
		run, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if run.Summary.Completed != 5 || !strings.Contains(strings.Join(run.Notes, ""), "settings are unknown") {
			t.Errorf("completed %d, notes %q", run.Summary.Completed, run.Notes)
		}
	}
}

func TestRecoverBeforeAnyRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "early")
	f, err := Create(newRun(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, RecordsFile)); err != nil {
		t.Fatal(err)
	}
	run, err := Open(dir)
	if err != nil || run.Tally.Due != 0 || run.State != Recovered {
		t.Errorf("run %+v, err %v", run, err)
	}
}

func TestOpenMistakes(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "plain.txt", "x")
	newer := filepath.Join(dir, "newer")
	newerPlan := filepath.Join(dir, "newer-plan")
	for _, d := range []string{newer, newerPlan} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, newer, ResultFile, `{"schema":99}`)
	put(t, newerPlan, RunFile, `{"schema":99}`)
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "does not exist"},
		{"file", filepath.Join(dir, "plain.txt"), "is a file: give the run's folder, " + dir},
		{"not a run", dir, "is not a run folder"},
		{"newer result", newer, "newer spate (schema 99; this one reads up to 1)"},
		{"newer plan", newerPlan, "newer spate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Open(c.path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	write(t, dir, false)
	before, _ := os.ReadFile(filepath.Join(dir, ResultFile))
	if _, err := Create(newRun(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Errorf("err = %v", err)
	}
	after, _ := os.ReadFile(filepath.Join(dir, ResultFile))
	if !bytes.Equal(before, after) {
		t.Error("the earlier result changed")
	}
	file := filepath.Join(t.TempDir(), "f")
	put(t, filepath.Dir(file), "f", "x")
	if _, err := Create(newRun(), Options{Dir: file}); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("err = %v", err)
	}
}

// TestFolderNameKeepsNoSecret has a server that calls its model after the key it was given.
func TestFolderNameKeepsNoSecret(t *testing.T) {
	run := newRun()
	run.Server.Model = hidden
	f, err := Create(run, Options{Root: t.TempDir(), Redact: redact})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Log.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Dir, "REDACTED") || strings.Contains(f.Dir, hidden) {
		t.Errorf("folder %s", f.Dir)
	}
}

func TestDefaultFolders(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	seen := map[string]bool{}
	for range 5 {
		run := newRun()
		f, err := Create(run, Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Log.Close(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f.Dir)
		if seen[name] || !strings.HasPrefix(name, "20260822-030405-some-model-") || run.ID != name || len(name) != len("20260822-030405-some-model-")+4 {
			t.Errorf("folder %s, id %s", name, run.ID)
		}
		seen[name] = true
	}
	for model, want := range map[string]string{
		"": "model", "a b/c:d é": "c-d", "../..": "model", "x/" + strings.Repeat("y", 99): strings.Repeat("y", 60),
	} {
		if got := folderName(model, newRun().Started, "00ff"); got != "20260822-030405-"+want+"-00ff" {
			t.Errorf("model %q: folder %s", model, got)
		}
	}
}

func TestPlanKeepsTheRun(t *testing.T) {
	for name, run := range map[string]metrics.Run{
		"all": newRun().Plan.Metrics(), "no rate": {RequestRate: math.Inf(1), Due: 3, Start: 5, End: 9, SteadyThreshold: 0.5, SteadyMinWindow: 3, NoSteady: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlan(run, "")
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var back Plan
			if err := json.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(run, back.Metrics()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestReadsOldVersions holds that runs of every version stay readable. A folder is added when the
// schema changes, and never rewritten after that.
func TestReadsOldVersions(t *testing.T) {
	if dir := filepath.Join("testdata", fmt.Sprintf("v%d", Schema)); *update {
		if _, err := os.Stat(dir); err != nil {
			write(t, dir, false)
		}
	}
	dirs, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(dirs) != Schema {
		t.Fatalf("%d folders for %d versions, %v", len(dirs), Schema, err)
	}
	for _, dir := range dirs {
		run, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if run.State != Complete || run.Summary.Completed != 5 || run.Tally.Failed != 1 || run.Server.Model != "org/some-model" {
			t.Errorf("%s: state %s, %d completed, %d failed, model %s", dir, run.State, run.Summary.Completed, run.Tally.Failed, run.Server.Model)
		}
		recs, damage, err := recorder.Read(filepath.Join(dir, RecordsFile))
		if err != nil || damage.Any() || len(recs) != 6 {
			t.Errorf("%s: %d records, %v, %v", dir, len(recs), damage, err)
		}
	}
}

func TestComparable(t *testing.T) {
	with := func(config string) *Run {
		return &Run{ID: "x", State: Complete, Config: json.RawMessage(config)}
	}
	base := `{"load":{"num_prompts":6,"request_rate":10,"request_id_prefix":"a"},"dataset":{"name":"random"},"target":{"host":"a","backend":"openai"}}`
	for _, c := range []struct {
		name, other string
		want        []string
	}{
		{"same", base, nil},
		{"other host and prefix", strings.NewReplacer(`"host":"a"`, `"host":"b"`, `prefix":"a"`, `prefix":"b"`).Replace(base), nil},
		{"other rate", strings.Replace(base, `:10`, `:20`, 1), []string{"load.request_rate: 10 against 20"}},
		{"unset", strings.Replace(base, `"request_rate":10,`, ``, 1), []string{"load.request_rate: 10 against unset"}},
		{"other backend", strings.Replace(base, "openai", "vllm", 1), []string{`target.backend: "openai" against "vllm"`}},
		{"many", `{"load":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}}`, []string{"and 5 more"}},
		{"unreadable", `{`, []string{"unreadable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := with(base).Comparable(with(c.other))
			if (err == nil) != (c.want == nil) {
				t.Fatalf("err = %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
	cut := with(base)
	cut.State = Interrupted
	if err := with(base).Comparable(cut); err == nil || !strings.Contains(err.Error(), "state") {
		t.Errorf("an interrupted run is not like a complete one: %v", err)
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "r.json")
	for _, c := range []struct {
		data   string
		append bool
		want   string
	}{
		{"one", true, "one"}, {"two", true, "one\ntwo"}, {"three", false, "three"}, {"four", true, "three\nfour"},
	} {
		if err := Save(path, []byte(c.data), c.append); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.want {
			t.Errorf("after %s: %q, want %q", c.data, got, c.want)
		}
	}
	if err := Save(filepath.Dir(path), nil, false); err == nil {
		t.Error("a folder was taken for a file")
	}
}

// FuzzDecode holds that no file breaks the reader, and that what it reads can be written again.
func FuzzDecode(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "v1", ResultFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":1,"summary":{"ttft_ms":{"percentiles":{"p99":{"value":null,"infinite":true}}}}}`))
	f.Add([]byte(`{"schema":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := Decode(data)
		if err != nil {
			return
		}
		run.Plan.Metrics()
		if _, err := json.Marshal(run); err != nil {
			t.Fatalf("read but not writable: %v", err)
		}
	})
}

// A run of a version that had no such bound yet is compared with one that has it.
func TestIdleTimeoutIsNoCondition(t *testing.T) {
	of := func(client string) *Run { return &Run{ID: "r", Config: []byte(`{"client":` + client + `}`)} }
	if err := of(`{"a":1}`).Comparable(of(`{"a":1,"idle_timeout_ns":600}`)); err != nil {
		t.Error(err)
	}
}

// --isl and --osl set a length of every kind of dataset: what differs is named once, as it was asked for.
func TestLengthsAreNamedOnce(t *testing.T) {
	of := func(dataset string) *Run { return &Run{ID: "r", Config: []byte(`{"dataset":` + dataset + `}`)} }
	base := `{"name":"random","input_len":256,"random":{"input_len":256,"output_len":128},"sonnet":{"input_len":256,"output_len":150}}`
	for other, want := range map[string]string{
		base: "",
		`{"name":"random","random":{"input_len":256,"output_len":128},"sonnet":{"input_len":550,"output_len":150}}`:                          "",
		`{"name":"random","random":{"input_len":1024,"output_len":128},"sonnet":{"input_len":550,"output_len":150}}`:                         "differ in --isl 256 against 1024",
		`{"name":"random","output_len":9,"random":{"input_len":1024,"output_len":9},"sonnet":{"input_len":550,"output_len":9}}`:              "differ in --isl 256 against 1024; --osl 128 against 9",
		`{"name":"random","input_len":256,"random":{"input_len":64,"output_len":128},"sonnet":{"input_len":256,"output_len":150}}`:           "differ in dataset.random.input_len: 256 against 64",
		`{"name":"sonnet","input_len":64,"random":{"input_len":64,"output_len":128},"sonnet":{"input_len":64,"output_len":150}}`:             `dataset.input_len: 256 against 64; dataset.name: "random" against "sonnet"; dataset.random.input_len: 256 against 64; dataset.sonnet.input_len: 256 against 64`,
		`{"name":"random","input_len":8,"random":{"input_len":8,"output_len":128,"prefix_len":5},"sonnet":{"input_len":8,"output_len":150}}`: "differ in --isl 256 against 8; dataset.random.prefix_len: unset against 5",
	} {
		err := of(base).Comparable(of(other))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", other, err, want)
		}
	}
}
