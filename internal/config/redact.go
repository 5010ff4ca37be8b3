package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Redact returns a copy of a command line that may be saved and shown: API keys, authorization
// headers, passwords inside URLs and tokens inside JSON are replaced. It looks at the words as they
// were typed, since a command that did not parse must not leak either.
func Redact(args []string) []string {
	out := make([]string, len(args))
	var flag string // the last flag seen, for the values that follow it
	for i, arg := range args {
		name, value, isFlag, joined := splitFlag(arg)
		switch {
		case isFlag && joined:
			out[i] = arg[:len(arg)-len(value)] + redactValue(name, value)
			flag = name
		case isFlag:
			out[i] = RedactText(arg)
			flag = name
		default:
			out[i] = redactValue(flag, arg)
		}
		if !isFlag && !manyValues(flag) {
			flag = ""
		}
	}
	return out
}

// splitFlag takes --name=value apart.
func splitFlag(arg string) (name, value string, isFlag, joined bool) {
	if len(arg) < 2 || arg[0] != '-' || strings.ContainsAny(arg[1:2], "0123456789.") {
		return "", "", false, false
	}
	name, value, joined = strings.Cut(arg, "=")
	name = strings.ReplaceAll(strings.ToLower(strings.TrimLeft(name, "-")), "_", "-") // as the parser takes it
	return name, value, true, joined
}

// manyValues reports whether a flag goes on taking values: a header flag may be followed by several.
func manyValues(flag string) bool { return isHeaderFlag(flag) || isSecretFlag(flag) }

// isHeaderFlag accepts every abbreviation, because the parser does.
func isHeaderFlag(flag string) bool {
	return flag == "h" || len(flag) >= 2 && strings.HasPrefix("header", flag) || flag == "headers"
}

func isSecretFlag(flag string) bool {
	return len(flag) >= 2 && strings.HasPrefix("api-key", flag) || secretKey(flag)
}

func redactValue(flag, value string) string {
	switch {
	case value == "":
		return value
	case isSecretFlag(flag):
		return Redacted
	case isHeaderFlag(flag):
		if h, err := ParseHeader(value); err == nil && !secretHeader(h.Name) {
			return RedactText(value)
		}
		return redactPair(value)
	}
	if clean, ok := redactJSON(value); ok {
		return clean
	}
	if at := strings.IndexAny(value, "=:"); at > 0 && isToken(value[:at]) && secretKey(value[:at]) {
		return redactPair(value)
	}
	return RedactText(value)
}

// redactPair keeps the name of NAME=VALUE and hides the rest; without a name everything goes.
func redactPair(text string) string {
	if at := strings.IndexAny(text, "=:"); at > 0 {
		return text[:at+1] + Redacted
	}
	return Redacted
}

// secretHeader errs on the side of hiding.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "key", "token", "secret", "cookie", "password", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// secretKey reports whether a JSON key, flag or metadata name means a secret. It has to let
// max_tokens, tokenizer, prompt-token-ids and key_value pass.
func secretKey(name string) bool {
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return secretKey(name[at+1:]) || secretKey(name[:at])
	}
	plain := strings.NewReplacer("-", "", "_", "", " ", "", "+", "").Replace(strings.ToLower(name))
	if slices.Contains([]string{"token", "auth", "key", "pwd", "cookie", "jwt"}, plain) {
		return true
	}
	for _, part := range []string{
		"apikey", "secret", "password", "passwd", "authorization", "bearer", "credential", "privatekey",
		"accesstoken", "authtoken", "sessiontoken", "refreshtoken", "idtoken", "hftoken", "apitoken", "accesskey", "subscriptionkey",
	} {
		if strings.Contains(plain, part) {
			return true
		}
	}
	return false
}

// redactJSON hides the values of secret keys in a JSON object or array; ok reports whether text is
// one. What has nothing to hide comes back byte for byte.
func redactJSON(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return "", false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil || dec.More() {
		return RedactText(brokenJSON.ReplaceAllStringFunc(text, redactBroken)), true
	}
	if !redactTree(tree) {
		return text, true
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return Redacted, true
	}
	return strings.TrimSuffix(buf.String(), "\n"), true
}

// redactTree hides secrets in place and reports whether it changed anything.
func redactTree(node any) bool {
	changed := false
	switch n := node.(type) {
	case map[string]any:
		for k, v := range n {
			if s, ok := v.(string); secretKey(k) && v != nil && (!ok || s != Redacted) {
				n[k] = Redacted
				changed = true
				continue
			}
			if s, ok := v.(string); ok && RedactText(s) != s {
				n[k] = RedactText(s)
				changed = true
				continue
			}
			changed = redactTree(v) || changed
		}
	case []any:
		for i, v := range n {
			if s, ok := v.(string); ok && RedactText(s) != s {
				n[i] = RedactText(s)
				changed = true
				continue
			}
			changed = redactTree(v) || changed
		}
	}
	return changed
}

