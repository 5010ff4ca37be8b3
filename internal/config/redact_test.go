package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

const hidden = "s3cr3t-Value"

func TestRedactHides(t *testing.T) {
	cases := map[string][]string{
		"api key":             {"--api-key", hidden},
		"api key joined":      {"--api-key=" + hidden},
		"underscore":          {"--api_key", hidden},
		"abbreviated":         {"--api-k", hidden},
		"header":              {"--header", "Authorization=Bearer " + hidden},
		"header joined":       {"--header=Authorization=" + hidden},
		"header abbreviated":  {"--head", "api-key=" + hidden},
		"header curl style":   {"--header", "Authorization: Bearer " + hidden},
		"header lower case":   {"--header", "x-api-key=" + hidden},
		"second header":       {"--header", "X-A=b", "Cookie=" + hidden},
		"header broken apart": {"--header", "Authorization=Bearer", hidden},
		"url userinfo":        {"--base-url", "http://me:" + hidden + "@host:8000"},
		"url user only":       {"--base-url", "https://" + hidden + "@host/v1"},
		"url without scheme":  {"--url", "me:" + hidden + "@host:8000"},
		"two urls":            {"--base-url", "http://a,http://me:" + hidden + "@host"},
		"url query":           {"--endpoint", "/v1/completions?api_key=" + hidden + "&x=1"},
		"json":                {"--extra-body", `{"a":1,"api_key":"` + hidden + `"}`},
		"json nested":         {"--extra-body", `{"auth":{"token":"` + hidden + `"}}`},
		"json in list":        {"--extra-body", `{"x":[{"secret":"` + hidden + `"}]}`},
		"json url":            {"--extra-body", `{"cb":"http://u:` + hidden + `@h"}`},
		"json broken":         {"--extra-body", `{"api_key": "` + hidden + `"`},
		"json python":         {"--extra-body", `{'api_key': '` + hidden + `'}`},
		"dotted":              {"--extra-body.api_key", hidden},
		"dotted joined":       {"--extra-body.auth.token=" + hidden},
		"extra inputs":        {"--extra-inputs", "api_key:" + hidden},
		"metadata":            {"--metadata", "a=b", "hf_token=" + hidden},
		"known prefix":        {"--metadata", "note=sk-abcdef0123456789" + hidden},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			got := Redact(args)
			if text := strings.Join(got, " "); strings.Contains(text, hidden) {
				t.Errorf("Redact(%q) = %q", args, got)
			}
			if len(got) != len(args) || got[0] == Redacted {
				t.Errorf("Redact(%q) = %q lost its shape", args, got)
			}
			if again := Redact(got); !slices.Equal(again, got) {
				t.Errorf("second time %q, first %q", again, got)
			}
		})
	}
}

func TestRedactKeeps(t *testing.T) {
	args := []string{
		"bench", "serve", "--model", "org/model", "--tokenizer", "/m/tok", "--extra-body", `{"max_tokens": 5, "stop_token_ids": [1]}`,
		"--header", "X-Trace=abc", "--base-url", "http://h:8000", "--endpoint=/v1/completions", "--metadata", "tokenizer=llama",
		"--prompt-token-ids", "--goodput", "ttft:200", "tpot:50", "--temperature", "-1", "--request-rate", "2",
	}
	if got := Redact(args); !slices.Equal(got, args) {
		t.Errorf("Redact changed\n%q\nto\n%q", args, got)
	}
}

func TestNoFormOfTheSettingsShowsSecrets(t *testing.T) {
	b := good()
	b.Target.APIKey = hidden
	b.Target.Headers = []Header{{"Authorization", "Bearer " + hidden}, {"X-A", "b"}}
	b.Target.BaseURLs = []string{"http://u:" + hidden + "@h"}
	b.Body.Extra = json.RawMessage(`{"api_key":"` + hidden + `","top_k":5}`)
	b.Output.Metadata = []KeyValue{{"password", hidden}, {"note", "kept"}}
	safe := b.Redacted()
	raw, err := json.Marshal(safe)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"json":    string(raw),
		"%+v":     fmt.Sprintf("%+v", safe),
		"%#v":     fmt.Sprintf("%#v", safe),
		"key %v":  fmt.Sprintf("%v", any(b.Target.APIKey)),
		"key %#v": fmt.Sprintf("%#v", b.Target.APIKey),
		"header":  fmt.Sprint(b.Target.Headers),
		"scrub":   b.Scrub("server said: key " + hidden + " is wrong"),
		"slog":    slog.AnyValue(b.Target.APIKey).Resolve().String(),
	}
	for name, text := range forms {
		if strings.Contains(text, hidden) {
			t.Errorf("%s shows it: %s", name, text)
		}
	}
	for _, want := range []string{`"top_k":5`, "kept", `"X-A"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing from %s", want, raw)
		}
	}
	if b.Target.APIKey.Reveal() != hidden || !strings.Contains(b.Target.BaseURLs[0], hidden) || !strings.Contains(string(b.Body.Extra), hidden) {
		t.Error("Redacted changed the settings themselves")
	}
}

// FuzzRedact holds that what follows a key flag, a secret header or a password never comes through,
// whatever stands around it, and that redacting twice changes nothing.
func FuzzRedact(f *testing.F) {
	f.Add("--model", "x", "--extra-body", `{"a":1}`)
	f.Add("--header", "X=y", "--api-key", "k")
	f.Add("--base-url", "http://a:b@c", "--header", "Authorization")
	f.Add("--extra-body", `{"api_key":{"a":1}}`, "--metadata", "bearer x")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		const canary = "C4NARY0123456789"
		args := []string{
			a, b, "--api-key", canary, c, "--header", "X-Api-Key=" + canary, "Authorization=Bearer " + canary, d,
			"--base-url", "http://u:" + canary + "@h", "--extra-body.token", canary,
		}
		once := Redact(args)
		if len(once) != len(args) {
			t.Fatalf("%d words became %d", len(args), len(once))
		}
		if strings.Contains(strings.Join(once, " "), canary) && !strings.Contains(a+b+c+d, canary) {
			t.Fatalf("leaked: %q", once)
		}
		if twice := Redact(once); !slices.Equal(once, twice) {
			t.Fatalf("once %q\ntwice %q", once, twice)
		}
	})
}

func TestSecretsInBodies(t *testing.T) {
	b := Bench{}
	b.Body.Extra = json.RawMessage(`{"seed":1,"nested":[{"api_key":"deep-secret"}],"max_tokens":"not one"}`)
	if got := b.Secrets(); len(got) != 1 || got[0] != "deep-secret" {
		t.Errorf("Secrets() = %q, want the nested key alone", got)
	}
	if got := b.Scrub(`server said {"api_key":"deep-secret"}`); strings.Contains(got, "deep-secret") {
		t.Errorf("Scrub left the secret: %s", got)
	}
}
