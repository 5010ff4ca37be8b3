package workload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"spate/internal/load/rows"
	"spate/internal/safe/infile"
	"spate/internal/token/tokenizer"
)

// Look fills in where the Hugging Face tools keep what they downloaded, from the environment and the home folder.
func (h *HF) Look(getenv func(string) string, home string) {
	h.Hubs = tokenizer.PlacesFrom(getenv, home).Caches
	add := func(dir string, more ...string) {
		if dir == "" {
			return
		}
		if dir = path.Join(append([]string{dir}, more...)...); !slices.Contains(h.Tables, dir) {
			h.Tables = append(h.Tables, dir)
		}
	}
	add(getenv("HF_DATASETS_CACHE"))
	add(getenv("HF_HOME"), "datasets")
	add(getenv("XDG_CACHE_HOME"), "huggingface", "datasets")
	add(home, ".cache", "huggingface", "datasets")
}

// locate turns the id of a dataset on the hub into the folder that holds its files. A path that exists stays.
func (c *Config) locate() error {
	if file, err := c.Open(c.Path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			_ = file.Close() // it was only looked for
		}
		return nil
	}
	if !hubName(c.Path) {
		return nil // opening it says what is wrong
	}
	looked := []string{c.Path}
	for _, hub := range c.HF.Hubs {
		repo := path.Join(hub, "datasets--"+strings.ReplaceAll(c.Path, "/", "--"))
		for _, revision := range []string{"main", "refs/convert/parquet"} { // the second is the hub's own conversion
			if dir, ok := c.snapshot(repo, revision); ok {
				return c.use(dir)
			}
		}
		looked = append(looked, repo)
	}
	for _, cache := range c.HF.Tables {
		dir, err := c.table(cache)
		if err != nil {
			return err
		}
		if dir != "" {
			return c.use(dir)
		}
		looked = append(looked, path.Join(cache, strings.ReplaceAll(c.Path, "/", "___")))
	}
	where := "the Hugging Face cache"
	if len(c.HF.Hubs) > 0 {
		where = c.HF.Hubs[0]
	}
	return infile.Missing("%s is not on this machine; looked at:\n  %s\nspate downloads nothing. Either\n  hf download --repo-type dataset %s\nputs it into %s, where it is found, "+
		"or copy its files into a folder and give that: --dataset-path FOLDER --hf-name %s", c.Path, strings.Join(looked, "\n  "), c.Path, where, c.Path)
}

// hubName tells whether a path can be the id of a dataset: name or org/name.
func hubName(p string) bool {
	parts := strings.Split(p, "/")
	return len(parts) <= 2 && !slices.ContainsFunc(parts, func(s string) bool {
		return s == "" || strings.HasPrefix(s, ".") || strings.ContainsAny(s, `\:`) || slices.Contains(rows.Endings, path.Ext(s))
	})
}

// use reads a folder of a cache in the place of the id, which still says how rows are read.
func (c *Config) use(dir string) error {
	if c.HF.Name == "" {
		c.HF.Name = c.Path
	}
	c.Path = dir
	return nil
}

// snapshot is the folder of a revision in a repository of the hub's cache, if it holds rows.
func (c *Config) snapshot(repo, revision string) (string, bool) {
	all := path.Join(repo, "snapshots")
	var dirs []string
	if commit, ok := c.small(path.Join(repo, "refs", revision)); ok && commit != "" && !strings.ContainsAny(commit, `/\`) && !strings.HasPrefix(commit, ".") {
		dirs = []string{commit}
	} else if have := c.folders(all); revision == "main" && len(have) == 1 { // a cache that was filled by hand has no refs
		dirs = []string{have[0].Name()}
	}
	for _, d := range dirs {
		dir := path.Join(all, d)
		if files, err := rows.Below(c.Open, dir); err == nil && len(files) > 0 {
			return dir, true
		}
	}
	return "", false
}

// table is the folder the datasets library converted the dataset into: name/subset/version/hash. Where there
// are several versions, the newest is taken.
func (c *Config) table(cache string) (string, error) {
	dir := ""
	for _, e := range c.folders(cache) {
		if sameDataset(e.Name(), c.Path) {
			dir = path.Join(cache, e.Name())
		}
	}
	if dir == "" {
		return "", nil
	}
	var subsets []string
	for _, e := range c.folders(dir) {
		subsets = append(subsets, e.Name())
	}
	pick := c.HF.Subset
	switch {
	case pick != "" && slices.Contains(subsets, pick):
	case pick != "":
		return "", fmt.Errorf("%s has no subset %q: it has %s", dir, pick, strings.Join(subsets, ", "))
	case len(subsets) == 1:
		pick = subsets[0]
	case slices.Contains(subsets, "default"):
		pick = "default"
	default:
		return "", fmt.Errorf("%s has the subsets %s: choose one with --hf-subset", dir, strings.Join(subsets, ", "))
	}
	dir = path.Join(dir, pick)
	for range 2 { // version, then hash
		newest := c.newest(dir)
		if newest == "" {
			return "", nil
		}
		dir = path.Join(dir, newest)
	}
	c.HF.Subset = "" // the folder is the subset's
	return dir, nil
}

// sameDataset tells whether a folder of the datasets library is an id's: it writes org___name, with names in
// lower case and underscores before their capitals.
func sameDataset(folder, id string) bool {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	org, name, ok := strings.Cut(folder, "___")
	if !ok {
		org, name = "", folder
	}
	wantOrg, want, ok := strings.Cut(id, "/")
	if !ok {
		wantOrg, want = "", id
	}
	return plain(org) == plain(wantOrg) && plain(name) == plain(want)
}

// newest is the folder that was changed last, the last by name among equals.
func (c *Config) newest(dir string) string {
	name, when := "", time.Time{}
	for _, e := range c.folders(dir) {
		info, err := e.Info()
		if err != nil || strings.Contains(e.Name(), ".incomplete") {
			continue
		}
		if name == "" || !info.ModTime().Before(when) {
			name, when = e.Name(), info.ModTime()
		}
	}
	return name
}

// folders lists the folders in a folder by name; none where there is none.
func (c *Config) folders(dir string) []fs.DirEntry {
	file, err := c.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	list, ok := file.(fs.ReadDirFile)
	if !ok {
		return nil
	}
	entries, err := list.ReadDir(-1)
	if err != nil {
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || strings.HasPrefix(e.Name(), ".") })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// small is the text of a short file.
func (c *Config) small(name string) (string, bool) {
	file, err := c.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, 256))
	return strings.TrimSpace(string(data)), err == nil
}
