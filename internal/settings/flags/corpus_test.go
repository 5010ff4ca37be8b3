package flags

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"spate/internal/load/lengths"
	"spate/internal/load/workload"
	"spate/internal/settings/config"
)

// TestCorpus reads command lines people have published and checks every flag on them, by a reading
// of the line that shares nothing with the parser.
func TestCorpus(t *testing.T) {
	f, err := os.Open("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	n := 0
	for lines.Scan() {
		tool, rest, _ := strings.Cut(lines.Text(), ": ")
		n++
		t.Run(fmt.Sprintf("%s-%d", tool, n), func(t *testing.T) { checkCommand(t, rest) })
	}
	if err := lines.Err(); err != nil || n != 33 {
		t.Fatalf("read %d lines, %v", n, err)
	}
}

// words splits a line as a shell does, as far as the corpus needs it.
func shellWords(line string) []string { return strings.Fields(strings.ReplaceAll(line, "'", "")) }

func checkCommand(t *testing.T, line string) {
	args := shellWords(line)
	r, err := Parse(args, Options{})
	sharegpt := strings.Contains(line, "--dataset-name sharegpt")
	if sharegpt { // names no file: the one thing to say about it
		var problems config.Problems
		_ = errors.As(err, &problems)
		if len(problems) != 1 || problems[0].Flags[1] != "dataset-path" {
			t.Fatalf("got %v, want a request for --dataset-path", err)
		}
		r, err = Parse(append(args, "--dataset-path", "x.json"), Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	got := settingsByFlag(r.Bench)
	for i := 0; i < len(args); i++ {
		name, want, joined := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			want = args[i]
		}
		have, ok := got[name]
		if !ok || have != want {
			t.Errorf("--%s is %q, want %q", name, have, want)
		}
		if r.Bench.Given[name] != config.FromArgs {
			t.Errorf("--%s is not noted as given", name)
		}
	}
	if strings.Contains(line, "--random-range-ratio 1.0") && (r.Bench.Dataset.Random.Meaning != workload.RatioHead || len(r.Notes) != 1) {
		t.Errorf("ratio 1 means %q, notes %v", r.Bench.Dataset.Random.Meaning, r.Notes)
	}
}

// settingsByFlag picks by hand what the corpus sets.
func settingsByFlag(b *config.Bench) map[string]string {
	d := b.Dataset
	ratio := "another"
	if d.Random.RangeRatio == (lengths.Ratio{}) { // what an older script's 1.0 comes to
		ratio = "1.0"
	}
	save := ""
	if !b.Output.SaveResult {
		save = "not saved"
	}
	return map[string]string{
		"backend": string(b.Target.Backend), "port": strconv.Itoa(b.Target.Port), "host": b.Target.Host, "endpoint": b.Target.Endpoint,
		"model": b.Model.ID, "dataset-name": d.Name, "dataset-path": d.Path, "num-prompts": strconv.Itoa(b.Load.NumPrompts),
		"random-input-len": strconv.Itoa(d.Random.InputLen), "random-output-len": strconv.Itoa(d.Random.OutputLen), "random-range-ratio": ratio,
		"sonnet-input-len": strconv.Itoa(d.Sonnet.InputLen), "sonnet-output-len": strconv.Itoa(d.Sonnet.OutputLen), "sonnet-prefix-len": strconv.Itoa(d.Sonnet.PrefixLen),
		"request-rate": strconv.FormatFloat(float64(b.Load.RequestRate), 'g', -1, 64), "save-result": save,
		"result-dir": b.Output.ResultDir, "result-filename": b.Output.ResultFilename,
	}
}
