package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/safe/infile"
)

// Places is where Find looks for a model that is not a path.
type Places struct {
	// Caches are hub cache folders, those with models--org--name in them, the
	// first to look in first.
	Caches []string
	// Revision is a branch, tag or commit; "" means main.
	Revision string
}

// PlacesFrom lists the hub caches that the Hugging Face tools would use, from
// the environment and the home folder. getenv is os.Getenv.
func PlacesFrom(getenv func(string) string, home string) Places {
	var p Places
	add := func(dir string, more ...string) {
		if dir == "" {
			return
		}
		dir = filepath.Join(append([]string{dir}, more...)...)
		if !slices.Contains(p.Caches, dir) {
			p.Caches = append(p.Caches, dir)
		}
	}
	add(getenv("HF_HUB_CACHE"))
	add(getenv("HUGGINGFACE_HUB_CACHE"))
	add(getenv("HF_HOME"), "hub")
	add(getenv("XDG_CACHE_HOME"), "huggingface", "hub")
	add(home, ".cache", "huggingface", "hub")
	return p
}

// Find is the path of a tokenizer for Load: name itself where it is a file or a
// folder, else the folder that a hub cache has for the model of that name.
// Nothing is downloaded.
func Find(name string, places Places) (string, error) {
	if name == "" {
		return "", errors.New("finding tokenizer: no name given")
	}
	info, err := os.Stat(name)
	if err == nil {
		if info.IsDir() {
			if _, err := tokenizerFile(name); err != nil {
				return "", fmt.Errorf("finding tokenizer: %w", err)
			}
		}
		return name, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("finding tokenizer: %w", err)
	}
	return inCaches(name, places)
}

// FindModel is Find for the name of a model, which may by chance be the name of any file in the
// working folder: a path is taken only where it is a folder with a tokenizer in it, or a file that is
// called as tokenizers are.
func FindModel(name string, places Places) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
	case info.IsDir():
		if _, err := tokenizerFile(name); err == nil {
			return name, nil
		}
	case filepath.Base(name) == "tokenizer.json" || filepath.Ext(name) == ".tiktoken":
		return name, nil
	}
	return inCaches(name, places)
}

// FindServed is Find for a name that a server gave, which is never a path: it must not make spate read a file.
func FindServed(name string, places Places) (string, error) { return inCaches(name, places) }

// inCaches is the folder that a hub cache has for the model of that name.
func inCaches(name string, places Places) (string, error) {
	looked := []string{name}
	if !hubID(name) {
		return "", notFound(name, looked, "a path, or a model such as org/name that is in the local hub cache")
	}
	for _, cache := range places.Caches {
		repo := filepath.Join(cache, "models--"+strings.ReplaceAll(name, "/", "--"))
		dir, err := snapshot(repo, places.Revision)
		if err == nil {
			_, err = tokenizerFile(dir)
		}
		if err == nil {
			return dir, nil
		}
		where := repo
		if !errors.Is(err, fs.ErrNotExist) {
			where += " (" + err.Error() + ")"
		}
		looked = append(looked, where)
	}
	return "", notFound(name, looked, "download the model's tokenizer files, or give the path of a tokenizer.json")
}

func notFound(name string, looked []string, hint string) error {
	return absent{fmt.Errorf("tokenizer %q not found; looked at:\n  %s\nhint: %s", name, strings.Join(looked, "\n  "), hint)}
}

// absent is an error about a tokenizer that is not there.
type absent struct{ error }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }

// hubID tells whether name can be the id of a model: name or org/name.
func hubID(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return false
	}
	for _, p := range parts {
		if p == "" || strings.HasPrefix(p, ".") || strings.ContainsAny(p, `\:`) {
			return false
		}
	}
	return true
}

// snapshot is the folder of a revision in a cached repository.
func snapshot(repo, revision string) (string, error) {
	if revision == "" {
		revision = "main"
	}
	if !filepath.IsLocal(revision) {
		return "", fmt.Errorf("revision %q is not a name", revision)
	}
	snapshots := filepath.Join(repo, "snapshots")
	if commit, err := infile.ReadFile(filepath.Join(repo, "refs", filepath.FromSlash(revision)), infile.MaxSettings); err == nil {
		if name := strings.TrimSpace(string(commit)); filepath.IsLocal(name) {
			return filepath.Join(snapshots, name), nil
		}
		return "", fmt.Errorf("refs/%s does not name a snapshot", revision)
	}
	dir := filepath.Join(snapshots, revision)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	have, err := os.ReadDir(snapshots)
	if err != nil {
		return "", err
	}
	// A cache that was filled by hand has no refs; one snapshot is no riddle.
	if revision == "main" && len(have) == 1 {
		return filepath.Join(snapshots, have[0].Name()), nil
	}
	return "", fmt.Errorf("revision %s is not in the cache", revision)
}
