package store

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"spate/internal/nearest"
	"spate/internal/safe/secret"
)

// None is the place of no store: SPATE_STORE=none keeps nothing.
const None = "none"

// fileName is the store's file in a folder.
const fileName = "spate.db"

// Locate says where the store is: what the user said (a folder, a file, a postgres:// URL), else
// SPATE_STORE, else Default.
func Locate(said string, getenv func(string) string) (string, error) {
	if said != "" {
		return said, nil
	}
	if v := getenv("SPATE_STORE"); v != "" {
		return v, nil
	}
	return Default(getenv)
}

// Default is the user's own store: $XDG_DATA_HOME/spate, else ~/.local/share/spate.
func Default(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // a relative one is to be ignored, says the standard
		return filepath.Join(dir, "spate", fileName), nil
	}
	for _, home := range []string{getenv("HOME"), getenv("USERPROFILE")} {
		if home != "" {
			return filepath.Join(home, ".local", "share", "spate", fileName), nil
		}
	}
	return "", errors.New("there is no home folder for the store: name a place with --store or SPATE_STORE")
}

// Exists reports whether there is a store to open at a place: only files can be missing. What is wrong
// with a place otherwise Open says.
func Exists(where string) bool {
	p, err := parsePlace(where)
	if err != nil || p.postgres {
		return true
	}
	_, err = os.Stat(p.path)
	return err == nil
}

// place is a parsed one.
type place struct {
	postgres bool
	url      string
	path     string
	shown    string
}

func parsePlace(where string) (place, error) {
	scheme, rest, isURL := strings.Cut(where, "://")
	switch {
	case where == "" || where == None:
		return place{}, fmt.Errorf("%q is not a place for a store: name a folder, a file or a postgres:// URL", where)
	case !isURL:
		path := storeFile(where)
		return place{path: path, shown: path}, nil
	case scheme == "postgres" || scheme == "postgresql":
		u, err := url.Parse(where)
		if err != nil {
			return place{}, errors.New("the store's URL cannot be read: postgres://user:password@host:5432/database")
		}
		return place{postgres: true, url: where, shown: shownURL(*u)}, nil
	case scheme == "sqlite" || scheme == "file":
		path := storeFile(rest)
		return place{path: path, shown: path}, nil
	}
	return place{}, fmt.Errorf("a store cannot be at %s://: name a folder, a file or a postgres:// URL%s", scheme, nearest.Hint(scheme, []string{"postgres", "postgresql", "sqlite"}))
}

// shownURL is a URL that may be printed: its password may also stand among its settings.
func shownURL(u url.URL) string {
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "pass") {
			q.Set(name, secret.Redacted)
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// storeFile is the file meant by a path: the path itself, or the file in the folder it names.
func storeFile(path string) string {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return path
	case err == nil, strings.HasSuffix(path, "/"), filepath.Ext(path) == "":
		return filepath.Join(path, fileName)
	}
	return path
}
