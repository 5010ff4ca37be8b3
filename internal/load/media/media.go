// Package media knows the bytes of pictures, videos and sounds: it makes them, tells their kind and length, and reads
// them from a column of a dataset. It also opens the files that rows of a dataset name. A dataset may come from
// anywhere, and what a row names is sent to a server, so only files within the dataset's own folder, or a folder the
// user names, are opened: no path and no link leads out of them. Package load hands the opener to workload.
package media

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Largest is how large a file may be, in bytes.
const Largest = 512 << 20

// Flag is how a user names further folders.
const Flag = "--allowed-local-media-path"

// Folders are where media may lie.
type Folders struct {
	home string // of the dataset: where relative names begin
	all  []string
}

// New is the folder of a dataset, which is a file or a folder, and those that a user names, with commas between them.
func New(dataset, named string) Folders {
	home := dataset
	if info, err := os.Stat(dataset); err != nil || !info.IsDir() {
		home = filepath.Dir(dataset)
	}
	f := Folders{home: absolute(home)}
	f.all = []string{f.home}
	if up := filepath.Dir(f.home); filepath.Base(up) == "snapshots" {
		f.all = append(f.all, filepath.Dir(up)) // the cache of Hugging Face: a snapshot is links to files beside it
	}
	for dir := range strings.SplitSeq(named, ",") {
		if dir = strings.TrimSpace(dir); dir != "" {
			f.all = append(f.all, absolute(dir))
		}
	}
	return f
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// Open opens a file of media, by a name as a row has it. Relative names begin at the dataset's folder, then at the
// others.
func (f Folders) Open(name string) (*os.File, error) {
	name = filepath.FromSlash(strings.TrimPrefix(name, "file://"))
	paths := []string{name}
	if !filepath.IsAbs(name) {
		paths = nil
		for _, dir := range f.all {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	outside := true
	for _, path := range paths {
		for _, dir := range f.all {
			file, err := within(dir, path)
			switch {
			case err == nil:
				return file, nil
			case errors.Is(err, errOutside):
			case errors.Is(err, fs.ErrNotExist):
				outside = false
			default:
				return nil, fmt.Errorf("media file %q: %w", name, err)
			}
		}
	}
	if outside {
		return nil, fmt.Errorf("media file %q lies outside %s: it is not sent; %s DIR allows another folder", name, strings.Join(f.all, " and "), Flag)
	}
	return nil, fmt.Errorf("media file %q is not in %s; %s DIR allows another folder", name, strings.Join(f.all, " or in "), Flag)
}

var errOutside = errors.New("outside of the folder")

// within opens a regular file that lies within a folder, whatever links lie on the way.
func within(dir, path string) (*os.File, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, errOutside
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()                         // only looked into
	file, err := root.OpenFile(rel, os.O_RDONLY|nonBlocking, 0) // a pipe would wait for its other end
	if err != nil {
		if strings.Contains(err.Error(), "escapes") { // os has no name for it: a link leads out
			return nil, errOutside
		}
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > Largest:
		err = fmt.Errorf("it has %d bytes, and media files may have %d", info.Size(), int64(Largest))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
