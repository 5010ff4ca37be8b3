package secret

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

const hidden = "s3cr3t-Value"

func TestArgsHide(t *testing.T) {
	cases := map[string][]string{
		"api key":             {"--api-key", hidden},
		"api key joined":      {"--api-key=" + hidden},
		"underscore":          {"--api_key", hidden},
		"abbreviated":         {"--api-k", hidden},
		"two keys":            {"--api-key", "a-key", hidden},
		"hub token":           {"--hf-token", hidden},
		"any token":           {"--registry-token", hidden},
		"header":              {"--header", "Authorization=Bearer " + hidden},
		"header joined":       {"--header=Authorization=" + hidden},
		"header abbreviated":  {"--head", "api-key=" + hidden},
		"header curl style":   {"--header", "Authorization: Bearer " + hidden},
		"header lower case":   {"--header", "x-api-key=" + hidden},
		"second header":       {"--header", "X-A=b", "Cookie=" + hidden},
		"header broken apart": {"--header", "Authorization=Bearer", hidden},
		"url userinfo":        {"--base-url", "http://me:" + hidden + "@host:8000"},
		"url with an at":      {"--base-url", "http://me:a@" + hidden + "@host:8000"},
		"url user only":       {"--base-url", "https://" + hidden + "@host/v1"},
		"url without scheme":  {"--url", "me:" + hidden + "@host:8000"},
		"two urls":            {"--base-url", "http://a,http://me:" + hidden + "@host"},
		"url query":           {"--endpoint", "/v1/completions?api_key=" + hidden + "&x=1"},
		"subscription key":    {"--base-url", "http://h/?subscription-key=" + hidden},
		"auth token":          {"--base-url", "http://h/?x=1&auth_token=" + hidden},
		"signature":           {"--base-url", "http://h/?X-Amz-Signature=" + hidden},
		"escaped name":        {"--base-url", "http://h/?api%5Fkey=" + hidden},
		"json":                {"--extra-body", `{"a":1,"api_key":"` + hidden + `"}`},
		"json nested":         {"--extra-body", `{"auth":{"token":"` + hidden + `"}}`},
		"json in list":        {"--extra-body", `{"x":[{"secret":"` + hidden + `"}]}`},
		"json camel case":     {"--extra-body", `{"accessToken":"` + hidden + `"}`},
		"json url":            {"--extra-body", `{"cb":"http://u:` + hidden + `@h"}`},
		"json broken":         {"--extra-body", `{"api_key": "` + hidden + `"`},
		"json python":         {"--extra-body", `{'api_key': '` + hidden + `'}`},
		"dotted":              {"--extra-body.api_key", hidden},
		"dotted joined":       {"--extra-body.auth.token=" + hidden},
		"extra inputs":        {"--extra-inputs", "api_key:" + hidden},
		"metadata":            {"--metadata", "a=b", "hf_token=" + hidden},
		"known prefix":        {"--metadata", "note=sk-abcdef0123456789" + hidden},
		"aws":                 {"--metadata", "note=AKIA0123456789ABCDEF", hidden[:0]},
		"variable":            {"env", "HF_TOKEN=" + hidden, "vllm", "serve"},
		"variable of docker":  {"docker", "run", "-e", "MY_KEY=" + hidden, "image"},
		"flag of launch":      {"--env", "DB_PASS=" + hidden},
		"command in a word":   {"--launch", "vllm serve m --api-key " + hidden + " --port {port}"},
		"joined in a word":    {"--launch", "vllm serve m --api-key=" + hidden},
		"quoted in a word":    {"--launch", `vllm serve m --api-key "` + hidden + `"`},
		"variable in a word":  {"sh", "-c", "WANDB_API_KEY=" + hidden + " exec vllm serve"},
		"curl in a word":      {"--stop", "curl -H 'Authorization: Bearer " + hidden + "' http://h"},
		"entropy":             {"--extra-body", `{"routing_key":"f00c0ffee1234` + hidden + `"}`},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, of := range map[string]func([]string) []string{"Args": Args, "Refer": Refer} {
				got := of(args)
				if text := strings.Join(got, " "); strings.Contains(text, hidden) || strings.Contains(text, "AKIA") {
					t.Errorf("%s(%q) = %q", kind, args, got)
				}
				if len(got) != len(args) || got[0] == Redacted {
					t.Errorf("%s(%q) = %q lost its shape", kind, args, got)
				}
				if again := of(got); !slices.Equal(again, got) {
					t.Errorf("second time %q, first %q", again, got)
				}
			}
			if got := Args(args); slices.Equal(got, args) {
				t.Errorf("nothing was hidden in %q", args)
			}
		})
	}
}

