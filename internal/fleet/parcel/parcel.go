// Package parcel is the settings of a run as they travel to workers: JSON without secrets, what must not be kept apart
// from it, and the files that they name by content. Pack and Files are the coordinator's side, Unpack and Fetch the
// worker's.
package parcel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/fleet/link"
	"spate/internal/fleet/wire"
	"spate/internal/safe/infile"
	"spate/internal/safe/secret"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
	"spate/internal/token/tokenizer"
)

// KeyVariable is where a worker looks for the server's API key before it asks for one.
const KeyVariable = "OPENAI_API_KEY"

// Sealed is what of the settings may hold secrets, or would not come through JSON byte for byte. It is never stored: it
// is part of the job where there is no secret in it, and else asked for once by each worker.
type Sealed struct {
	APIKey       string      `json:"api_key,omitempty"`
	Headers      [][2]string `json:"headers,omitempty"`
	BaseURLs     []string    `json:"base_urls,omitempty"`
	Endpoint     string      `json:"endpoint,omitempty"`
	Extra        string      `json:"extra_body,omitempty"`
	ChatTemplate string      `json:"chat_template_kwargs,omitempty"`
	Tenants      []Sealed    `json:"tenants,omitempty"`
	Asks         []ask       `json:"asks,omitempty"` // how to ask, for each tenant, as the coordinator has learned it
	No           string      `json:"no,omitempty"`   // why it is not given
}

// ask is a protocol.Body whose texts come through as they are.
type ask struct {
	Model      string `json:"model,omitempty"`
	IgnoreEOS  bool   `json:"ignore_eos,omitempty"`
	MaxTokens  bool   `json:"max_tokens,omitempty"`
	Logprobs   *int   `json:"logprobs,omitempty"`
	Continuous bool   `json:"continuous,omitempty"`
	Sampling   string `json:"sampling,omitempty"`
	Extra      string `json:"extra,omitempty"`
}

// Bodies are how to ask.
func (s *Sealed) Bodies() []protocol.Body {
	var out []protocol.Body
	for _, a := range s.Asks {
		out = append(out, protocol.Body{
			Model: a.Model, IgnoreEOS: a.IgnoreEOS, MaxTokens: a.MaxTokens, Logprobs: a.Logprobs, Continuous: a.Continuous,
			Sampling: raw(a.Sampling), Extra: raw(a.Extra),
		})
	}
	return out
}

// Check implements wire.Message.
func (s *Sealed) Check() error {
	if len(s.Tenants) > wire.MaxWorkers || len(s.Headers) > wire.MaxFiles {
		return errors.New("more tenants or headers than a run has")
	}
	return nil
}

// Pack is the settings without what is sealed, and that.
func Pack(c *config.Bench, bodies []protocol.Body) (settings json.RawMessage, sealed *Sealed, err error) {
	clean := c.Redacted()
	clean.Fleet, clean.Repeat, clean.Launch, clean.Sim = config.Fleet{}, config.Repeat{}, config.Launch{}, config.Sim{}
	clean.Given = maps.Clone(clean.Given)
	maps.DeleteFunc(clean.Given, func(flag string, _ config.Source) bool { return ours(flag) })
	settings, err = json.Marshal(clean)
	if err != nil {
		return nil, nil, fmt.Errorf("encode settings: %w", err)
	}
	sealed = seal(c)
	for _, b := range bodies {
		sealed.Asks = append(sealed.Asks, ask{b.Model, b.IgnoreEOS, b.MaxTokens, b.Logprobs, b.Continuous, string(b.Sampling), string(b.Extra)})
	}
	return settings, sealed, nil
}

// ours reports a flag that concerns the coordinator alone: who sends, and what server is started for it.
func ours(flag string) bool {
	for _, begin := range []string{"workers", "fleet", "repeat", "interleave", "launch", "sim"} {
		if flag == begin || strings.HasPrefix(flag, begin+"-") {
			return true
		}
	}
	return false
}

// Secret reports whether what is sealed must not be stored.
func Secret(c *config.Bench) bool { return len(c.Secrets()) > 0 || c.Target.APIKey != "" }

// WithoutKey is what is sealed less the API keys, for a connection that others can read. An error says that there are
// further secrets.
func WithoutKey(c *config.Bench, s *Sealed) (*Sealed, error) {
	bare := *c
	bare.Target.APIKey, bare.Tenants = "", slices.Clone(c.Tenants)
	open := *s
	open.APIKey, open.Tenants = "", slices.Clone(s.Tenants)
	for i := range bare.Tenants {
		bare.Tenants[i].APIKey, open.Tenants[i].APIKey = "", ""
	}
	if Secret(&bare) {
		return nil, errors.New("the settings hold secrets beside the API key, and the connection to the broker is not encrypted: use tls://")
	}
	return &open, nil
}

// TakeKey gives the settings the API key of this host where they have none.
func TakeKey(c *config.Bench, key string) error {
	if key == "" {
		return fmt.Errorf("the server's key is not sent over a connection that is not encrypted: use tls://, or set %s where the worker runs", KeyVariable)
	}
	c.Target.APIKey = secret.Value(key)
	for i := range c.Tenants {
		c.Tenants[i].APIKey = secret.Value(key)
	}
	return nil
}

func seal(c *config.Bench) *Sealed {
	s := &Sealed{
		APIKey: c.Target.APIKey.Reveal(), BaseURLs: c.Target.BaseURLs, Endpoint: c.Target.Endpoint,
		Extra: string(c.Body.Extra), ChatTemplate: string(c.Body.ChatTemplate),
	}
	for _, h := range c.Target.Headers {
		s.Headers = append(s.Headers, [2]string{h.Name, h.Value})
	}
	for i := range c.Tenants {
		s.Tenants = append(s.Tenants, *seal(c.Tenant(i)))
	}
	return s
}

