package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spate/internal/sim/serve"
)

// planted is a set of secrets, each at a place of its own. Whatever spate prints or writes is searched for them.
type planted struct {
	t       *testing.T
	dir     string // everything is written below it
	secrets map[string]string
	said    []string
	own     []string // files that hold secrets because the test put them there
}

func plant(t *testing.T) *planted {
	return &planted{t: t, dir: t.TempDir(), secrets: map[string]string{}}
}

// at is a new secret for a place. It looks like an ordinary word: only its place gives it away.
func (p *planted) at(place string) string {
	words := []string{"amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron"}
	n := len(p.secrets)
	s := words[n%len(words)] + "Zq" + words[(n/len(words)+3)%len(words)] + "X" + string(rune('a'+n%26))
	p.secrets[place] = s
	return s
}

// spate runs a command below the folder and keeps what it said.
func (p *planted) spate(code int, env []string, args ...string) ended {
	p.t.Helper()
	c := prepare(p.t, append([]string{"HOME=" + p.dir, "TMPDIR=" + p.dir, "SPATE_STORE=" + filepath.Join(p.dir, "store.db")}, env...), args...)
	c.cmd.Dir = p.dir
	e := c.want(code)
	p.said = append(p.said, e.out, e.stderr)
	return e
}

// file writes a file that may hold secrets.
func (p *planted) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.own = append(p.own, path)
	return path
}

