package parcel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spate/internal/fleet/broker"
	"spate/internal/fleet/link"
	"spate/internal/fleet/parcel"
	"spate/internal/fleet/wire"
	"spate/internal/send/protocol"
	"spate/internal/settings/config"
	"spate/internal/settings/flags"
	"spate/internal/token/tokenizer"
)

func parse(t *testing.T, args ...string) *config.Bench {
	t.Helper()
	r, err := flags.Parse(args, flags.Options{Env: func(string) (string, bool) { return "", false }, ReadFile: os.ReadFile})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return r.Bench
}

// TestSettingsTravel: a worker has the settings that the coordinator has, whatever kind of value is among them, and byte
// for byte where it matters. What concerns the coordinator alone stays with it.
func TestSettingsTravel(t *testing.T) {
	for _, args := range [][]string{
		{"--num-prompts", "10"},
		{"--request-rate", "5", "--burstiness", "0.5", "--max-concurrency", "7", "--duration", "30s"},
		{"--stages", "5s@10,30s@5-20"},
		{"--ramp-up-strategy", "linear", "--ramp-up-start-rps", "1", "--ramp-up-end-rps", "9"},
		{"--dataset-name", "random", "--random-input-len", "100", "--random-output-len", "20", "--random-range-ratio", "0.3"},
		{"--dataset-name", "sharegpt", "--dataset-path", "/x/a.json", "--sharegpt-output-len", "5"},
		{"--goodput", "ttft:500", "--slo", "p99_ttft<900ms", "--metric-percentiles", "50,99", "--extra-body", `{ "a" : 1, "b": "<&>" }`},
		{"--temperature", "0", "--top-p", "0.9", "--header", "X-A=b", "--lora-modules", "a", "b", "--metadata", "k=v"},
		{"--warmup-duration", "3s", "--request-rate", "inf", "--max-concurrency", "3"},
		{"--request-rate", "inf", "--burstiness", "inf", "--abort-on-error", "10", "--num-warmups", "2"},
		{"--api-key", "sk-abcdefghijklmnop1234", "--base-url", "http://u:hunter22secret@h:1/v1", "--header", "Authorization=Bearer abcdefgh12345678"},
	} {
		c := parse(t, append([]string{"--model", "m"}, args...)...)
		settings, sealed, err := parcel.Pack(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Secrets() {
			if strings.Contains(string(settings), s) {
				t.Errorf("%v: the settings hold %q", args, s)
			}
		}
		data, err := json.Marshal(sealed)
		if err != nil {
			t.Fatal(err)
		}
		var got parcel.Sealed
		if err := wire.Decode(data, &got); err != nil {
			t.Fatal(err)
		}
		back, err := parcel.Unpack(settings, &got)
		if err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if c.Dataset.RandomMM.LimitPerPrompt != nil { // blanks in it mean nothing
			var b bytes.Buffer
			if err := json.Compact(&b, c.Dataset.RandomMM.LimitPerPrompt); err != nil {
				t.Fatal(err)
			}
			c.Dataset.RandomMM.LimitPerPrompt = b.Bytes()
		}
		c.Repeat, c.Sim, c.Launch = config.Repeat{}, config.Sim{}, config.Launch{}
		if d := cmp.Diff(c, back, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
			t.Errorf("%v:\n%s", args, d)
		}
	}
}

// TestSecretsTravelApart from what is stored, and a run without any needs no question.
func TestSecretsTravelApart(t *testing.T) {
	if parcel.Secret(parse(t, "--model", "m")) {
		t.Error("settings without a secret have one")
	}
	for _, args := range [][]string{
		{"--api-key", "k"},
		{"--header", "Authorization=Bearer abcdefgh12345678"},
		{"--base-url", "http://u:hunter22secret@h:1/v1"},
		{"--extra-body", `{"api_key":"abcdefgh12345678"}`},
	} {
		if !parcel.Secret(parse(t, append([]string{"--model", "m"}, args...)...)) {
			t.Errorf("%v: no secret", args)
		}
	}
}

// TestKeysOfWorkersAreTheirOwn where the connection can be read by others; other secrets do not travel at all then.
func TestKeysOfWorkersAreTheirOwn(t *testing.T) {
	c := parse(t, "--model", "m", "--api-key", "sk-abcdefghijklmnop1234")
	settings, sealed, err := parcel.Pack(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	open, err := parcel.WithoutKey(c, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(open); err != nil || strings.Contains(string(data), "sk-abc") || sealed.APIKey == "" {
		t.Errorf("%s, %v", data, err)
	}
	back, err := parcel.Unpack(settings, open)
	if err != nil {
		t.Fatal(err)
	}
	if err := parcel.TakeKey(back, ""); err == nil || !strings.Contains(err.Error(), parcel.KeyVariable) {
		t.Errorf("no key: %v", err)
	}
	if err := parcel.TakeKey(back, "own"); err != nil || back.Target.APIKey.Reveal() != "own" {
		t.Errorf("key %q, %v", back.Target.APIKey.Reveal(), err)
	}
	c = parse(t, "--model", "m", "--api-key", "sk-abcdefghijklmnop1234", "--header", "Authorization=Bearer abcdefgh12345678")
	if _, err := parcel.WithoutKey(c, sealed); err == nil {
		t.Error("a header with a secret travels in the open")
	}
}

// TestTheCoordinatorsFlagsStay: a worker starts no server and no workers of its own.
func TestTheCoordinatorsFlagsStay(t *testing.T) {
	c := parse(t, "--sim", "--workers", "3", "--fleet", "nats://user:hunter22secret@h:1", "--repeat", "2", "--num-prompts", "5")
	settings, sealed, err := parcel.Pack(c, []protocol.Body{{Model: "m", Extra: json.RawMessage(`{ "a":1}`)}, {}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(settings), "hunter22secret") {
		t.Error("the broker's password is in the settings")
	}
	back, err := parcel.Unpack(settings, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if back.Fleet.On() || back.Fleet.Join != "" || back.Sim.Enabled || back.Repeat.Times != 0 || back.Has("workers") || back.Has("sim") {
		t.Errorf("fleet %+v, sim %+v, repeat %+v", back.Fleet, back.Sim, back.Repeat)
	}
	if c.Fleet.Workers != 3 || !c.Has("workers") {
		t.Error("packing changed the coordinator's own settings")
	}
	bodies := sealed.Bodies()
	if len(bodies) != 2 || string(bodies[0].Extra) != `{ "a":1}` || bodies[1].Extra != nil || bodies[1].Sampling != nil {
		t.Errorf("bodies %+v", bodies)
	}
}

// TestFilesTravel to another host: a dataset, a folder of them, a tokenizer without the weights beside it.
func TestFilesTravel(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "store"), Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, err := link.Dial(link.Options{Join: link.Join{URL: b.URL(), Token: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	write := func(name, text string) string {
		path := filepath.Join(dir, "home", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data := write("a.jsonl", "{}\n")
	write("model/tokenizer.json", "{}")
	write("model/tokenizer_config.json", "{ }")
	write("model/model-1.safetensors", "weights")
	for _, c := range []struct {
		path string
		want map[string]string
	}{
		{data, map[string]string{"": "{}\n"}},
		{filepath.Join(dir, "home", "model"), map[string]string{"tokenizer.json": "{}", "model-1.safetensors": "weights"}}, // a folder of a dataset has all
	} {
		cfg := parse(t, "--model", "m", "--dataset-name", "custom", "--dataset-path", data, "--tokenizer", filepath.Join(dir, "home", "model"))
		cfg.Dataset.Path = c.path
		files, err := parcel.Files(ctx, l, cfg, tokenizer.Places{})
		if err != nil {
			t.Fatal(err)
		}
		there := filepath.Join(t.TempDir(), "job")
		if err := parcel.Fetch(ctx, l, cfg, files, filepath.Join(dir, "cache"), there); err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if got, err := os.ReadFile(filepath.Join(cfg.Dataset.Path, name)); err != nil || string(got) != want || !strings.HasPrefix(cfg.Dataset.Path, there) {
				t.Errorf("%s of %s: %q, %v", name, cfg.Dataset.Path, got, err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(cfg.Model.Tokenizer, "tokenizer_config.json")); err != nil || string(got) != "{ }" {
			t.Errorf("the tokenizer %s: %q, %v", cfg.Model.Tokenizer, got, err)
		}
		if _, err := os.Stat(filepath.Join(cfg.Model.Tokenizer, "model-1.safetensors")); err == nil {
			t.Error("a model's weights travelled")
		}
	}
	cfg := parse(t, "--model", "m")
	for _, path := range []string{"../x", "dataset-path/../../x", "/etc/passwd", "x"} {
		if err := parcel.Fetch(ctx, l, cfg, []wire.File{{Path: path}}, dir, dir); err == nil || !strings.Contains(err.Error(), "below a setting") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