var (
	brokenJSON = regexp.MustCompile(`(['"]?)([A-Za-z_-]+)['"]?\s*:\s*('[^']*'?|"[^"]*"?|[^,}\s]+)`)
	userinfo   = regexp.MustCompile(`((?:^|[\s"'=,])(?:[A-Za-z][A-Za-z0-9+.-]*://)?)[^/\s@"'=,]*:[^/\s@"']*@`)
	schemeUser = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@"']+@`)
	bearer     = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+|%20)([^\s"',;]+)`)
	query      = regexp.MustCompile(`(?i)([?&;](?:api[-_]?key|key|token|access[-_]?token|sig|signature|password|secret|code)=)[^&\s"'#]+`)
	knownKeys  = regexp.MustCompile(`\b(?:sk|pk|rk|gsk|nvapi|hf|xai|ghp|glpat)[-_][A-Za-z0-9_-]{12,}`)
)

// redactBroken hides one pair of something that was meant to be JSON.
func redactBroken(pair string) string {
	m := brokenJSON.FindStringSubmatch(pair)
	if !secretKey(m[2]) {
		return pair
	}
	return strings.TrimSuffix(pair, m[3]) + Redacted
}

// RedactText hides what looks like a secret anywhere in a text: user names and passwords in URLs,
// bearer tokens, keys in queries, and keys with a well-known prefix.
func RedactText(text string) string {
	text = schemeUser.ReplaceAllString(text, "${1}"+Redacted+"@")
	text = userinfo.ReplaceAllString(text, "${1}"+Redacted+"@")
	text = bearer.ReplaceAllString(text, "${1}${2}"+Redacted)
	text = query.ReplaceAllString(text, "${1}"+Redacted)
	return knownKeys.ReplaceAllString(text, Redacted)
}

// MarshalJSON hides the value of headers that carry secrets.
func (h Header) MarshalJSON() ([]byte, error) {
	value := RedactText(h.Value)
	if secretHeader(h.Name) {
		value = Redacted
	}
	return json.Marshal(struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}{h.Name, value})
}

// String hides the value of headers that carry secrets.
func (h Header) String() string {
	if secretHeader(h.Name) {
		return h.Name + "=" + Redacted
	}
	return h.Name + "=" + RedactText(h.Value)
}

// Redacted returns a copy of the settings that may be saved. Headers and the API key hide
// themselves; this hides what stands inside URLs, JSON and metadata.
func (b *Bench) Redacted() Bench {
	c := *b
	c.Target.BaseURLs = slices.Clone(b.Target.BaseURLs)
	for i, u := range c.Target.BaseURLs {
		c.Target.BaseURLs[i] = RedactText(u)
	}
	c.Target.Endpoint = RedactText(c.Target.Endpoint)
	c.Observe.ServerMetrics, c.Observe.GPUMetrics = RedactText(c.Observe.ServerMetrics), RedactText(c.Observe.GPUMetrics)
	c.Target.Headers = slices.Clone(b.Target.Headers)
	for i, h := range c.Target.Headers {
		if secretHeader(h.Name) {
			c.Target.Headers[i].Value = Redacted
		}
	}
	if c.Target.APIKey != "" {
		c.Target.APIKey = Redacted
	}
	c.Body.Extra = redactRaw(b.Body.Extra)
	c.Body.ChatTemplate = redactRaw(b.Body.ChatTemplate)
	c.Output.Metadata = slices.Clone(b.Output.Metadata)
	for i, kv := range c.Output.Metadata {
		c.Output.Metadata[i].Value = RedactText(kv.Value)
		if secretKey(kv.Key) {
			c.Output.Metadata[i].Value = Redacted
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
	if clean, ok := redactJSON(string(raw)); ok {
		return json.RawMessage(clean)
	}
	return raw
}

// Scrub replaces every secret these settings hold wherever it stands in a text, such as a server's
// error message that quotes the key back.
func (b *Bench) Scrub(text string) string {
	for _, s := range b.Secrets() {
		text = strings.ReplaceAll(text, s, Redacted)
	}
	return RedactText(text)
}

// Secrets lists every secret these settings hold, the longest first, so that replacing one which
// contains another leaves no rest.
func (b *Bench) Secrets() []string {
	var all []string
	add := func(s string) {
		if len(s) >= 4 {
			all = append(all, s)
		}
	}
	add(b.Target.APIKey.Reveal())
	for _, h := range b.Target.Headers {
		if secretHeader(h.Name) {
			add(h.Value)
			if _, rest, ok := strings.Cut(h.Value, " "); ok {
				add(rest)
			}
		}
	}
	for _, text := range append([]string{b.Observe.ServerMetrics, b.Observe.GPUMetrics}, b.Target.BaseURLs...) {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			add(u.User.String())
			password, _ := u.User.Password()
			add(password)
		}
	}
	for _, raw := range []json.RawMessage{b.Body.Extra, b.Body.ChatTemplate} {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			secretValues(v, add)
		}
	}
	for i := range b.Tenants {
		all = append(all, b.Tenant(i).Secrets()...)
	}
	slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) })
	return all
}

// secretValues finds the texts under keys that mean secrets, anywhere in a JSON value.
func secretValues(v any, add func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if s, ok := inner.(string); ok && secretKey(k) {
				add(s)
			}
			secretValues(inner, add)
		}
	case []any:
		for _, inner := range v {
			secretValues(inner, add)
		}
	}
}
