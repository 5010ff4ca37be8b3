package cli

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// published are command lines of vllm bench serve as people have published them.
const published = "../flags/testdata/commands.txt"

// TestPublishedCommands runs each of them as it stands but for the port; where one paces its requests
// over minutes, it is planned as it stands and then run at a higher rate.
func TestPublishedCommands(t *testing.T) {
	t.Parallel()
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
		e := plan.want(ExitDone)
		rate, err := strconv.Atoi(flag["request-rate"])
		if err != nil {
			t.Fatal(err)
		}
		has(t, "plan", e.out, "200 requests at "+flag["request-rate"]+" per second", (time.Duration(200/rate) * time.Second).String())
		c.cmd.Args = append(c.cmd.Args, "--request-rate", "400")
		extra = append(extra, "Request rate configured (RPS):")
	}
	e := c.want(ExitDone)
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
		if e := c.wait(); e.code != ExitDone {
			t.Errorf("spate sim ended with %d:\n%s", e.code, e.stderr)
		}
	})
	_, addr, ok := strings.Cut(strings.TrimSpace(line), "serving on http://")
	if !ok {
		t.Fatalf("spate sim said %q", line)
	}
	return addr
}
