package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/cli"
)

// published are command lines of vllm bench serve as people have published them.
const published = "../../settings/flags/testdata/commands.txt"

// TestPublishedCommands runs each of them as it stands but for the port; with -short, one that paces its requests
// over minutes is planned as it stands and then run at a higher rate.
func TestPublishedCommands(t *testing.T) {
	t.Parallel()
	slow(t, "runs every published command; TestEveryPublishedCommandIsAccepted plans them")
	data, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--tokens-per-chunk", "512",
		"--model", "Qwen2-7B-Instruct", "--model", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4")
	n := 0
	for line := range strings.Lines(string(data)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "vllm: ")
		if !ok {
			continue
		}
		n++
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			runPublished(t, addr, line)
		})
	}
	if n != 29 {
		t.Errorf("%d command lines, want 29", n)
	}
}

func runPublished(t *testing.T, addr, line string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(line, "'", "")) // as a shell would
	flag := map[string]string{}
	for i, w := range words {
		if name, ok := strings.CutPrefix(w, "--"); ok && i+1 < len(words) {
			flag[name] = words[i+1]
		}
		if i > 0 && words[i-1] == "--port" {
			words[i] = port
		}
	}
	var extra []string
	c := benchCmd(t, words...)
	home := c.cmd.Dir
	c.cmd.Dir = filepath.Join(home, "here") // the lines name a file one folder up
	poem, err := os.ReadFile(verses)
	if err == nil {
		err = os.Mkdir(c.cmd.Dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "sonnet_4x.txt"), poem, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if flag["request-rate"] != "" {
		plan := prepare(t, nil, append([]string{"bench", "serve", "--dry-run"}, words...)...)
		plan.cmd.Dir = c.cmd.Dir
		e := plan.want(cli.ExitDone)
		rate, err := strconv.Atoi(flag["request-rate"])
		if err != nil {
			t.Fatal(err)
		}
		has(t, "plan", e.out, "200 requests at "+flag["request-rate"]+" per second", (time.Duration(200/rate) * time.Second).String())
		extra = append(extra, "Request rate configured (RPS):")
	}
	e := c.want(cli.ExitDone)
	e.balanced()
	labels, figures := blockOf(t, e.out)
	if d := cmp.Diff(headLabels(append(extra, "P99")...), labels); d != "" {
		t.Errorf("block (-HEAD +got):\n%s", d)
	}
	prompts, err := strconv.Atoi(flag["num-prompts"])
	if err != nil {
		t.Fatal(err)
	}
	if figures["Successful requests:"] != flag["num-prompts"] || figures["Failed requests:"] != "0" {
		t.Errorf("%s of %d requests succeeded", figures["Successful requests:"], prompts)
	}
	each, err := strconv.Atoi(flag["random-output-len"] + flag["sonnet-output-len"])
	if err != nil {
		t.Fatal(err)
	}
	if figures["Total generated tokens:"] != strconv.Itoa(prompts*each) {
		t.Errorf("%s tokens, want %d", figures["Total generated tokens:"], prompts*each)
	}
	if flag["random-input-len"] != "" && prompts <= 1000 { // more are not brought to length one by one
		near(t, "mean input", number(t, figures, "Total input tokens:")/float64(prompts), number(t, flag, "random-input-len"))
	}
	if name := flag["result-filename"]; name != "" {
		if _, err := os.Stat(filepath.Join(c.cmd.Dir, "results", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryPublishedCommandIsAccepted plans every line of the list as it stands, in its tool's dialect. Those of
// vllm bench serve run in TestPublishedCommands.
func TestEveryPublishedCommandIsAccepted(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 33 {
		t.Fatalf("%d command lines, want 33", len(lines))
	}
	lines = append(lines, // the tools of the other published reports, as their authors call them
		"backprop: --num_requests 300 --concurrency 100 --request_timeout 30 --output_tokens 200 --vllm_url http://localhost:8000/v1 --api_key none",
		"sglang: --backend sglang --dataset-name random --num-prompts 500 --random-input-len 2000 --random-output-len 6000 --random-range-ratio 1.0",
		"sglang: --backend vllm --dataset-name sharegpt --num-prompts 10000",
		"sglang: --backend sglang --dataset-name generated-shared-prefix --gsp-num-groups 8 --gsp-prompts-per-group 4 --gsp-num-turns 2 --gsp-send-routing-key",
		"vllm-0.6: --backend vllm --model m --dataset-name random --random-input-len 80 --random-output-len 150 --num-prompts 64",
		"vllm-0.10: --backend vllm --model m --dataset-name random --random-input-len 1024 --random-output-len 128 --num-prompts 64",
	)
	home := t.TempDir()
	here := filepath.Join(home, "here")
	poem, err := os.ReadFile(verses)
	if err == nil {
		err = os.Mkdir(here, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "sonnet_4x.txt"), poem, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		tool, rest, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("line %d names no tool: %s", i+1, line)
		}
		t.Run(fmt.Sprint(i+1, " ", tool), func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(strings.ReplaceAll(rest, "'", ""))                                  // as a shell would
			c := prepare(t, nil, append([]string{"bench", "--compat", tool, "--dry-run"}, words...)...) // no server to ask, no model named
			c.cmd.Dir = here
			has(t, "plan", c.want(cli.ExitDone).out, "nothing was sent")
		})
	}
}

// TestLMDeployCommandsRun runs the published lines of LMDeploy's client, with fewer requests, and reads its block.
func TestLMDeployCommandsRun(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--tokens-per-chunk", "512", "--model", "m")
	n := 0
	for line := range strings.Lines(string(data)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "lmdeploy: ")
		if !ok {
			continue
		}
		n++
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			c := prepare(t, nil, append([]string{"bench", "--compat", "lmdeploy", "--base-url", "http://" + addr, "--no-store", "--no-output", "--no-observe", "--output-file", "out.csv"},
				append(strings.Fields(line), "--num-prompts", "20")...)...)
			e := c.want(cli.ExitDone)
			has(t, "block", e.out, "Backend:                                 vllm      \n", "Traffic request rate:                    inf       \n",
				"Successful requests:                     20        \n", "----------------End-to-End Latency----------------\n")
			if strings.Contains(line, "sharegpt") {
				has(t, "note", e.stderr, "spate downloads nothing")
				return
			}
			var in, out int
			_, lengths, _ := strings.Cut(line, "--random-input-len ")
			if _, err := fmt.Sscanf(lengths, "%d --random-output-len %d", &in, &out); err != nil {
				t.Fatal(err)
			}
			has(t, "block", e.out, fmt.Sprintf("Total generated tokens:                  %-10d\n", 20*out), fmt.Sprintf("Total input tokens:                      %-10d\n", 20*in))
			file, err := os.ReadFile(filepath.Join(c.cmd.Dir, "out.csv"))
			if err != nil || !strings.Contains(string(file), fmt.Sprintf("\nvllm,random,,%d,%d,1.0,inf,20,%d,%d,", in, out, 20*in, 20*out)) {
				t.Errorf("out.csv: %s, %v", file, err)
			}
		})
	}
	if n != 4 {
		t.Errorf("%d command lines, want 4", n)
	}
}

// simProcess starts `spate sim` on a free port and returns its address.
func simProcess(t *testing.T, args ...string) (addr string) {
	t.Helper()
	c := prepare(t, nil, append([]string{"sim", "--port", "0"}, args...)...)
	c.cmd.Stdout = nil
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.start()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("spate sim: %v\n%s", err, c.err.String())
	}
	t.Cleanup(func() {
		c.signal(syscall.SIGTERM)
		if e := c.wait(); e.code != cli.ExitDone {
			t.Errorf("spate sim ended with %d:\n%s", e.code, e.stderr)
		}
	})
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "serving on http://")
	if !ok {
		t.Fatalf("spate sim said %q", line)
	}
	return addr
}
