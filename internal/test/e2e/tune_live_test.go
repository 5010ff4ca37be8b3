//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spate/internal/host/launch"
	"spate/internal/judge/compare"
	"spate/internal/rng"
	"spate/internal/search/tune"
)

// tuned is `spate tune` as a process of its own, every process of which carries a mark.
type tuned struct {
	t         *testing.T
	bin, mark string
	file, dir string
	more      []string
}

func newTuned(t *testing.T, text string) *tuned {
	t.Helper()
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	h := &tuned{t: t, bin: bin, mark: "SPATE_TEST_HUNT=" + base, file: filepath.Join(base, "hunt.yaml"), dir: filepath.Join(base, "found")}
	if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *tuned) command() *exec.Cmd {
	cmd := exec.Command(h.bin, append([]string{"tune", h.file, "--output-dir", h.dir, "--no-store"}, h.more...)...)
	cmd.Dir, cmd.Env = filepath.Dir(h.file), append(os.Environ(), h.mark)
	return cmd
}

// journal is what was noted so far: whole lines of one event.
func (h *tuned) journal(event string) [][]byte {
	data, err := os.ReadFile(filepath.Join(h.dir, "journal.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.Lines(data) {
		if bytes.HasSuffix(line, []byte("\n")) && bytes.Contains(line, []byte(`"event":"`+event+`"`)) {
			out = append(out, line)
		}
	}
	return out
}

// until waits for something.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// marked are the processes that carry the mark.
func (h *tuned) marked() (out []string) {
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, path := range list {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(h.mark+"\x00")) {
			out = append(out, filepath.Dir(path))
		}
	}
	return out
}

// nothingLeft waits until no process of the search runs.
func (h *tuned) nothingLeft() {
	h.t.Helper()
	until(h.t, "every process to end", func() bool { return len(h.marked()) == 0 })
}

// history reads the journal back, as the command would to go on.
func (h *tuned) history() (*tune.File, *tune.Folder) {
	h.t.Helper()
	data, err := os.ReadFile(h.file)
	if err != nil {
		h.t.Fatal(err)
	}
	f, err := tune.Parse(h.file, data)
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := tune.Open(h.dir, f)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		h.t.Fatal(err)
	}
	return f, d
}

const liveFile = `
name: live
server:
  kind: sim
  command: "{spate} sim {model} --gpu {gpu} --engine-version {version} --time-scale 1 --port {port} {flags}"
model: Qwen/Qwen2-0.5B-Instruct
gpu: L40S
version: 0.6.0
fixed: {max-model-len: 2048, num-gpu-blocks-override: 1000}
space:
  max-num-seqs: {int: [4, 256], log: true}
  max-num-batched-tokens: {int: [256, 4096], log: true}
  enable-chunked-prefill: switch
  enable-prefix-caching: switch
workload: {dataset-name: random, random-input-len: 16, random-output-len: 4, num-prompts: 12, max-concurrency: 6}
holdout: {dataset-name: random, random-input-len: 24, random-output-len: 4, num-prompts: 12, max-concurrency: 6}
objective: throughput
budget: {trials: 6}
repeats: 1
finalists: 1
seed: 3
`