// search looks for every secret in all that was printed, and in the names and bytes of all files.
func (p *planted) search() {
	p.t.Helper()
	files := 0
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, own := range p.own {
			if path == own {
				return nil
			}
		}
		data, err := os.ReadFile(path)
		files++
		for place, s := range p.secrets {
			if i := bytes.Index(data, []byte(s)); i >= 0 {
				p.t.Errorf("the secret of %s is in %s: ...%s...", place, strings.TrimPrefix(path, p.dir), data[max(0, i-60):min(len(data), i+40)])
			}
			if strings.Contains(path, s) {
				p.t.Errorf("the secret of %s is in the name of %s", place, path)
			}
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if files == 0 {
		p.t.Error("no file was written: nothing was searched")
	}
	for _, text := range p.said {
		for place, s := range p.secrets {
			if i := strings.Index(text, s); i >= 0 {
				p.t.Errorf("the secret of %s was printed: ...%s...", place, text[max(0, i-60):min(len(text), i+40)])
			}
		}
	}
}

// views runs every command that shows or writes results.
func (p *planted) views(refs ...string) {
	p.t.Helper()
	for _, ending := range []string{"md", "html", "csv", "json"} {
		p.spate(0, nil, append([]string{"report", "-o", filepath.Join(p.dir, "all."+ending)}, refs...)...)
	}
	p.spate(0, nil, append([]string{"explain"}, refs...)...)
	p.spate(0, nil, append([]string{"import", "--json", "--no-store"}, refs...)...)
	p.spate(0, nil, append([]string{"import"}, refs...)...)
	p.spate(0, nil, "list")
	p.spate(0, nil, "list", "--format", "json")
	p.spate(0, nil, "export")
	p.spate(0, nil, "export", "--format", "csv")
	p.spate(0, nil, "show", "last")
}

func TestBenchKeepsNoSecret(t *testing.T) {
	slow(t, "runs every view")
	p := plant(t)
	key := p.at("--api-key")
	srv := sim(t, serve.Config{APIKey: key, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	base := strings.Replace(srv.URL(), "http://", "http://me:"+p.at("userinfo")+"@", 1)
	args := []string{
		"bench", "--base-url", base, "--api-key", key, "--num-prompts", "4", "--isl", "8", "--osl", "2",
		"--endpoint", "/v1/completions?subscription-key=" + p.at("subscription-key") + "&auth_token=" + p.at("auth_token") + "&sig=" + p.at("sig"),
		"--header", "X-Api-Key=" + p.at("header"), "Cookie=" + p.at("cookie"), "X-Note=http://a:" + p.at("url in a header") + "@h",
		"--extra-body", `{"user":"x","api_key":"` + p.at("--extra-body") + `","nested":[{"password":"` + p.at("nested") + `"}]}`,
		"--metadata", "hf_token=" + p.at("--metadata"), "note=hf_" + p.at("known prefix") + p.at("known prefix, rest"), "my_key=" + p.at("metadata key"),
	}
	p.spate(0, nil, append(args, "--dry-run")...)
	p.spate(0, nil, append(args, "--output-dir", filepath.Join(p.dir, "run"), "--save-result", "--save-detailed", "--result-dir", p.dir)...)
	p.views("run")
	p.spate(1, nil, append(args, "--api-key", p.at("wrong key"), "--output-dir", filepath.Join(p.dir, "refused"))...)
	p.spate(0, []string{"OPENAI_API_KEY=" + key}, append(args, "--no-output", "--num-prompts", "2")...)
	p.spate(2, nil, append(args, "--no-such-flag", p.at("value of an unknown flag")[:0]+"x")...)
	p.search()
}

// vllm is a program that prints its arguments and its environment as engines do, and then serves.
const vllm = `#!/bin/sh
echo "INFO args: Namespace(model='m', $*)"
env
exec SPATE sim --ttft 1ms --itl 1ms "$@"
`

// engine writes that program.
func (p *planted) engine() string {
	p.t.Helper()
	bin, err := program()
	if err != nil {
		p.t.Fatal(err)
	}
	path := filepath.Join(p.dir, "engine")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(vllm, "SPATE", bin)), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func TestLaunchKeepsNoSecret(t *testing.T) {
	slow(t, "starts servers and runs every view")
	p := plant(t)
	engine, key := p.engine(), p.at("--launch --api-key")
	p.spate(0, []string{"NGC_API_KEY=" + p.at("environment")}, "bench", "--launch", engine+" --port {port} --api-key "+key, "--api-key", key,
		"--num-prompts", "2", "--isl", "8", "--osl", "2", "--output-dir", filepath.Join(p.dir, "run"), "--launch-log", filepath.Join(p.dir, "server.log"))
	log, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
	if err != nil || !bytes.Contains(log, []byte("--api-key REDACTED")) {
		t.Errorf("the server's log does not show what was hidden: %v\n%s", err, log)
	}
	e := p.spate(0, []string{"MY_KEY=" + key}, "bench", "--launch", engine+" --port {port} --api-key ${MY_KEY}", "--api-key", key,
		"--num-prompts", "2", "--isl", "8", "--osl", "2", "--output-dir", filepath.Join(p.dir, "run2"), "--launch-log", filepath.Join(p.dir, "server2.log"))
	has(t, "standard error", e.stderr, `--api-key "${MY_KEY}"`)
	p.spate(1, nil, "bench", "--launch", engine+" --port {port} --api-key "+key+" --no-such-flag "+p.at("a failed start")[:0]+"x", "--num-prompts", "2", "--no-output",
		"--launch-log", filepath.Join(p.dir, "server3.log"))
	bad := p.spate(1, nil, "bench", "--launch", engine+" --port {port} --api-key ${NO_SUCH_KEY}", "--num-prompts", "2", "--no-output", "--launch-log", filepath.Join(p.dir, "server4.log"))
	has(t, "standard error", bad.stderr, "NO_SUCH_KEY is not set in the environment")
	p.views("run", "run2")
	p.search()
}

// guardedOnce holds that a command which starts several servers says once what protects them.
func guardedOnce(t *testing.T, stderr string) {
	t.Helper()
	if n := strings.Count(stderr, "protection if spate is killed: "); n != 1 {
		t.Errorf("the protection is told %d times:\n%s", n, stderr)
	}
}

func TestSweepKeepsNoSecret(t *testing.T) {
	slow(t, "starts servers and runs every view")
	p := plant(t)
	engine, key := p.engine(), p.at("bench: api-key")
	suite := p.file("suite.yaml", `
bench: {num-prompts: 2, isl: 8, osl: 2, api-key: `+key+`}
grid: {request-rate: [50, 100], header: ["X-Api-Key=`+p.at("grid")+`", "X-Api-Key=`+p.at("grid, second")+`"]}
servers:
  - name: list
    launch:
      command: [`+engine+`, --port, "{port}", --api-key, `+key+`]
      stop: [echo, --token, `+p.at("stop")+`]
      env: {HF_TOKEN: `+p.at("env")+`, DB_PASS: `+p.at("env, password")+`, KEPT: "plain"}
  - name: line
    bench: {metadata: {hf_token: `+p.at("server's metadata")+`}}
    launch: WANDB_API_KEY=`+p.at("variable in a line")+` `+engine+` --port {port} --api-key=`+key+`
`)
	p.spate(0, nil, "sweep", suite, "--dry-run")
	dir := filepath.Join(p.dir, "sweep")
	e := p.spate(0, nil, "sweep", suite, "--output-dir", dir, "-o", filepath.Join(p.dir, "s.md"), "-o", filepath.Join(p.dir, "s.html"), "-o", filepath.Join(p.dir, "s.csv"))
	guardedOnce(t, e.stderr)
	e = p.spate(0, nil, "sweep", suite, "--output-dir", dir)
	has(t, "a second sitting", e.stderr, "0 of 8 measurements to make")
	plan, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err != nil {
		t.Fatal(err)
	}
	has(t, "sweep.json", string(plan), `"HF_TOKEN": "${HF_TOKEN}"`, `"${API_KEY}"`, "WANDB_API_KEY=${WANDB_API_KEY} ", `"KEPT": "plain"`)
	bad := p.spate(2, nil, "sweep", "--resume", dir)
	has(t, "what --resume lacks", bad.stderr, "give --api-key")
	p.views("sweep")
	p.search()
}

func TestTuneKeepsNoSecret(t *testing.T) {
	slow(t, "starts servers and runs every view")
	p := plant(t)
	engine, key := p.engine(), p.at("fixed: api-key")
	file := p.file("tune.yaml", `
name: hunt
server:
  kind: sim
  command: "`+engine+` --port {port} --hf-token-of `+p.at("server: command")[:0]+`x {flags}"
  env: {HF_TOKEN: `+p.at("server: env")+`, KEPT: plain}
  stop: "echo --password `+p.at("server: stop")+`"
model: m
fixed: {api-key: `+key+`, output-len: 4}
space: {max-running: [4, 8]}
workload: {dataset-name: random, random-input-len: 8, random-output-len: 2, num-prompts: 6, max-concurrency: 3, api-key: `+key+`}
objective: throughput
rate: 100
budget: {trials: 1}
repeats: 1
finalists: 1
`)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.file("tune.yaml", strings.Replace(string(data), "--hf-token-of x ", "", 1))
	p.spate(0, nil, "tune", file, "--dry-run")
	dir := filepath.Join(p.dir, "found")
	args := []string{"tune", file, "--output-dir", dir}
	for _, ending := range []string{"md", "html", "csv", "json"} {
		args = append(args, "--output", filepath.Join(p.dir, "t."+ending))
	}
	e := p.spate(0, nil, args...)
	guardedOnce(t, e.stderr)
	has(t, "standard output", e.out, `HF_TOKEN="${HF_TOKEN}"`, `--api-key "${API_KEY}"`, "KEPT=plain")
	p.spate(0, nil, append(args, "--json")...)
	for name, want := range map[string]string{
		"serve.sh": `HF_TOKEN="${HF_TOKEN}"`, "server.service": "PassEnvironment=HF_TOKEN", "docker-compose.yaml": "HF_TOKEN=${HF_TOKEN}", "values.yaml": "secretKeyRef",
	} {
		text, err := os.ReadFile(filepath.Join(dir, "winner", name))
		if err != nil {
			t.Fatal(err)
		}
		has(t, name, string(text), want)
	}
	p.views("found")
	p.search()
}

func TestImportKeepsNoSecret(t *testing.T) {
	p := plant(t)
	p.file("log.md", "# Runs\n\n```\n$ HF_TOKEN="+p.at("variable")+" vllm serve org/m --api-key "+p.at("launch flag")+" --port 8000\n"+
		"INFO args: Namespace(model='org/m', api_key=['"+p.at("Namespace")+"'], hf_token='"+p.at("Namespace, second")+"')\n"+
		"$ vllm bench serve --model org/m --base-url http://u:"+p.at("userinfo")+"@h --header Authorization=Bearer\\ "+p.at("bearer")+" --metadata secret="+p.at("metadata")+"\n"+
		blockText+"\n```\n")
	p.views("log.md")
	p.search()
}

const blockText = `============ Serving Benchmark Result ============
Successful requests:                     200
Benchmark duration (s):                  20.00
Total input tokens:                      1000
Total generated tokens:                  2000
Request throughput (req/s):              10.00
Output token throughput (tok/s):         100.00
Total Token throughput (tok/s):          150.00
---------------Time to First Token----------------
Mean TTFT (ms):                          10.00
Median TTFT (ms):                        10.00
P99 TTFT (ms):                           20.00
==================================================
`
