package e2e

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spate/internal/call"
	"spate/internal/cli"
	"spate/internal/result"
	"spate/internal/sim/serve"
)

// mixFile writes a file of tenants for a server.
func mixFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mix.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const mixTenants = `skip-tokenizer-init: true
tenants:
  - name: chat
    model: alpha
    random-input-len: 12
    random-output-len: 5
    request-rate: 200
    num-prompts: 40
    goodput: [ttft:60000]
    slo: error_rate<1%
  - name: batch
    dataset-name: sonnet
    sonnet-input-len: 230
    sonnet-output-len: 7
    max-concurrency: 4
    num-prompts: 25
    model: base
    lora-modules: [lora-a, lora-b]
    slo: mean_ttft<1us
`

// tenantRowsOf reads the two tables of tenants out of a report: the cells of each row after its name.
func tenantRowsOf(t *testing.T, text string) map[string][]string {
	t.Helper()
	_, text, found := strings.Cut(text, "\nTenants ")
	if !found {
		t.Fatalf("no tenants in:\n%.2000s", text)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ReplaceAll(line, " %", "%"))
		if len(words) > 0 && strings.HasPrefix(line, "  ") && words[0] != "The" && rows["all"] == nil || len(words) == 7 && len(rows) > 0 {
			rows[words[0]] = append(rows[words[0]], words[1:]...)
		}
		if len(words) == 0 {
			break
		}
	}
	return rows
}