// TestTuneLiveKilled kills a search with real servers with -9 at random moments. Measured figures differ from run to
// run, so what two searches with one seed share is this: nothing runs on after a kill; what was observed stays, byte
// for byte, and is not made again; and every step is the one that the seed and the observations before it call for,
// as it would be in a search that nobody disturbed.
func TestTuneLiveKilled(t *testing.T) {
	t.Parallel()
	slow(t, "starts servers and kills the search")
	h := newTuned(t, liveFile)
	draw := rng.New(11, "kill")
	var kept [][]byte
	for kill := range 5 {
		cmd := h.command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		begun := len(h.journal("start"))
		until(t, "a step to begin", func() bool { return len(h.journal("start")) > begun || len(ended) > 0 })
		time.Sleep(time.Duration(draw.Float64() * float64(900*time.Millisecond))) // a moment, whichever: in a start, a run or between
		_ = cmd.Process.Kill()                                                    // it may have come to its end
		<-ended
		h.nothingLeft()
		now := h.journal("done")
		for i := range kept {
			if i >= len(now) || !bytes.Equal(now[i], kept[i]) {
				t.Fatalf("kill %d: line %d of what was observed has changed", kill, i)
			}
		}
		kept = now
	}
	if out, err := h.command().CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.nothingLeft()
	if now := h.journal("done"); len(now) < len(kept) || !slices.EqualFunc(now[:len(kept)], kept, bytes.Equal) {
		t.Error("what was observed before the kills has changed")
	}
	noneTwice(t, filepath.Join(h.dir, "journal.jsonl"), 6)
	h.replay()
}

