package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const hidden = "s3cr3t-Value"

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
