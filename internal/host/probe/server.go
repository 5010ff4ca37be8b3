package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Server is what a server says it is.
type Server struct {
	Engine  string  `json:"engine,omitempty"` // vllm, sglang, llama.cpp, ollama ... where it shows
	Version string  `json:"version,omitempty"`
	Models  []Model `json:"models,omitempty"`
}

// Model is an entry of /v1/models.
type Model struct {
	ID      string `json:"id"`
	Root    string `json:"root,omitempty"`   // what it was loaded from
	Parent  string `json:"parent,omitempty"` // the base model of an adapter
	OwnedBy string `json:"owned_by,omitempty"`
	MaxLen  int    `json:"max_model_len,omitempty"` // prompt and output together
}

// maxAnswer bounds what is read of a small JSON answer.
const maxAnswer = 4 << 20

// versionPaths are where engines tell their version: vLLM and Ollama under their own names, SGLang and TGI among
// other things, llama.cpp as a build.
var versionPaths = []string{"/version", "/api/version", "/get_server_info", "/info", "/props"}

// ownLists are where engines without /v1/models tell what they serve.
var ownLists = []struct{ path, engine string }{
	{"/api/tags", "ollama"}, {"/get_model_info", "sglang"}, {"/model_info", "sglang"}, {"/info", "tgi"}, {"/props", "llama.cpp"},
}

// Identify asks the server at base, such as http://host:8000, who it is. header, which may be nil, adds the
// credentials. Not knowing the version is no error; not being able to list models is.
func Identify(ctx context.Context, do Do, base string, header http.Header) (Server, error) {
	base = strings.TrimSuffix(base, "/")
	status := 0
	ask := func(path string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return "", err
		}
		for name, values := range header {
			req.Header[name] = values
		}
		return get(func(r *http.Request) (*http.Response, error) {
			resp, err := do(r)
			if err == nil {
				status = resp.StatusCode
			}
			return resp, err
		}, req, maxAnswer)
	}
	s, err := list(ask)
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden        // it has a list, for others
	if err != nil && status != 0 && status < http.StatusInternalServerError && !refused { // a server that is there, with ways of its own
		s, err = ownList(ask, err)
	}
	if err != nil {
		return Server{}, err
	}
	for _, path := range versionPaths {
		body, err := ask(path)
		if err != nil {
			continue
		}
		if version, err := ParseVersion([]byte(body)); err == nil {
			s.Version = version
			if s.Engine == "" && path == "/api/version" {
				s.Engine = "ollama"
			}
			break
		}
	}
	return s, nil
}

// ErrPage says that a web page answered where an API was expected.
var ErrPage = errors.New("listing models: the answer is an HTML page, not the JSON of an API")

// page reports whether an answer is a web page.
func page(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), "<") }

// list asks for the models as OpenAI's API has it.
func list(ask func(path string) (string, error)) (Server, error) {
	body, err := ask("/v1/models")
	if err != nil {
		return Server{}, fmt.Errorf("listing models: %w", err)
	}
	if page(body) {
		return Server{}, ErrPage
	}
	models, err := ParseModels([]byte(body))
	if err != nil {
		return Server{}, err
	}
	return Server{Models: models, Engine: ownerEngine(models)}, nil
}

// ownList asks where single engines tell their model; why is what is wrong with the usual list.
func ownList(ask func(path string) (string, error), why error) (Server, error) {
	for _, own := range ownLists {
		body, err := ask(own.path)
		if err != nil {
			continue
		}
		if models := ParseOwnModels([]byte(body)); len(models) > 0 {
			return Server{Models: models, Engine: own.engine}, nil
		}
	}
	return Server{}, why
}

// ParseOwnModels finds the models in the answers of engines that have a way of their own to tell them: Ollama's
// tags, SGLang's and TGI's descriptions of themselves, llama.cpp's properties.
func ParseOwnModels(body []byte) []Model {
	var v struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
		Path   string `json:"model_path"`
		ID     string `json:"model_id"`
		Alias  string `json:"model_alias"`
		Length int    `json:"max_total_tokens"`
	}
	if json.Unmarshal(body, &v) != nil {
		return nil
	}
	var out []Model
	for _, m := range v.Models {
		if m.Name != "" {
			out = append(out, Model{ID: m.Name})
		}
	}
	root := v.ID
	if root == "" {
		root = v.Path
	}
	switch {
	case v.Alias != "":
		out = append(out, Model{ID: v.Alias})
	case root != "":
		out = append(out, Model{ID: root, Root: root, MaxLen: v.Length})
	}
	return out
}

// ParseModels reads the answer of /v1/models.
func ParseModels(body []byte) ([]Model, error) {
	var list struct {
		Data []struct {
			Model
			Meta struct {
				Context int `json:"n_ctx_train"` // llama.cpp's name for it
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading the list of models: %w", err)
	}
	var out []Model
	for _, m := range list.Data {
		if m.ID == "" {
			continue
		}
		if m.MaxLen == 0 {
			m.MaxLen = m.Meta.Context
		}
		out = append(out, m.Model)
	}
	if len(out) == 0 {
		return nil, errors.New("reading the list of models: the server lists none")
	}
	return out, nil
}

// ParseVersion finds the version in an answer of one of the places engines tell it.
func ParseVersion(body []byte) (string, error) {
	var v struct {
		Version any `json:"version"`
		Build   any `json:"build_info"` // llama.cpp
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("reading the server's version: %w", err)
	}
	for _, field := range []any{v.Version, v.Build} {
		if s, ok := field.(string); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s), nil
		}
	}
	return "", errors.New("reading the server's version: the answer has none")
}

func ownerEngine(models []Model) string {
	switch owner := models[0].OwnedBy; owner {
	case "vllm", "sglang":
		return owner
	case "llamacpp":
		return "llama.cpp"
	case "lmdeploy":
		return owner
	default:
		return ""
	}
}