// replay checks that every step follows from the seed and the steps before, that its run is there, and that the
// outcome is what the history says.
func (h *tuned) replay() {
	h.t.Helper()
	f, d := h.history()
	tuner := &tune.Tuner{File: f, Advice: d.Advice}
	for n := range d.History {
		step, more, err := tuner.Next(d.History[:n])
		if err != nil || !more || !reflect.DeepEqual(step, d.History[n].Step) {
			h.t.Errorf("step %d was %+v, and %+v is called for (%v, %v)", n, d.History[n].Step, step, more, err)
		}
		for _, m := range d.History[n].Runs {
			if _, err := os.Stat(filepath.Join(m.Run, "run.json")); err != nil {
				h.t.Errorf("step %d: its run is not there: %v", n, err)
			}
		}
	}
	if _, more, err := tuner.Next(d.History); more || err != nil {
		h.t.Errorf("it is not at its end: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(h.dir, "outcome.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	var got tune.Outcome
	if err := json.Unmarshal(data, &got); err != nil {
		h.t.Fatal(err)
	}
	want := tuner.Conclude(d.History)
	if got.Winner == nil || got.Winner.Trial != want.Winner.Trial || got.Verdict != want.Verdict || got.Sentence != want.Sentence {
		h.t.Errorf("the outcome is %q, and the history says %q", got.Sentence, want.Sentence)
	}
	if v := got.Verdict.Verdict; v != compare.Better && v != compare.Worse && v != compare.Same && v != compare.CannotTell {
		h.t.Errorf("verdict %q", v)
	}
}

// badServer is a server whose character is what is tuned. The one that dies says on which port it can be seen that
// it is under load. In mode busy somebody else serves, as a container would: it only says on which port.
const badServer = `
mode=good scale=2
[ "$1" != --mode ] || { mode=$2; shift 2; }
port=$1
say() { echo "$port" >"$1.new"; mv "$1.new" "$1"; }
case $mode in
hangs) exec sleep 3600 ;;
refuses)
	echo 'Traceback (most recent call last):'
	echo 'ValueError: max_num_batched_tokens (512) is smaller than max_model_len (4096).'
	exit 1 ;;
deaf) trap '' TERM ;;
forks) setsid sh -c "trap '' TERM; sleep 3600 & wait" >/dev/null 2>&1 & ;;
dies) scale=0.001 ;;
busy)
	say busy
	exec sleep 3600 ;;
esac
"$SPATE" sim --port "$port" --time-scale "$scale" &
if [ "$mode" = dies ]; then
	say dying
	while [ ! -e load ]; do sleep 0.02; done
	echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'
	kill -9 $!
	exit 1
fi
[ "$mode" = deaf ] || trap 'exit 0' TERM
wait
while [ "$mode" = deaf ]; do sleep 0.05; done
`

const badFile = `
name: bad
server:
  command: "sh bad.sh {flags} {port}"
  ready: 6s
  grace: 300ms
model: sim
space:
  mode: {choice: [good, deaf, forks, refuses, dies, busy, hangs], default: good}
workload: {dataset-name: random, random-input-len: 8, random-output-len: 4, num-prompts: 8, max-concurrency: 2}
objective: throughput
strategy: grid
budget: {trials: 8}
drift_every: 0
repeats: 0
`

// TestTuneBadServers tunes a flag on which it depends how the server misbehaves. Each is told for what it is, nothing
// of any of them runs on, and one that leaves its port busy stops the search until the port is free.
func TestTuneBadServers(t *testing.T) {
	t.Parallel()
	slow(t, "starts many servers that fail")
	h := newTuned(t, badFile)
	base := filepath.Dir(h.file)
	if err := os.WriteFile(filepath.Join(base, "bad.sh"), []byte(badServer), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() (*exec.Cmd, *bytes.Buffer) {
		cmd, out := h.command(), &bytes.Buffer{}
		cmd.Env = append(cmd.Env, "SPATE="+h.bin)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	cmd, out := run()
	port := ""
	said := func(name string) bool {
		data, err := os.ReadFile(filepath.Join(base, name))
		port = strings.TrimSpace(string(data))
		return err == nil
	}
	until(t, "load on the server that dies", func() bool { return said("dying") && loaded(port) })
	if err := os.WriteFile(filepath.Join(base, "load"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the server that leaves its port busy", func() bool { return said("busy") })
	other := exec.Command(h.bin, "sim", "--port", port, "--time-scale", "20") // no child of the search, as a container's is not
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	_ = other.Process.Kill() // it is done with
	_ = other.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "its port is still taken by something else") || !strings.Contains(out.String(), "go on with: spate tune") {
		t.Fatalf("%v\n%s", err, out)
	}
	h.nothingLeft()
	cmd, out = run()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.nothingLeft()
	h.characters()
}

// loaded reports whether requests run on a server.
func loaded(port string) bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	data, err := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "vllm:num_requests_running") && !strings.HasSuffix(strings.TrimSpace(line), " 0") && !strings.HasSuffix(strings.TrimSpace(line), " 0.0") {
			return err == nil
		}
	}
	return false
}

// characters checks what was noted of each server.
func (h *tuned) characters() {
	h.t.Helper()
	_, d := h.history()
	by := map[string][]tune.Observation{}
	for _, o := range d.History {
		by[o.Settings["mode"]] = append(by[o.Settings["mode"]], o)
	}
	for mode, want := range map[string]launch.Failure{
		"good": {}, "deaf": {}, "forks": {}, "busy": {},
		"refuses": {Kind: launch.Rule, Line: "ValueError: max_num_batched_tokens (512) is smaller than max_model_len (4096)."},
		"dies":    {Kind: launch.Memory, Line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", UnderLoad: true},
		"hangs":   {Kind: launch.Timeout},
	} {
		list := by[mode]
		if len(list) == 0 {
			h.t.Errorf("%s was not tried", mode)
			continue
		}
		o := list[len(list)-1]
		switch f := o.Failure; {
		case want.Kind == "" && (f != nil || o.Value <= 0):
			h.t.Errorf("%s: %+v, value %v", mode, f, o.Value)
		case want.Kind == "":
		case f == nil || f.Kind != want.Kind || want.Line != "" && f.Line != want.Line || f.UnderLoad != want.UnderLoad || !strings.Contains(f.Command, "sh bad.sh --mode "+mode+" "):
			h.t.Errorf("%s: %+v", mode, f)
		}
	}
	if n := len(by["hangs"]); n != 2 {
		h.t.Errorf("what hangs was started %d times, want 2", n)
	}
	report, err := os.ReadFile(filepath.Join(h.dir, "report.md"))
	if err != nil || !strings.Contains(string(report), "`ValueError: max_num_batched_tokens (512) is smaller than max_model_len (4096).`") {
		h.t.Errorf("the report has no line to search for: %v\n%s", err, report)
	}
}
