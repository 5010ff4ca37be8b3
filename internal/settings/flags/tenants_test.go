package flags

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spate/internal/safe/secret"
	"spate/internal/settings/config"
)

const mixFile = `backend: openai
base-url: http://one:1
num-prompts: 40
random-input-len: 64
seed: 7
goodput: [ttft:100]
header: [X-Team=run]
tenants:
  - name: chat
    request-rate: 5
    slo: p99_ttft<500ms
    header: {X-Team: chat, Authorization: Bearer s3cr3t}
  - name: batch
    dataset-name: sonnet
    max-concurrency: 4
    num-prompts: null
    duration: 30s
    goodput: null
    seed: 11
`

// parseMix reads a file of tenants.
func parseMix(t *testing.T, text string, args ...string) *Result {
	t.Helper()
	r, err := Parse(append([]string{"--config=mix.yaml"}, args...), fileOptions(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTenantsFromFile(t *testing.T) {
	b := parseMix(t, mixFile).Bench
	if len(b.Tenants) != 2 {
		t.Fatalf("%d tenants", len(b.Tenants))
	}
	chat, batch := b.Tenant(0), b.Tenant(1)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"the run's default", chat.Load.NumPrompts, 40},
		{"a default for both", batch.Dataset.Random.InputLen, 64},
		{"its own rate", float64(chat.Load.RequestRate), 5.0},
		{"its own dataset", batch.Dataset.Name, config.DatasetSonnet},
		{"null takes the default away", batch.Load.NumPrompts, 0},
		{"a list taken away", len(batch.Check.Goodput), 0},
		{"a list inherited", len(chat.Check.Goodput), 1},
		{"a list replaced", len(chat.Target.Headers), 2},
		{"objectives", chat.Check.SLO[0].Text, "p99_ttft<500ms"},
		{"no objectives of others", len(batch.Check.SLO), 0},
		{"the run's target", batch.Target.BaseURLs[0], "http://one:1"},
		{"a seed as given", batch.Load.Seed, int64(11)},
		{"a seed of its own", chat.Load.Seed, config.TenantSeed(7, "chat")},
		{"request ids", batch.Load.RequestIDPrefix, b.Load.RequestIDPrefix + "batch-"},
		{"the run's dataset", b.Dataset.Name, config.MixedDataset},
		{"the run's rate, not all have one", b.Load.RequestRate.Inf(), true},
		{"the run's objectives", len(b.Check.Goodput) + len(b.Check.SLO), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	clean := b.Redacted()
	if got := clean.Tenants[0].Headers[1].Value; got != secret.Redacted || b.Tenants[0].Headers[1].Value != "Bearer s3cr3t" {
		t.Errorf("a tenant's key is %q in what is saved", got)
	}
	if !slices.Contains(b.Secrets(), "s3cr3t") {
		t.Errorf("secrets %q lack a tenant's", b.Secrets())
	}
}

// TestTenantsAlone holds that a tenant is what it would be as a run of its own, and stays so whoever is
// beside it.
func TestTenantsAlone(t *testing.T) {
	_, tail, _ := strings.Cut(mixFile, "  - name: batch")
	head, _, _ := strings.Cut(mixFile, "  - name: chat")
	only := parseMix(t, head+"  - name: batch"+tail).Bench.Tenant(0)
	third := parseMix(t, mixFile+"  - name: third\n    request-rate: 1\n").Bench
	if diff := cmp.Diff(only, parseMix(t, mixFile).Bench.Tenant(1)); diff != "" {
		t.Errorf("another tenant changes it: %s", diff)
	}
	for i, name := range []string{"chat", "batch"} {
		was := parseMix(t, mixFile).Bench.Tenants[i]
		if diff := cmp.Diff(was, third.Tenants[i]); diff != "" || was.Name != name {
			t.Errorf("a third tenant changes %s: %s", name, diff)
		}
	}
	if third.Tenants[0].Load.Seed == third.Tenants[2].Load.Seed {
		t.Error("two tenants draw the same numbers")
	}
	alone := parse(t, "--dataset-name", "sonnet", "--max-concurrency", "4", "--duration", "30s", "--seed", "11", "--random-input-len", "64")
	if diff := cmp.Diff(alone.Dataset, only.Dataset); diff != "" {
		t.Errorf("not what bench alone would send: %s", diff)
	}
	alone.Load.RequestIDPrefix = only.Load.RequestIDPrefix
	if diff := cmp.Diff(alone.Load, only.Load); diff != "" {
		t.Errorf("not when bench alone would send: %s", diff)
	}
}

func TestTenantsAndCommandLine(t *testing.T) {
	r := parseMix(t, mixFile, "--max-concurrency", "2", "--seed", "3")
	for i, seed := range []int64{config.TenantSeed(3, "chat"), config.TenantSeed(3, "batch")} {
		l := r.Bench.Tenants[i].Load
		if l.MaxConcurrency == nil || *l.MaxConcurrency != 2 || l.Seed != seed {
			t.Errorf("tenant %d: concurrency %v, seed %d", i, l.MaxConcurrency, l.Seed)
		}
	}
	if got := *r.Bench.Load.MaxConcurrency; got != 4 {
		t.Errorf("the caps of all add up to %d", got)
	}
	want := []string{
		"tenant batch: --max-concurrency on the command line takes the place of what the file says",
		"tenant batch: --seed on the command line takes the place of what the file says",
	}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Errorf("notes: %s", diff)
	}
}

func TestTenantMistakes(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"not a list":        {"tenants: {a: 1}", "config file mix.yaml line 1: tenants: want a list of tenants"},
		"one word":          {"tenants: chat", "want a list of tenants"},
		"empty list":        {"tenants: []", "the list is empty"},
		"not flags":         {"tenants:\n  - name: a\n  - 5", "config file mix.yaml line 3: tenant 2 is no set of flags"},
		"no name":           {"tenants:\n  - request-rate: 1", "line 2: tenant 1 has no name"},
		"empty name":        {"tenants:\n  - name: ''", "line 2: tenant 1: the name is empty"},
		"no word":           {"tenants:\n  - name: [a]", "the name is empty"},
		"odd name":          {"tenants:\n  - name: a b", `"a b" is no name`},
		"reserved name":     {"tenants:\n  - name: All", "the row of all tenants"},
		"twice":             {"tenants:\n  - name: a\n  - name: b\n  - name: a", `line 4: there is a tenant "a" already, on line 2`},
		"unknown flag":      {"tenants:\n  - name: a\n    reqest-rate: 1", `line 3: tenant a: unknown key "reqest-rate": did you mean "request-rate"?`},
		"the run's flag":    {"tenants:\n  - name: a\n    output-dir: x", "line 3: tenant a: output-dir is of the whole run, not of one tenant: give it at the top"},
		"the run's alias":   {"tenants:\n  - name: a\n    url: x", "tenant a: url is of the whole run"},
		"backend":           {"tenants:\n  - name: a\n    backend: vllm", "tenant a: backend is of the whole run"},
		"a flag twice":      {"tenants:\n  - name: a\n    seed: 1\n    seed: 2", "line 4: tenant a: seed is already given on line 3"},
		"wrong type":        {"tenants:\n  - name: a\n    max-concurrency: {a: 1}", "line 3: tenant a: max-concurrency: nested keys are not allowed here"},
		"wrong value":       {"tenants:\n  - name: a\n    max-concurrency: many", `line 3: tenant a: max-concurrency: "many" is not a whole number`},
		"contradiction":     {"tenants:\n  - name: a\n  - name: b\n    stages: 3s@1\n    request-rate: 5", "tenant b: --stages and --request-rate contradict"},
		"everybody's fault": {"insecure: true\nca-cert: x\ntenants:\n  - name: a\n  - name: b", "--insecure and --ca-cert contradict"},
		"tenants misspelt":  {"tenant:\n  - name: a", `unknown key "tenant": did you mean "tenants"?`},
		"within a tenant":   {"tenants:\n  - name: a\n    tenants: []", `unknown key "tenants"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]string{"--config", "mix.yaml"}, fileOptions(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if name == "everybody's fault" && (strings.Contains(err.Error(), "tenant") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("said more than once: %v", err)
			}
		})
	}
}

// TestTenantFlags holds that every flag belongs to somebody, and that those of one group do not change
// sides by accident.
func TestTenantFlags(t *testing.T) {
	var of []string
	for _, d := range Table() {
		if d.PerTenant() && !slices.Contains([]Group{GroupModel, GroupDataset, GroupLoad, GroupBody}, d.Group) {
			of = append(of, d.Name)
		}
	}
	slices.Sort(of)
	if diff := cmp.Diff([]string{"api-key", "goodput", "header", "slo"}, of); diff != "" {
		t.Error(diff)
	}
	names := map[string]bool{}
	for _, d := range Table() {
		names[d.Name] = true
	}
	for _, n := range slices.Concat(ofRun, ofTenant) {
		if !names[n] {
			t.Errorf("there is no flag %s", n)
		}
	}
}
