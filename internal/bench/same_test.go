package bench

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spate/internal/forecast/predict"
	"spate/internal/settings/flags"
	"spate/internal/token/tokenizer"
)

// TestPredictSendsWhatBenchSends: for random settings and seeds, over the datasets that predict takes, both make the
// same requests: as many, as long, due at the same times, with the same beginnings shared.
func TestPredictSendsWhatBenchSends(t *testing.T) {
	tok := unpacked(t, "../token/tokenizer/testdata/qwen.tokenizer.json.gz")
	draw := rand.New(rand.NewPCG(11, 12)) // the same sets each time
	seen := map[string]int{}
	for range 200 {
		args := randomFlags(draw, t)
		if draw.IntN(5) == 0 {
			args = append(args, "--tokenizer", tok)
		} else {
			args = append(args, "--skip-tokenizer-init")
		}
		seen[args[1]]++
		t.Run(strings.Join(args, " "), func(t *testing.T) { sentAlike(t, args) })
	}
	for _, name := range []string{"random", "sharegpt", "sonnet", "custom", "prefix_repetition", "generated-shared-prefix", "mooncake", "burstgpt"} {
		if seen[name] < 5 {
			t.Errorf("dataset %s was tried %d times", name, seen[name])
		}
	}
}

func sentAlike(t *testing.T, args []string) {
	t.Helper()
	r, err := flags.Parse(append([]string{"--model", "m", "--base-url", "http://127.0.0.1:1"}, args...), flags.Options{ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Job: Job{Config: r.Bench, Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}}
	defer s.close()
	s.newTenants()
	one := s.tenants[0]
	if _, err := one.rehearse(t.Context()); err != nil {
		t.Fatal(err)
	}
	prompts := predict.Prompts{Tokenizer: one.tokens.local, Template: one.tokens.tmpl}
	l, err := predict.NewLoad(r.Bench, prompts)
	if err != nil {
		t.Fatal(err)
	}
	var due []time.Duration
	for at := range one.load.plan.Due {
		if due = append(due, at); len(due) > len(l.Requests) {
			break
		}
	}
	if len(due) != len(l.Requests) || one.load.text != l.Text || one.load.plan.Slots != l.Slots {
		t.Fatalf("bench sends %d (%s), predict %d (%s)", len(due), one.load.text, len(l.Requests), l.Text)
	}
	names := map[uint64]string{} // beginnings that predict gives the same name must be the same text
	for i := range l.Requests {
		req, err := one.load.source.Next(context.Background())
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		got := &l.Requests[i]
		in := 0
		for _, seg := range got.Prompt {
			in += seg.Len
		}
		if in != max(1, req.In.N) || got.Out != max(1, req.MaxOut) || got.At != due[i] {
			t.Fatalf("request %d: predict sends %d tokens in, %d out at %v; bench %d, %d at %v", i, in, got.Out, got.At, req.In.N, req.MaxOut, due[i])
		}
		text := req.Prompt.Text + string(req.Prompt.Messages)
		if len(got.Prompt) < 2 || one.tokens.local != nil || text == "" {
			continue
		}
		first := strings.Join(strings.Fields(text)[:min(16, len(strings.Fields(text)))], " ")
		if before, ok := names[got.Prompt[0].Stream]; ok && before != first {
			t.Fatalf("request %d begins with %q, and has the name of %q", i, first, before)
		}
		names[got.Prompt[0].Stream] = first
	}
	if n := r.Bench.Load.NumPrompts; n > 0 && r.Bench.Load.Duration == 0 {
		if _, err := one.load.source.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("bench has more requests than predict: %v", err)
		}
	}
}

// randomFlags draws a dataset with settings of its own, and an open load.
func randomFlags(draw *rand.Rand, t *testing.T) []string {
	t.Helper()
	num := func(low, high int) string { return fmt.Sprint(low + draw.IntN(high-low+1)) }
	pick := func(words ...string) string { return words[draw.IntN(len(words))] }
	datasets := map[string][]string{
		"random": {
			"--random-output-len", num(1, 60), "--random-prefix-len", pick("0", "40"), "--range-ratio-meaning", pick("auto", "v10", "v6"), "--salt", pick("", "pepper"),
		},
		"sharegpt":                {"--dataset-path", "../test/e2e/testdata/data/sharegpt.json"},
		"sonnet":                  {"--dataset-path", "../test/e2e/testdata/data/verses.txt", "--sonnet-input-len", num(220, 400), "--sonnet-prefix-len", pick("50", "200")},
		"custom":                  {"--dataset-path", "../../examples/prompts.jsonl", "--custom-output-len", num(1, 99)},
		"prefix_repetition":       {"--prefix-repetition-prefix-len", num(10, 99), "--prefix-repetition-num-prefixes", num(1, 4)},
		"generated-shared-prefix": {"--gsp-num-groups", num(1, 5), "--gsp-prompts-per-group", num(1, 9), "--gsp-system-prompt-len", num(10, 99)},
		"mooncake":                {"--dataset-path", "../../examples/trace.jsonl"},
		"burstgpt":                {"--dataset-path", burst(t)},
	}
	names := []string{"random", "random", "sharegpt", "sonnet", "custom", "prefix_repetition", "generated-shared-prefix", "mooncake", "burstgpt"}
	name := names[draw.IntN(len(names))]
	args := append([]string{"--dataset-name", name}, datasets[name]...)
	args = append(args, "--seed", num(0, 1<<20), "--num-prompts", num(8, 60))
	if name == "random" {
		args = append(args, strings.Fields(pick("--isl lognormal(200,100)", "--isl uniform(20,300)", "--seq-dist 64,16:25;128,8:75",
			"--isl "+num(1, 300)+" --random-range-ratio 0.3", "--isl "+num(1, 300)+" --random-range-ratio 0.9", "--isl "+num(1, 300)))...)
	}
	if name == "mooncake" && draw.IntN(2) == 0 {
		return args // at its own times
	} else if name == "mooncake" {
		args = append(args, "--no-self-timed")
	}
	return append(args, strings.Fields(pick("--request-rate 5", "--request-rate 9 --burstiness 0.5", "--request-rate inf", "--request-rate 3 --duration 4s",
		"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 9"))...)
}

// burst is a file of BurstGPT's kind.
func burst(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burst.csv")
	text := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	for i := range 70 {
		text += fmt.Sprintf("%d,GPT-4,%d,%d,%d,Conversation log\n", i, 20+i, 5+i, 25+2*i)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unpacked is the path of a tokenizer without its compression.
func unpacked(t *testing.T, name string) string {
	t.Helper()
	in, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokenizer.Load(path); err != nil {
		t.Fatal(err)
	}
	return path
}