func TestArgsKeep(t *testing.T) {
	args := []string{
		"PWD=/home/me", "SSH_KEY=/home/me/.ssh/id", "bench", "serve", "--model", "org/model", "--tokenizer", "/m/tok", "--extra-body", `{"max_tokens": 5, "stop_token_ids": [1]}`,
		"--header", "X-Trace=abc", "--base-url", "http://h:8000", "--endpoint=/v1/completions", "--metadata", "tokenizer=llama",
		"--prompt-token-ids", "--goodput", "ttft:200", "tpot:50", "--temperature", "-1", "--request-rate", "2",
		"--max-num-batched-tokens", "8192", "--trust-remote-code", "--gsp-send-routing-key", "--kv-transfer-config", `{"kv_role":"kv_both"}`,
		"--launch", "vllm serve m --max-num-batched-tokens 8192 --port {port}", "--launch", "vllm serve --api-key ${VLLM_KEY}", "--api-key", "${VLLM_KEY}",
		"--header", "Authorization=Bearer ${VLLM_KEY}", "HF_TOKEN=$HF_TOKEN", "CUDA_VISIBLE_DEVICES=0,1", "--eos-token", "<eos>",
	}
	if got := Args(args); !slices.Equal(got, args) {
		for i := range got {
			if got[i] != args[i] {
				t.Errorf("Args changed %q to %q", args[i], got[i])
			}
		}
	}
	if got := Refer(args); !slices.Equal(got, args) {
		t.Errorf("Refer changed\n%q\nto\n%q", args, got)
	}
}

func TestReferNamesTheVariable(t *testing.T) {
	got := Refer([]string{"env", "HF_TOKEN=" + hidden, "vllm", "serve", "--api-key", hidden, "--x", "A=b", "sh", "-c", "NGC_API_KEY=" + hidden + " run --password '" + hidden + "'"})
	want := []string{"env", "HF_TOKEN=${HF_TOKEN}", "vllm", "serve", "--api-key", "${API_KEY}", "--x", "A=b", "sh", "-c", "NGC_API_KEY=${NGC_API_KEY} run --password '${PASSWORD}'"}
	// Everything after --api-key may be a key of it: vLLM takes several.
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := ReferEnv([]string{"HF_TOKEN=" + hidden, "NCCL_DEBUG=INFO", "X=${Y}"}); !slices.Equal(got, []string{"HF_TOKEN=${HF_TOKEN}", "NCCL_DEBUG=INFO", "X=${Y}"}) {
		t.Errorf("environment %q", got)
	}
}

