package probe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseModels(t *testing.T) {
	cases := []struct {
		name, body string
		want       []Model
	}{
		{
			"vLLM with an adapter",
			`{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"/m","parent":null,"max_model_len":4096,"permission":[]},{"id":"lora","root":"/l","parent":"m","owned_by":"vllm","max_model_len":null}]}`,
			[]Model{{ID: "m", Root: "/m", OwnedBy: "vllm", MaxLen: 4096}, {ID: "lora", Root: "/l", Parent: "m", OwnedBy: "vllm"}},
		},
		{"llama.cpp", `{"data":[{"id":"q.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":32768}}]}`, []Model{{ID: "q.gguf", OwnedBy: "llamacpp", MaxLen: 32768}}},
		{"hosted", `{"data":[{"id":"a"},{"id":""},{"id":"b"}]}`, []Model{{ID: "a"}, {ID: "b"}}},
	}
	for _, c := range cases {
		got, err := ParseModels([]byte(c.body))
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, d)
		}
	}
	for _, bad := range []string{"", "[]", "{}", `{"data":[]}`, `{"data":[{}]}`, "<html>"} {
		if got, err := ParseModels([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for body, want := range map[string]string{
		`{"version":"0.10.1"}`:                         "0.10.1",
		`{"model_id":"x","version":" 3.1.0 "}`:         "3.1.0",
		`{"build_info":"b4000-abc","total_slots":1}`:   "b4000-abc",
		`{"version":null,"build_info":"b1"}`:           "b1",
		`{"version":{"major":1},"build_info":"b4001"}`: "b4001",
	} {
		if got, err := ParseVersion([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %q, %v", body, got, err)
		}
	}
	for _, bad := range []string{"", "{}", `{"version":7}`, `"0.10"`, `{"version":""}`} {
		if got, err := ParseVersion([]byte(bad)); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

func TestIdentify(t *testing.T) {
	cases := []struct {
		name  string
		pages map[string]string
		want  Server
	}{
		{"vllm", map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"vllm"}]}`, "/version": `{"version":"0.11.0"}`}, Server{Engine: "vllm", Version: "0.11.0", Models: []Model{{ID: "m", OwnedBy: "vllm"}}}},
		{"ollama", map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"library"}]}`, "/api/version": `{"version":"0.6.2"}`}, Server{Engine: "ollama", Version: "0.6.2", Models: []Model{{ID: "m", OwnedBy: "library"}}}},
		{"ollama of old", map[string]string{"/api/tags": `{"models":[{"name":"llama3:8b"},{"name":"b"}]}`, "/api/version": `{"version":"0.1.9"}`}, Server{Engine: "ollama", Version: "0.1.9", Models: []Model{{ID: "llama3:8b"}, {ID: "b"}}}},
		{"TGI", map[string]string{"/info": `{"model_id":"org/m","max_total_tokens":4096,"version":"2.0.4"}`}, Server{Engine: "tgi", Version: "2.0.4", Models: []Model{{ID: "org/m", Root: "org/m", MaxLen: 4096}}}},
		{"SGLang", map[string]string{"/get_model_info": `{"model_path":"/models/m","is_generation":true}`}, Server{Engine: "sglang", Models: []Model{{ID: "/models/m", Root: "/models/m"}}}},
		{"llama.cpp", map[string]string{"/props": `{"model_path":"/m.gguf","model_alias":"m","build_info":"b4000"}`}, Server{Engine: "llama.cpp", Version: "b4000", Models: []Model{{ID: "m"}}}},
		{"no version", map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`, "/version": "<html>"}, Server{Models: []Model{{ID: "m"}}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := c.pages[r.URL.Path]
				if !ok || r.Header.Get("Authorization") != "Bearer k" {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write([]byte(page))
			}))
			defer srv.Close()
			header := http.Header{"Authorization": {"Bearer k"}}
			got, err := Identify(t.Context(), client(t).Do, srv.URL+"/", header)
			if d := cmp.Diff(c.want, got); err != nil || d != "" {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
			if _, err := Identify(t.Context(), client(t).Do, srv.URL, nil); err == nil || !strings.Contains(err.Error(), "listing models") {
				t.Errorf("without credentials: %v", err)
			}
		})
	}
}

// A server that wants a key for its list is not one without a list: what it tells everybody would hide that.
func TestIdentifyRefused(t *testing.T) {
	for status, found := range map[int]bool{http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/get_model_info" {
				w.WriteHeader(status)
				return
			}
			_, _ = w.Write([]byte(`{"model_path":"org/m","is_generation":true}`))
		}))
		got, err := Identify(t.Context(), client(t).Do, srv.URL, nil)
		if (err == nil) != found || found && len(got.Models) != 1 {
			t.Errorf("HTTP %d for the list: %+v, %v", status, got, err)
		}
		srv.Close()
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"m","max_model_len":4096}]}`))
	f.Add([]byte(`{"version":"1"}`))
	f.Add([]byte(`{"data":[{"id":"m","meta":{"n_ctx_train":1}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		models, err := ParseModels(body)
		if (err == nil) != (len(models) > 0) {
			t.Fatalf("%d models with error %v", len(models), err)
		}
		for _, m := range append(models, ParseOwnModels(body)...) {
			if m.ID == "" {
				t.Fatal("a model without a name")
			}
		}
		if v, err := ParseVersion(body); (err == nil) != (v != "") {
			t.Fatalf("version %q with error %v", v, err)
		}
	})
}
