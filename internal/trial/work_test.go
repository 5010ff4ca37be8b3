package trial

import (
	"os"
	"path/filepath"
	"testing"

	"spate/internal/settings/flags"
)

// TestPlaces: every attempt at a run has its own folder and its own salt, unless the user gave one.
func TestPlaces(t *testing.T) {
	w, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	seen := map[string]bool{}
	for i, key := range []string{"a", "a", "b"} {
		r, err := flags.Parse(nil, flags.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Place(key, r.Bench, Salt); err != nil {
			t.Fatal(err)
		}
		if salt := r.Bench.Dataset.Salt; len(salt) != 8 || seen[salt] {
			t.Errorf("salt %q", salt)
		}
		seen[r.Bench.Dataset.Salt] = true
		if want := filepath.Join(w.Dir, "runs", key); r.Bench.Output.OutputDir != want {
			t.Errorf("the folder is %s, want %s", r.Bench.Output.OutputDir, want)
		}
		if err := os.Mkdir(r.Bench.Output.OutputDir, 0o700); err != nil { // what was there before has been set aside
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	for _, c := range []struct {
		args []string
		how  Cache
		want string
	}{{[]string{"--salt", "mine"}, Salt, "mine"}, {nil, Keep, ""}, {nil, Reset, ""}} {
		r, err := flags.Parse(c.args, flags.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Place("c", r.Bench, c.how); err != nil || r.Bench.Dataset.Salt != c.want {
			t.Errorf("%v, cache %s: salt %q, %v; want %q", c.args, c.how, r.Bench.Dataset.Salt, err, c.want)
		}
	}
}
