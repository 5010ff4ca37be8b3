package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPlacesFrom(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		want []string
	}{
		{"nothing set", nil, []string{"/home/u/.cache/huggingface/hub"}},
		{"all set", map[string]string{"HF_HUB_CACHE": "/c", "HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, []string{"/c", "/h/hub", "/x/huggingface/hub", "/home/u/.cache/huggingface/hub"}},
		{"twice the same", map[string]string{"HF_HUB_CACHE": "/h/hub", "HF_HOME": "/h"}, []string{"/h/hub", "/home/u/.cache/huggingface/hub"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := PlacesFrom(func(k string) string { return test.env[k] }, "/home/u")
			if !slices.Equal(p.Caches, test.want) {
				t.Errorf("got %q, want %q", p.Caches, test.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	cache := t.TempDir()
	write := func(name, data string) string {
		t.Helper()
		path := filepath.Join(cache, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("models--org--one/refs/main", "abc\n")
	write("models--org--one/refs/pr/1", "def")
	write("models--org--one/snapshots/abc/tokenizer.json", "{}")
	file := write("models--org--one/snapshots/def/tokenizer.json", "{}")
	write("models--gpt2/snapshots/only/tokenizer.json", "{}")
	write("models--org--bare/refs/main", "abc")
	write("models--org--bare/snapshots/abc/config.json", "{}")
	write("models--org--evil/refs/main", "../../..")
	empty := filepath.Join(cache, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, in, revision, want, err string }{
		{"by id", "org/one", "", "models--org--one/snapshots/abc", ""},
		{"by ref", "org/one", "pr/1", "models--org--one/snapshots/def", ""},
		{"by commit", "org/one", "def", "models--org--one/snapshots/def", ""},
		{"no refs", "gpt2", "", "models--gpt2/snapshots/only", ""},
		{"a file", file, "", "models--org--one/snapshots/def/tokenizer.json", ""},
		{"a folder", filepath.Dir(file), "", "models--org--one/snapshots/def", ""},
		{"unknown revision", "org/one", "v9", "", "revision v9 is not in the cache"},
		{"not there", "org/two", "", "", "models--org--two"},
		{"no tokenizer", "org/bare", "", "", "no tokenizer.json"},
		{"ref leads out", "org/evil", "", "", "does not name a snapshot"},
		{"folder without", empty, "", "", "no tokenizer.json"},
		{"not an id", "a/b/c.json", "", "", "a/b/c.json"},
		{"nothing", "", "", "", "no name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Find(test.in, Places{Caches: []string{filepath.Join(cache, "no-such"), cache}, Revision: test.revision})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error is %v, want one with %q", err, test.err)
				}
				return
			}
			if want := filepath.Join(cache, filepath.FromSlash(test.want)); err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

// TestFindModel: a model called like a file or folder that holds no tokenizer is still looked for in
// the cache, and is never read as one.
func TestFindModel(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	for name, data := range map[string]string{
		"truth": "not a tokenizer", "gpt2/notes.txt": "", "own/tokenizer.json": "{}", "own/o.tiktoken": "",
		"cache/models--gpt2/snapshots/only/tokenizer.json": "{}", "cache/models--truth/snapshots/only/tokenizer.json": "{}",
	} {
		path := filepath.Join(dir, name)
		if rest, ok := strings.CutPrefix(name, "cache/"); ok {
			path = filepath.Join(cache, rest)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, test := range []struct{ name, caches, want string }{
		{"truth", "", ""},
		{"truth", cache, filepath.Join(cache, "models--truth", "snapshots", "only")},
		{"gpt2", "", ""},
		{"gpt2", cache, filepath.Join(cache, "models--gpt2", "snapshots", "only")},
		{"own", cache, "own"},
		{"own/tokenizer.json", "", "own/tokenizer.json"},
		{"own/o.tiktoken", "", "own/o.tiktoken"},
		{"", cache, ""},
	} {
		got, err := FindModel(test.name, Places{Caches: []string{test.caches}})
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}