// TestTenantsEndToEnd runs two tenants and looks at them through every view.
func TestTenantsEndToEnd(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Truth: true, Models: []string{"alpha", "base", "lora-a", "lora-b"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	place, vllm := t.TempDir(), filepath.Join(t.TempDir(), "vllm.json")
	c := benchCmd(t, "--config", mixFile(t, mixTenants), "--base-url", srv.URL(), "--save-result", "--result-filename", vllm, "--disable-tqdm", "--store", place)
	e := c.want(cli.ExitUnmet)
	run := e.balanced()
	_, figures := blockOf(t, e.out)
	if figures["Successful requests:"] != "65" || run.Tenants[0].Tally.OK != 40 || run.Tenants[1].Tally.OK != 25 {
		t.Errorf("block says %s, tenants %+v and %+v", figures["Successful requests:"], run.Tenants[0].Tally, run.Tenants[1].Tally)
	}
	rows := tenantRowsOf(t, e.out)
	for name, ok := range map[string]string{"chat": "40", "batch": "25", "all": "65"} {
		if len(rows[name]) == 0 || rows[name][0] != ok || rows[name][1] != "0" {
			t.Errorf("row %s: %v", name, rows[name])
		}
	}
	has(t, "stderr", e.stderr, "tenant batch: objective mean_ttft<1us is not met")
	has(t, "findings", strings.Join(strings.Fields(e.out), " "), "chat met every objective, while batch missed mean_ttft<1us")
	for _, r := range e.measured() {
		if name := r.Labels[result.TenantLabel]; !strings.Contains(r.Name, "-"+name+"-") || srv.Truth().Find(r.Name) == nil {
			t.Errorf("%s is said to be of %q", r.Name, name)
		}
	}
	tenantViews(t, e, place)
	vllmTenants(t, vllm)
}

// tenantViews holds that every view of the run's folder has the same rows.
func tenantViews(t *testing.T, e ended, place string) {
	t.Helper()
	_, printed, _ := strings.Cut(e.out, "\nTenants ")
	printed, _, _ = strings.Cut(printed, "\n\n")
	has(t, "report", prepare(t, nil, "report", e.folder).want(cli.ExitDone).out, printed)
	has(t, "show", prepare(t, nil, "show", "last", "--store", place).want(cli.ExitDone).out, printed)
	has(t, "md", prepare(t, nil, "report", e.folder, "--format", "md").want(cli.ExitDone).out, "| chat |", "| batch | lora-a+lora-b |", "| all |", "did not serve all tenants alike")

	table, err := csv.NewReader(strings.NewReader(prepare(t, nil, "report", e.folder, "--format", "csv").want(cli.ExitDone).out)).ReadAll()
	if err != nil || len(table) != 4 {
		t.Fatalf("csv %v, %v", table, err)
	}
	column := func(name string) (out []string) {
		for i, h := range table[0] {
			if h == name {
				for _, row := range table[1:] {
					out = append(out, row[i])
				}
			}
		}
		return out
	}
	if got := strings.Join(append(column("tenant"), column("completed")...), " "); got != "chat batch all 40 25 65" {
		t.Errorf("csv has %s", got)
	}

	var objects []struct {
		Settings map[string]string
		Metrics  map[string]float64
	}
	if err := json.Unmarshal([]byte(prepare(t, nil, "report", e.folder, "--format", "json").want(cli.ExitDone).out), &objects); err != nil || len(objects) != 3 {
		t.Fatalf("json: %d objects, %v", len(objects), err)
	}
	run := e.result()
	for i, o := range objects[:2] {
		if want := run.Tenants[i]; o.Settings["tenant"] != want.Name || o.Metrics["mean_ttft_ms"] != want.Summary.TTFT.Mean {
			t.Errorf("json has %v with TTFT %v, want %s with %v", o.Settings, o.Metrics["mean_ttft_ms"], want.Name, want.Summary.TTFT.Mean)
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	prepare(t, nil, "report", e.folder, "-o", page).want(cli.ExitDone)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "page", string(html), "<h4>Tenants</h4>", "<td>chat</td><td>alpha</td><td>random</td>", "<td>batch</td><td>lora-a+lora-b</td><td>sonnet</td>", "<td>all</td>", "did not serve all tenants alike")
}

// vllmTenants holds that vLLM's file has the rows under vLLM's names.
func vllmTenants(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Completed int              `json:"completed"`
		Tenants   []map[string]any `json:"tenants"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	if whole.Completed != 65 || len(whole.Tenants) != 2 {
		t.Fatalf("%d completed, %d tenants", whole.Completed, len(whole.Tenants))
	}
	chat := whole.Tenants[0]
	if chat["name"] != "chat" || chat["completed"] != 40.0 || chat["request_rate"] != 200.0 || chat["mean_ttft_ms"] == nil || chat["request_goodput"] == nil {
		t.Errorf("chat is %v", chat)
	}
}

// TestTenantsKilled kills a run of two tenants: its report has a row for each, from the records that are
// there.
func TestTenantsKilled(t *testing.T) {
	t.Parallel()
	srv := sim(t, serve.Config{Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}})
	c := benchCmd(t, "--base-url", srv.URL(), "--disable-tqdm", "--config", mixFile(t, `model: alpha
skip-tokenizer-init: true
random-input-len: 12
random-output-len: 5
num-prompts: 100000
tenants:
  - {name: paced, request-rate: 50, slo: error_rate<1%}
  - {name: closed, max-concurrency: 3}
`))
	c.start()
	await(t, "both tenants have answers on disk", func() bool {
		if _, err := os.Stat(filepath.Join(c.folder, result.RecordsFile)); err != nil {
			return false
		}
		have := map[string]int{}
		for _, r := range recovered(t, c.folder) {
			have[r.Labels[result.TenantLabel]]++
		}
		return have["paced"] >= 5 && have["closed"] >= 5
	})
	await(t, "when they began is on disk", func() bool {
		data, err := os.ReadFile(filepath.Join(c.folder, result.RunFile))
		if err != nil {
			return false
		}
		planned, err := result.Decode(data)
		return err == nil && planned.Tenants[0].Plan.Start > 0 && planned.Tenants[1].Plan.Start > 0
	})
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // killed, as asked
	want := map[string]int{}
	for _, r := range recovered(t, c.folder) {
		if r.Outcome == call.OK {
			want[r.Labels[result.TenantLabel]]++
			want["all"]++
		}
	}
	out := prepare(t, nil, "report", c.folder).want(cli.ExitDone).out
	has(t, "report", out, "(recovered)")
	rows := tenantRowsOf(t, out)
	for name, n := range want {
		if len(rows[name]) == 0 || rows[name][0] != strconv.Itoa(n) {
			t.Errorf("row %s is %v, and %d answers are on disk", name, rows[name], n)
		}
	}
	run, err := result.Open(c.folder)
	if err != nil || len(run.Tenants) != 2 {
		t.Fatalf("recovered: %v", err)
	}
	if a, b := run.Tenants[0].Plan.Start, run.Tenants[1].Plan.Start; a <= 0 || a != b || run.Plan.Start != a {
		t.Errorf("tenants began at %v and %v, the run at %v", a, b, run.Plan.Start)
	}
	if met, judged := run.Tenants[0].Meets(); !met || !judged {
		t.Errorf("objectives of a killed run: %+v", run.Tenants[0].Checks)
	}
}

// TestTenantsExample runs the example as its first lines say, with fewer requests.
func TestTenantsExample(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	const file = "examples/tenants/chat-and-batch.yaml"
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	has(t, "the example", string(text), "spate bench --config "+file+" --base-url")
	c := benchCmd(t, "--config", file, "--sim", "--sim-ttft", "1ms", "--sim-itl", "1ms", "--num-prompts", "8", "--request-rate", "100", "--slo", "error_rate<1%", "--disable-tqdm")
	c.cmd.Dir = root
	run := c.want(cli.ExitDone).balanced()
	if len(run.Tenants) != 2 || run.Tenants[0].Tally.OK != 8 || run.Tenants[1].Tally.OK != 8 || run.Tenants[1].Dataset != "prefix_repetition" {
		t.Errorf("tenants %+v and %+v", run.Tenants[0].Tally, run.Tenants[1].Tally)
	}
	if run.Server.Model != run.Tenants[0].Model {
		t.Errorf("one model, called %q and %q", run.Server.Model, run.Tenants[0].Model)
	}
}

// TestTenantsRepeated runs a mix twice with fresh prompts, as --repeat does with one workload.
func TestTenantsRepeated(t *testing.T) {
	t.Parallel()
	slow(t, "measures a series of runs")
	srv := sim(t, serve.Config{Models: []string{"alpha", "base", "lora-a", "lora-b"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	dir := filepath.Join(t.TempDir(), "series")
	prepare(t, nil, "bench", "--config", mixFile(t, mixTenants), "--base-url", srv.URL(), "--repeat", "2", "--output-dir", dir, "--disable-tqdm", "--slo", "error_rate<1%").want(cli.ExitDone)
	for _, name := range []string{"run-1", "run-2"} {
		run, err := result.Open(filepath.Join(dir, name))
		if err != nil || len(run.Tenants) != 2 || run.Summary.Completed != 65 {
			t.Errorf("%s: %v", name, err)
		}
	}
	out := prepare(t, nil, "compare", "--force", filepath.Join(dir, "run-1"), filepath.Join(dir, "run-2")).want(cli.ExitDone).out
	has(t, "comparison", out, "ttft", "run-2/chat against", "run-2/batch against")
	if strings.Contains(out, "tenants.") {
		t.Errorf("two runs of one mix are said to differ:\n%s", out)
	}
}