// Unpack is the settings as they were packed.
func Unpack(settings json.RawMessage, s *Sealed) (*config.Bench, error) {
	var c config.Bench
	dec := json.NewDecoder(bytes.NewReader(settings))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("the job's settings: %w", err)
	}
	if len(s.Tenants) != len(c.Tenants) {
		return nil, fmt.Errorf("the job has settings of %d tenants and keys of %d", len(c.Tenants), len(s.Tenants))
	}
	c.Target.APIKey, c.Target.BaseURLs, c.Target.Endpoint = secret.Value(s.APIKey), s.BaseURLs, s.Endpoint
	c.Target.Headers = s.headers()
	c.Body.Extra, c.Body.ChatTemplate = raw(s.Extra), raw(s.ChatTemplate)
	for i := range c.Tenants {
		t, own := &c.Tenants[i], &s.Tenants[i]
		t.APIKey, t.Headers = secret.Value(own.APIKey), own.headers()
		t.Body.Extra, t.Body.ChatTemplate = raw(own.Extra), raw(own.ChatTemplate)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("the job's settings: %w", err)
	}
	return &c, nil
}

func (s *Sealed) headers() []config.Header {
	var out []config.Header
	for _, h := range s.Headers {
		out = append(out, config.Header{Name: h[0], Value: h[1]})
	}
	return out
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// place is a setting that may name a file or a folder.
type place struct {
	name string
	at   func(c *config.Bench) *string
	find func(name string, places tokenizer.Places) string // where it lies; empty: nowhere here
	want func(name string) bool                            // which files of a folder are needed
}

// places are the settings whose files travel. Folders of pictures and sounds do not: they may hold anything.
func places(c *config.Bench) []place {
	all := func(string) bool { return true }
	out := []place{
		{"ca-cert", func(c *config.Bench) *string { return &c.Target.CACert }, here, all},
		{"dataset-path", func(c *config.Bench) *string { return &c.Dataset.Path }, here, all},
		{"tokenizer", func(c *config.Bench) *string { return &c.Model.Tokenizer }, found, tokenizes},
	}
	for i := range c.Tenants {
		out = append(out,
			place{fmt.Sprintf("dataset-path-%d", i), func(c *config.Bench) *string { return &c.Tenants[i].Dataset.Path }, here, all},
			place{fmt.Sprintf("tokenizer-%d", i), func(c *config.Bench) *string { return &c.Tenants[i].Model.Tokenizer }, found, tokenizes})
	}
	return out
}

// here is a path that exists.
func here(name string, _ tokenizer.Places) string {
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// found is where a tokenizer lies, also in the hub's cache.
func found(name string, places tokenizer.Places) string {
	path, err := tokenizer.Find(name, places)
	if err != nil {
		return ""
	}
	return path
}

// tokenizes says which files of a model's folder a tokenizer may need: none of its weights.
func tokenizes(name string) bool {
	for _, end := range []string{".json", ".jinja", ".model", ".tiktoken", ".txt"} {
		if strings.HasSuffix(name, end) {
			return !strings.Contains(name, ".safetensors.index")
		}
	}
	return false
}

// Files hands the files that the settings name to the broker, and lists them for jobs.
func Files(ctx context.Context, l *link.Link, c *config.Bench, where tokenizer.Places) ([]wire.File, error) {
	var out []wire.File
	for _, p := range places(c) {
		name := *p.at(c)
		if name == "" || p.find(name, where) == "" {
			continue
		}
		files, err := p.files(p.find(name, where))
		if err != nil {
			return nil, err
		}
		for _, path := range files {
			f, err := link.Hash(path[0])
			if err != nil {
				return nil, err
			}
			if err := l.PutFile(ctx, f); err != nil {
				return nil, err
			}
			f.Path = p.name + "/" + path[1]
			out = append(out, f)
		}
	}
	return out, nil
}

// files are those of a path, each with the name it has below its setting.
func (p *place) files(path string) (out [][2]string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return [][2]string{{path, filepath.Base(path)}}, nil
	}
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() || !p.want(at) { // a hub's cache has links to files
			return nil //nolint:nilerr // what cannot be looked at cannot be read by the run either
		}
		rel, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		if out = append(out, [2]string{at, "folder/" + filepath.ToSlash(rel)}); len(out) > wire.MaxFiles {
			return fmt.Errorf("%s holds more than %d files: name a smaller folder", path, wire.MaxFiles)
		}
		return nil
	})
	return out, err
}

// Fetch gets the files of a job and points the settings at them. cache keeps them by content for later jobs; dir is the
// job's own.
func Fetch(ctx context.Context, l *link.Link, c *config.Bench, files []wire.File, cache, dir string) error {
	at := map[string]string{}
	for _, f := range files {
		name, rest, ok := strings.Cut(f.Path, "/")
		if !ok || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return fmt.Errorf("the job names a file %.80q: want one below a setting", f.Path)
		}
		have, err := l.GetFile(ctx, f, cache)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := settle(have, to); err != nil {
			return err
		}
		at[name] = to
		if strings.HasPrefix(rest, "folder/") {
			at[name] = filepath.Join(dir, name, "folder")
		}
	}
	for _, p := range places(c) {
		if to := at[p.name]; to != "" {
			*p.at(c) = to
		}
	}
	return nil
}

// settle gives a file of the cache its name for a job: a link, or a copy where the file system has none.
func settle(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keep a file of the job: %w", err)
	}
	_ = os.Remove(to) // of an earlier try
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := infile.ReadFile(from, infile.MaxDataset)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
