package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/call"
	"spate/internal/result"
	"spate/internal/send/driver"
	"spate/internal/settings/flags"
	"spate/internal/sim/serve"
)

// asked is what a request said on the wire.
type asked struct {
	ID, Team, Model, Prompt string
	Temperature             *float64
}

// wire passes requests on to a server and keeps what they said.
type wire struct {
	*httptest.Server
	mu  sync.Mutex
	all map[string]asked
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{all: map[string]asked{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	proxy.Transport, proxy.FlushInterval = transport, -1
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.URL.Path == "/v1/completions" {
			a := asked{ID: r.Header.Get("x-request-id"), Team: r.Header.Get("X-Team")}
			if err := json.Unmarshal(body, &a); err != nil {
				t.Errorf("body %.80s: %v", body, err)
			}
			w.mu.Lock()
			w.all[a.ID] = a
			w.mu.Unlock()
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(func() {
		w.Close()
		transport.CloseIdleConnections()
	})
	return w
}

// of are the requests of a tenant, by id.
func (w *wire) of(tenant string) map[string]asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]asked{}
	for id, a := range w.all {
		if strings.HasPrefix(id, "t-"+tenant+"-") {
			out[id] = a
		}
	}
	return out
}

// mixJob is a run of the tenants in a file.
func mixJob(t *testing.T, file string, args ...string) Job {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mix.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--config", path, "--output-dir", filepath.Join(t.TempDir(), "run"), "--disable-tqdm", "--no-observe"}, args...)
	r, err := flags.Parse(args, flags.Options{IDPrefix: "t-", ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	return Job{
		Config: r.Bench, Command: append([]string{"spate", "bench"}, args...), Version: "test",
		Getenv: func(string) string { return "" }, Home: t.TempDir(), Stdout: io.Discard, Stderr: io.Discard,
	}
}

const chatTenant = `  - name: chat
    model: alpha
    request-rate: 400
    num-prompts: 30
    random-input-len: 12
    random-output-len: 4
    temperature: 0.5
    header: [X-Team=chat]
    goodput: [ttft:60000]
    slo: p99_ttft<60s
`

const batchTenant = `  - name: batch
    dataset-name: sonnet
    sonnet-input-len: 230
    sonnet-output-len: 6
    max-concurrency: 3
    num-prompts: 17
    num-warmups: 2
    model: base
    lora-modules: [lora-a, lora-b]
    lora-assignment: round-robin
    slo: [mean_ttft<1us, error_rate<1%]
`

const thirdTenant = `  - name: burst
    model: alpha
    num-prompts: 9
    num-warmups: 1
    header: [X-Team=burst]
`

func tenantServer(t *testing.T) *wire {
	t.Helper()
	srv := start(t, serve.Config{
		Models: []string{"alpha", "base", "lora-a", "lora-b"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond},
	})
	return newWire(t, srv.URL())
}

// offsets are the due times of a tenant's measured requests, from its start.
func offsets(out *Outcome, tenant string) []time.Duration {
	var due []time.Duration
	for i := range out.Run.Tenants {
		row := &out.Run.Tenants[i]
		if row.Name != tenant {
			continue
		}
		for r := range row.Of(call.List(out.Records())).All() {
			if r.Phase == call.Measure {
				due = append(due, r.Due-row.Plan.Start)
			}
		}
	}
	slices.Sort(due)
	return due
}

// TestTenantsTogether runs three tenants with different datasets, arrivals, models and objectives, and
// looks at what the server got and what the run says of it.
func TestTenantsTogether(t *testing.T) {
	w := tenantServer(t)
	j := mixJob(t, "base-url: "+w.URL+"\nskip-tokenizer-init: true\nrandom-input-len: 12\nrandom-output-len: 4\ntenants:\n"+chatTenant+batchTenant+thirdTenant)
	out := run(t, t.Context(), j)
	r := out.Run
	want := map[string]int{"chat": 30, "batch": 17, "burst": 9}
	total := 0
	for _, row := range r.Tenants {
		if row.Tally != (call.Tally{Due: want[row.Name], OK: want[row.Name], Attempts: want[row.Name]}) {
			t.Errorf("%s: %+v", row.Name, row.Tally)
		}
		total += row.Summary.Completed
	}
	if len(r.Tenants) != 3 || total != 56 || r.Summary.Completed != 56 || r.Tally.Due != 56 || r.Summary.Warmup.Requests != 3 {
		t.Errorf("%d tenants with %d, in all %d; warm-up %d", len(r.Tenants), total, r.Summary.Completed, r.Summary.Warmup.Requests)
	}
	if chat, burst := r.Tenants[0].Plan.Start, r.Tenants[2].Plan.Start; chat != burst || r.Plan.Start > chat {
		t.Errorf("chat starts at %v, burst at %v, the run at %v", chat, burst, r.Plan.Start)
	}
	checkWire(t, w, out)
	if diff := cmp.Diff([]string{"tenant batch: objective mean_ttft<1us is not met"}, cutAt(out.Unmet, ": mean_ttft_ms is")); diff != "" {
		t.Error(diff)
	}
	if g := r.Summary.Goodput; g == nil || g.Good != 30 || g.Share != 1 {
		t.Errorf("goodput of all: %+v", g)
	}
	again, err := result.Open(j.Config.Output.OutputDir)
	if err != nil || again.Tenants[1].Summary.Completed != 17 || again.Tenants[1].Model != "lora-a+lora-b" {
		t.Errorf("read again: %v", err)
	}
}

func cutAt(texts []string, mark string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i], _, _ = strings.Cut(s, mark)
	}
	return out
}

// checkWire holds what was sent against the tenants' settings, and the records against what was sent.
func checkWire(t *testing.T, w *wire, out *Outcome) {
	t.Helper()
	models := map[string]int{}
	for id, a := range w.of("batch") {
		models[a.Model]++
		if a.Team != "" || a.Temperature != nil {
			t.Errorf("%s carries what is another's: %+v", id, a)
		}
	}
	if models["lora-a"]+models["lora-b"] != 19 || models["lora-b"] != 8 { // 17 and two warm-ups, which are copies of the first
		t.Errorf("adapters %v", models)
	}
	for tenant, heat := range map[string]bool{"chat": true, "burst": false} {
		for id, a := range w.of(tenant) {
			if a.Team != tenant || a.Model != "alpha" || (a.Temperature != nil) != heat {
				t.Errorf("%s says %+v", id, a)
			}
		}
	}
	ids := map[string]bool{}
	for _, r := range out.Records() {
		tenant := r.Labels[result.TenantLabel]
		if _, sent := w.of(tenant)[r.Name]; !sent {
			t.Errorf("%s of %q was never sent", r.Name, tenant)
		}
		id := fmt.Sprint(r.Phase, r.ID)
		if ids[id] {
			t.Errorf("%s is there twice", id)
		}
		ids[id] = true
	}
}

// TestTenantsIndependent holds that another tenant changes neither the prompts nor the arrivals of one.
func TestTenantsIndependent(t *testing.T) {
	var prompts []map[string]asked
	var due [][]time.Duration
	for _, tenants := range []string{chatTenant, thirdTenant + batchTenant + chatTenant} {
		w := tenantServer(t)
		out := run(t, t.Context(), mixJob(t, "base-url: "+w.URL+"\nskip-tokenizer-init: true\nrandom-input-len: 12\nrandom-output-len: 4\ntenants:\n"+tenants))
		prompts, due = append(prompts, w.of("chat")), append(due, offsets(out, "chat"))
	}
	for i := 1; i < len(prompts); i++ {
		if diff := cmp.Diff(prompts[0], prompts[i]); diff != "" || len(prompts[0]) != 30 {
			t.Errorf("mix %d sends other prompts: %s", i, diff)
		}
		if !slices.Equal(due[0], due[i]) || len(due[0]) != 30 {
			t.Errorf("mix %d is due at other times:\n%v\n%v", i, due[0], due[i])
		}
	}
}

// TestTenantsKeys gives one tenant a key the server knows and the other one it does not: each fails or
// succeeds by its own, and no key is written anywhere.
func TestTenantsKeys(t *testing.T) {
	srv := start(t, serve.Config{APIKey: "right-key-1234", Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	j := mixJob(t, "base-url: "+srv.URL()+`
model: alpha
random-input-len: 12
random-output-len: 4
num-prompts: 5
tenants:
  - name: good
    api-key: right-key-1234
  - name: bad
    api-key: wrong-key-5678
`)
	out := run(t, t.Context(), j)
	good, bad := out.Run.Tenants[0].Tally, out.Run.Tenants[1].Tally
	if good.OK != 5 || bad.Failed != 5 || out.Run.Tally.OK != 5 || out.Run.Tally.Failed != 5 {
		t.Errorf("good %+v, bad %+v, all %+v", good, bad, out.Run.Tally)
	}
	files, err := os.ReadDir(j.Config.Output.OutputDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(j.Config.Output.OutputDir, f.Name()))
		if err != nil || bytes.Contains(data, []byte("right-key")) || bytes.Contains(data, []byte("wrong-key")) {
			t.Errorf("%s holds a key (%v)", f.Name(), err)
		}
	}
}

// TestTenantsLateFailures has a tenant whose failures would end the run, had it not sent everything already: like a
// plain run, one of tenants that all sent everything is complete. With more to send it ends, and says who ended it with
// the way on for that tenant.
func TestTenantsLateFailures(t *testing.T) {
	srv := start(t, serve.Config{Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	const tenants = `
random-input-len: 12
random-output-len: 4
tenants:
  - {name: good, model: alpha, num-prompts: 3}
  - {name: bad, model: beta, num-prompts: `
	out := run(t, t.Context(), mixJob(t, "base-url: "+srv.URL()+tenants+"10}\n"))
	if out.Run.State != result.Complete || out.Run.Tally.OK != 3 || out.Run.Tally.Failed != 10 {
		t.Errorf("all was sent: %s, %+v", out.Run.State, out.Run.Tally)
	}
	out = run(t, t.Context(), mixJob(t, "base-url: "+srv.URL()+tenants+"400, max-concurrency: 1}\n"))
	for _, part := range []string{"tenant bad: the first 10 requests all failed", `the server has no model "beta"; it has alpha`} {
		if out.Run.State != result.Aborted || !strings.Contains(out.Run.Aborted, part) {
			t.Errorf("%s: %q lacks %q", out.Run.State, out.Run.Aborted, part)
		}
	}
}

// TestTenantAlone holds a list of one tenant against a plain run of the same seed: what the server is sent, by its ids,
// and how a wrong key ends it.
func TestTenantAlone(t *testing.T) {
	const same = "\nmodel: alpha\nskip-tokenizer-init: true\nrandom-input-len: 12\nrandom-output-len: 4\nnum-prompts: 7\n"
	var got []map[string]asked
	for _, list := range []string{"seed: 5\nrequest-id-prefix: t-chat-\n", "tenants: [{name: chat, seed: 5}]\n"} {
		w := tenantServer(t)
		run(t, t.Context(), mixJob(t, "base-url: "+w.URL+same+list))
		got = append(got, w.of("chat"))
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" || len(got[0]) != 7 {
		t.Errorf("%d requests: %s", len(got[0]), diff)
	}
	srv := start(t, serve.Config{APIKey: "right-key-1234", Models: []string{"alpha"}})
	for _, list := range []string{"", "tenants: [{name: chat}]\n"} {
		_, err := Run(t.Context(), mixJob(t, "base-url: "+srv.URL()+same+"api-key: wrong\n"+list))
		if err == nil || !strings.Contains(err.Error(), "the server refuses the key") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// TestTenantsStopped stops a run that would go on for long: every tenant ends, and nothing is lost.
func TestTenantsStopped(t *testing.T) {
	srv := start(t, serve.Config{Truth: true, Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	j := mixJob(t, "base-url: "+srv.URL()+`
model: alpha
skip-tokenizer-init: true
random-input-len: 12
random-output-len: 4
duration: 10m
tenants:
  - {name: paced, request-rate: 100}
  - {name: closed, max-concurrency: 2}
`)
	stop := make(chan struct{})
	live := &driver.Live{}
	j.Stop, j.Live = stop, live
	done := make(chan *Outcome)
	go func() {
		out, err := Run(context.Background(), j)
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	// The one that is paced may be far ahead of the other on a busy machine.
	fromClosed := func(r *serve.Truth) bool { return strings.HasPrefix(r.ID, "t-closed-") }
	if !await(func() bool { return live.Done.Load() > 20 && slices.ContainsFunc(srv.Truth().All(), fromClosed) }) {
		t.Error("a tenant sent nothing")
	}
	close(stop)
	out := <-done
	if out.Run.State != result.Interrupted || !out.Run.Tally.Balanced() {
		t.Errorf("state %s, %+v", out.Run.State, out.Run.Tally)
	}
	sum := 0
	for _, row := range out.Run.Tenants {
		sum += row.Tally.Due
	}
	if sum != out.Run.Tally.Due || out.Run.Tenants[1].Tally.OK == 0 {
		t.Errorf("rows amount to %d, all to %d", sum, out.Run.Tally.Due)
	}
}

// TestTenantsHalt holds that the user's word and a tenant's end stop the others, in any order.
func TestTenantsHalt(t *testing.T) {
	closed := func(stop <-chan struct{}) {
		t.Helper()
		select {
		case <-stop:
		case <-time.After(30 * time.Second):
			t.Error("nobody was told to stop")
		}
	}
	word := make(chan struct{})
	stop, halt, done := (&session{Job: Job{Stop: word}}).haltable()
	close(word)
	closed(stop)
	halt()
	done()
	stop, halt, done = (&session{}).haltable()
	halt()
	closed(stop)
	done()
}

// TestTenantsWarmTogether gives all tenants one time to warm up: their measured parts begin at one moment.
func TestTenantsWarmTogether(t *testing.T) {
	w := tenantServer(t)
	out := run(t, t.Context(), mixJob(t, "base-url: "+w.URL+`
model: alpha
skip-tokenizer-init: true
random-input-len: 12
random-output-len: 4
num-prompts: 8
warmup-duration: 100ms
tenants:
  - {name: one, request-rate: 100}
  - {name: two, request-rate: 300}
`))
	one, two := &out.Run.Tenants[0], &out.Run.Tenants[1]
	if one.Plan.Start != two.Plan.Start || out.Run.Plan.Start != one.Plan.Start || one.Tally.OK != 8 || two.Tally.OK != 8 {
		t.Errorf("start %v and %v of %v, %+v and %+v", one.Plan.Start, two.Plan.Start, out.Run.Plan.Start, one.Tally, two.Tally)
	}
	if one.Summary.Warmup.Requests == 0 || two.Summary.Warmup.Requests <= one.Summary.Warmup.Requests {
		t.Errorf("warm-up of %d and %d requests at 100 and 300 per second", one.Summary.Warmup.Requests, two.Summary.Warmup.Requests)
	}
}

// TestTenantsConnections has two tenants send everything at once through one client: every request finds a
// connection that was opened for it before.
func TestTenantsConnections(t *testing.T) {
	srv := start(t, serve.Config{Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: 200 * time.Millisecond, ITL: time.Millisecond}})
	out := run(t, t.Context(), mixJob(t, "base-url: "+srv.URL()+`
model: alpha
skip-tokenizer-init: true
random-input-len: 12
random-output-len: 2
num-prompts: 40
tenants: [{name: one}, {name: two}]
`))
	if i := slices.IndexFunc(out.Run.Notes, func(n string) bool { return strings.Contains(n, "connections were opened on demand") }); i >= 0 || out.Run.Tally.OK != 80 {
		t.Errorf("%+v, notes %q", out.Run.Tally, out.Run.Notes)
	}
}

// TestTenantsModelNames lets a server call its model otherwise than requests do: a tenant's row has the name the run
// has, unless the tenant asks for another one.
func TestTenantsModelNames(t *testing.T) {
	srv := start(t, serve.Config{Models: []string{"alpha", "tuned"}, Root: "org/alpha", Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	out := run(t, t.Context(), mixJob(t, "base-url: "+srv.URL()+`
skip-tokenizer-init: true
random-input-len: 12
random-output-len: 2
num-prompts: 2
tenants: [{name: plain}, {name: own, served-model-name: tuned}, {name: mixed, lora-modules: [alpha, tuned]}]
`))
	got := []string{out.Run.Server.Model}
	for _, row := range out.Run.Tenants {
		got = append(got, row.Model)
	}
	if diff := cmp.Diff([]string{"org/alpha", "org/alpha", "tuned", "alpha+tuned"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTenantsRouted sends conversations and groups of two tenants under headers that a router reads: none of one is
// called like one of the other, while records have the names as they are elsewhere.
func TestTenantsRouted(t *testing.T) {
	w := tenantServer(t)
	const talk = "dataset-name: multi-turn, num-prompts: 3, multi-turn-turns: 2, multi-turn-next-len: 5, random-input-len: 5, random-output-len: 3"
	out := run(t, t.Context(), mixJob(t, "base-url: "+w.URL+`
model: alpha
max-concurrency: 2
tenants:
  - {name: one, header: "X-Team={session}", `+talk+`}
  - {name: two, header: "X-Team={session}", `+talk+`}
  - {name: three, header: "X-Team={group}", dataset-name: generated-shared-prefix, gsp-num-groups: 2, gsp-prompts-per-group: 2, gsp-system-prompt-len: 9, gsp-question-len: 5, gsp-output-len: 2}
`))
	for tenant, want := range map[string]int{"one": 6, "two": 6, "three": 4} {
		got := w.of(tenant)
		for id, a := range got {
			if !strings.HasPrefix(a.Team, tenant+"/") {
				t.Errorf("%s: header %q, want one that begins with %s/", id, a.Team, tenant)
			}
		}
		if len(got) != want {
			t.Errorf("%s: %d requests, want %d", tenant, len(got), want)
		}
	}
	recs := out.Records()
	for i := range recs {
		r := &recs[i]
		tenant := r.Labels[result.TenantLabel]
		if group := r.Labels["group"]; (tenant == "three") != (group == "0" || group == "1") || (tenant == "three") != (r.Session == "") || strings.Count(r.Session, "/") > 1 {
			t.Errorf("%s of %s: session %q, group %q", r.Name, tenant, r.Session, group)
		}
	}
}

// TestTenantsWithoutData says which tenant's dataset is missing.
func TestTenantsWithoutData(t *testing.T) {
	srv := start(t, serve.Config{Models: []string{"alpha"}, Timetable: serve.TimetableConfig{TTFT: time.Millisecond, ITL: time.Millisecond}})
	_, err := Run(t.Context(), mixJob(t, "base-url: "+srv.URL()+`
model: alpha
num-prompts: 3
tenants:
  - name: fine
  - {name: lost, dataset-name: custom, dataset-path: /nowhere/at/all.jsonl}
`))
	if err == nil || !strings.Contains(err.Error(), "tenant lost: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dataset that is nowhere: %v", err)
	}
}

func TestTenantsDryRun(t *testing.T) {
	srv := start(t, serve.Config{Models: []string{"alpha"}})
	j := mixJob(t, "base-url: "+srv.URL()+"\ntenants:\n"+chatTenant+batchTenant)
	var out bytes.Buffer
	j.Stdout = &out
	if err := DryRun(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Plan of 2 tenants", "Tenant chat\n", "30 requests at 400 per second", "Tenant batch\n", "sonnet, seed", "closed loop, 3 at a time", "2 requests before"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the plan lacks %q:\n%s", part, out.String())
		}
	}
	if n := srv.Stats().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
