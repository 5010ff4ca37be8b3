package workload

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cacheOf writes files below a folder of their own; a text that begins with "-> " makes a link.
func cacheOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if to, link := strings.CutPrefix(text, "-> "); err == nil && link {
			err = os.Symlink(to, name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func fromDisk(name string) (File, error) { return os.Open(name) }

// TestHubCaches: a dataset is found by its id where the Hugging Face tools keep it, in either form.
func TestHubCaches(t *testing.T) {
	row := func(text string) string { return `{"turns": ["` + text + `"]}` }
	home := cacheOf(t, map[string]string{
		"hub/datasets--philschmid--mt-bench/refs/main":                            "abc\n",
		"hub/datasets--philschmid--mt-bench/blobs/1":                              row("from the hub"),
		"hub/datasets--philschmid--mt-bench/snapshots/abc/data/train.jsonl":       "-> ../../../blobs/1",
		"hub/datasets--philschmid--mt-bench/snapshots/old/data/train.jsonl":       row("an old one"),
		"hub/datasets--by--hand/snapshots/only/train.jsonl":                       `{"prompt": "by hand"}`,
		"hub/datasets--a--script/refs/main":                                       "m",
		"hub/datasets--a--script/snapshots/m/script.py":                           "print()",
		"hub/datasets--a--script/refs/refs/convert/parquet":                       "p",
		"hub/datasets--a--script/snapshots/p/default/train.jsonl":                 `{"prompt": "converted"}`,
		"hub/datasets--evil--one/refs/main":                                       "../../../../secret",
		"datasets/openai___gsm8k/main/0.0.0/h1/gsm8k-test.jsonl":                  `{"question": "before"}`,
		"datasets/openai___gsm8k/main/0.0.0/h2/gsm8k-test.jsonl":                  `{"question": "newest"}`,
		"datasets/openai___gsm8k/main/0.0.0/h3.incomplete/gsm8k-test.jsonl":       `{"question": "half"}`,
		"datasets/Aeala___share_gpt_vicuna_unfiltered/default/0.0.0/h/train.json": `[{"conversations": [{"value": "one of the first turns"}, {"value": "and its answer is long"}]}]`,
		"datasets/two___subsets/a/0.0.0/h/train.jsonl":                            `{"prompt": "a"}`,
		"datasets/two___subsets/b/0.0.0/h/train.jsonl":                            `{"prompt": "b"}`,
	})
	for i, name := range []string{"h1", "h2", "h3.incomplete"} {
		when := time.Unix(int64(1_700_000_000+i), 0)
		if err := os.Chtimes(filepath.Join(home, "datasets", "openai___gsm8k", "main", "0.0.0", name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	var places HF
	places.Look(func(name string) string { return map[string]string{"HF_HOME": home}[name] }, "/nowhere")
	for _, c := range []struct{ id, subset, want string }{
		{"philschmid/mt-bench", "", "from the hub"},
		{"by/hand", "", "by hand"},
		{"a/script", "", "converted"},
		{"openai/gsm8k", "", "newest"},
		{"openai/gsm8k", "main", "newest"},
		{"Aeala/ShareGPT_Vicuna_unfiltered", "", "one of the first turns"},
		{"two/subsets", "b", "b"},
	} {
		cfg := Config{Dataset: "hf", Path: c.id, Open: fromDisk, N: 1, HF: places, Output: 3}
		cfg.HF.Subset = c.subset
		got, notes := requests(t, cfg, nil, nil)
		if len(got) != 1 || got[0].Prompt.Text != c.want || !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, c.id+" is read from "+home) }) {
			t.Errorf("%s %s: %+v, notes %q; want %q", c.id, c.subset, got, notes, c.want)
		}
	}
	for _, c := range []struct {
		id, subset string
		want       []string
	}{
		{"likaixin/InstructCoder", "", []string{
			"is not on this machine", home + "/hub/datasets--likaixin--InstructCoder", home + "/datasets/likaixin___InstructCoder",
			"hf download --repo-type dataset likaixin/InstructCoder\nputs it into " + home + "/hub,", "--dataset-path FOLDER --hf-name likaixin/InstructCoder",
		}},
		{"evil/one", "", []string{"is not on this machine"}},
		{"two/subsets", "", []string{"has the subsets a, b: choose one with --hf-subset"}},
		{"two/subsets", "c", []string{`has no subset "c": it has a, b`}},
		{"gone/file.jsonl", "", []string{"no such file"}},
	} {
		cfg := Config{Dataset: "hf", Path: c.id, Open: fromDisk, N: 1, HF: places}
		cfg.HF.Subset = c.subset
		_, err := New(cfg, nil, nil)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want it to say %q", c.id, c.subset, err, want)
			}
		}
	}
}

func TestHubPlaces(t *testing.T) {
	var h HF
	env := map[string]string{"HF_DATASETS_CACHE": "/d", "HF_HUB_CACHE": "/c", "HF_HOME": "/h"}
	h.Look(func(name string) string { return env[name] }, "/home/u")
	if want := []string{"/d", "/h/datasets", "/home/u/.cache/huggingface/datasets"}; !slices.Equal(h.Tables, want) {
		t.Errorf("tables in %q, want %q", h.Tables, want)
	}
	if want := []string{"/c", "/h/hub", "/home/u/.cache/huggingface/hub"}; !slices.Equal(h.Hubs, want) {
		t.Errorf("hubs in %q, want %q", h.Hubs, want)
	}
}