func TestTextHides(t *testing.T) {
	for _, text := range []string{
		"dial http://me:" + hidden + "@host: refused",
		"Authorization: Bearer " + hidden,
		`{"authorization": "Token ` + hidden + `"}`,
		"GET /v1?subscription-key=" + hidden + " HTTP/1.1",
		"curl 'http://h/?a=1&auth_token=" + hidden + "'",
		"starting vllm serve m --api-key " + hidden + " --port 1",
		"args: Namespace(model='m', api_key=['" + hidden + "'], port=8000)",
		"args: ['--api-key', '" + hidden + "', '--port', '1']",
		`cmd ["--hf-token", "` + hidden + `"]`,
		"env HF_TOKEN=" + hidden + " and more",
		"MY_SERVICE_TOKEN=" + hidden,
		"api_key: " + hidden,
		"password='" + hidden + "'",
		"token 'hf_abcdefghijklmnopqrst" + hidden + "'",
		"session_token: 0a1b2c3d4e5f60718293" + hidden,
		"-----BEGIN RSA PRIVATE KEY-----\n" + hidden + "\n-----END RSA PRIVATE KEY-----",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc." + hidden,
	} {
		got := Text(text)
		if strings.Contains(got, hidden) {
			t.Errorf("Text(%q) = %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("second time %q, first %q", again, got)
		}
	}
}

func TestTextKeeps(t *testing.T) {
	for _, text := range []string{
		"Total generated tokens: 12800 at 3.5 ms per token",
		"mean_time_per_output_token: 12.5",
		"a suite has no key \"nam\": did you mean \"name\"?",
		"--api-key: the server wants one",
		"give --api-key KEY again",
		"--api-key needs a value",
		"journal line 3: key: missing",
		"the tokenizer: /models/x/tokenizer.json",
		"prefix caching=True, max_tokens=512, eos_token=<eos>",
		"http://127.0.0.1:8000/v1/models?limit=5&code=200",
		"run 20261115-120000-org_model-1a2b3c, key 001-request-rate=4",
		"vllm serve m --api-key ${API_KEY} --port 8000",
		"password: wrong",
		"exit code=1, api_key=None",
	} {
		if got := Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

func TestValuesAndScrub(t *testing.T) {
	values := Values([]string{"vllm", "serve", "--api-key", hidden, "--port", "1"}, []string{"HF_TOKEN=plain-words", "A_KEY=1", "NAME=x", "URL=http://me:pass-word@h"})
	for _, want := range []string{hidden, "plain-words", "pass-word"} {
		if !slices.Contains(values, want) {
			t.Errorf("%q lack %q", values, want)
		}
	}
	if got := Scrub("server said "+hidden+" and plain-words", values); got != "server said REDACTED and REDACTED" {
		t.Error(got)
	}
	shell := Values([]string{"sh", "-c", "HF_TOKEN=" + hidden + " vllm serve"}, nil)
	if !slices.Equal(shell, []string{hidden}) {
		t.Errorf("of a shell line %q", shell)
	}
}

func TestDocument(t *testing.T) {
	in := `{"name":"HF_TOKEN","value":"` + hidden + `", "list":[{"flag":"api-key","words":["` + hidden + `"]}],` +
		`"env":{"api_key":"` + hidden + `","max_tokens":"5"}, "key":"001-a","text":"--api-key ` + hidden + `","n":1.50, "keys":{"secret":["a-value",{"x":"y"}]},"e":"\u003c"}`
	want := `{"name":"HF_TOKEN","value":"REDACTED", "list":[{"flag":"api-key","words":["REDACTED"]}],` +
		`"env":{"api_key":"REDACTED","max_tokens":"5"}, "key":"001-a","text":"--api-key REDACTED","n":1.50, "keys":{"secret":["REDACTED",{"x":"y"}]},"e":"\u003c"}`
	if got := string(Document([]byte(in), nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestValueHidesItself(t *testing.T) {
	v := Value(hidden)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", any(v)), "%#v": fmt.Sprintf("%#v", v), "slog": slog.AnyValue(v).Resolve().String(),
	} {
		if strings.Contains(text, hidden) {
			t.Errorf("%s shows %s", name, text)
		}
	}
	if v.Reveal() != hidden {
		t.Error("the value is lost")
	}
}

// FuzzArgs holds that what follows a key flag, a secret header or a password never comes through,
// whatever stands around it, and that redacting twice changes nothing.
func FuzzArgs(f *testing.F) {
	f.Add("--model", "x", "--extra-body", `{"a":1}`)
	f.Add("--header", "X=y", "--api-key", "k")
	f.Add("--base-url", "http://a:b@c", "--header", "Authorization")
	f.Add("--extra-body", `{"api_key":{"a":1}}`, "--metadata", "bearer x")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		const canary = "C4NARY0123456789"
		args := []string{
			a, b, "--api-key", canary, c, "--header", "X-Api-Key=" + canary, "Authorization=Bearer " + canary, d,
			"--base-url", "http://u:" + canary + "@h", "--extra-body.token", canary, "--launch", "env HF_TOKEN=" + canary + " vllm --api-key " + canary,
		}
		once := Args(args)
		if len(once) != len(args) {
			t.Fatalf("%d words became %d", len(args), len(once))
		}
		if strings.Contains(strings.Join(once, " "), canary) && !strings.Contains(a+b+c+d, canary) {
			t.Fatalf("leaked: %q", once)
		}
		Refer(args)
		Values(args, args)
	})
}

// FuzzDocument holds that a document keeps its shape and that texts under secret names go.
func FuzzDocument(f *testing.F) {
	f.Add(`{"a":[1,"b",{"c":null}]}`)
	f.Add(`{"api_key":"x`)
	f.Fuzz(func(t *testing.T, inner string) {
		const canary = "C4NARY0123456789"
		in := fmt.Sprintf(`{"api_key":%q,"x":%q}`, canary, inner)
		if got := string(Document([]byte(in), nil)); strings.Contains(got, canary) && !strings.Contains(inner, canary) {
			t.Fatal(got)
		}
		Document([]byte(inner), nil)
	})
}
