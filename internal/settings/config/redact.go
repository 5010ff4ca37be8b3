package config

import (
	"encoding/json"
	"slices"

	"spate/internal/safe/secret"
)

// MarshalJSON hides the value of headers that carry secrets.
func (h Header) MarshalJSON() ([]byte, error) {
	value := secret.Text(h.Value)
	if secret.Header(h.Name) {
		value = secret.Redacted
	}
	return json.Marshal(struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}{h.Name, value})
}

// String hides the value of headers that carry secrets.
func (h Header) String() string {
	if secret.Header(h.Name) {
		return h.Name + "=" + secret.Redacted
	}
	return h.Name + "=" + secret.Text(h.Value)
}

// Redacted returns a copy of the settings that may be saved. Headers and the API key hide
// themselves; this hides what stands inside URLs, JSON and metadata.
func (b *Bench) Redacted() Bench {
	c := *b
	c.Target.BaseURLs = slices.Clone(b.Target.BaseURLs)
	for i, u := range c.Target.BaseURLs {
		c.Target.BaseURLs[i] = secret.Text(u)
	}
	c.Target.Endpoint, c.Launch.Command = secret.Text(c.Target.Endpoint), secret.Text(c.Launch.Command)
	c.Observe.ServerMetrics, c.Observe.GPUMetrics = secret.Text(c.Observe.ServerMetrics), secret.Text(c.Observe.GPUMetrics)
	c.Target.Headers = slices.Clone(b.Target.Headers)
	for i, h := range c.Target.Headers {
		c.Target.Headers[i].Value = secret.Text(h.Value)
		if secret.Header(h.Name) {
			c.Target.Headers[i].Value = secret.Redacted
		}
	}
	if c.Target.APIKey != "" {
		c.Target.APIKey = secret.Redacted
	}
	c.Body.Extra = redactRaw(b.Body.Extra)
	c.Body.ChatTemplate = redactRaw(b.Body.ChatTemplate)
	c.Output.Metadata = slices.Clone(b.Output.Metadata)
	for i, kv := range c.Output.Metadata {
		c.Output.Metadata[i].Value = secret.Text(kv.Value)
		if secret.Variable(kv.Key, kv.Value) {
			c.Output.Metadata[i].Value = secret.Redacted
		}
	}
	c.Tenants = slices.Clone(b.Tenants)
	for i := range c.Tenants {
		t, clean := &c.Tenants[i], b.Tenant(i).Redacted()
		t.Headers, t.APIKey, t.Body = clean.Target.Headers, clean.Target.APIKey, clean.Body
	}
	return c
}

func redactRaw(raw json.RawMessage) json.RawMessage {
	if clean, ok := secret.JSON(string(raw)); ok {
		return json.RawMessage(clean)
	}
	return raw
}

// Scrub replaces every secret these settings hold wherever it stands in a text, such as a server's
// error message that quotes the key back.
func (b *Bench) Scrub(text string) string {
	return secret.Scrub(text, b.Secrets())
}

// Secrets lists every secret these settings hold, the longest first, so that replacing one which
// contains another leaves no rest.
func (b *Bench) Secrets() []string {
	words := append(slices.Clone(b.Target.BaseURLs), b.Target.Endpoint, b.Observe.ServerMetrics, b.Observe.GPUMetrics, b.Launch.Command,
		string(b.Body.Extra), string(b.Body.ChatTemplate), "--api-key="+b.Target.APIKey.Reveal())
	for _, h := range b.Target.Headers {
		words = append(words, "--header="+h.Name+"="+h.Value)
	}
	for _, kv := range b.Output.Metadata {
		words = append(words, "--metadata="+kv.Key+"="+kv.Value)
	}
	all := secret.Values(words, nil)
	for i := range b.Tenants {
		all = append(all, b.Tenant(i).Secrets()...)
	}
	slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) })
	return all
}
