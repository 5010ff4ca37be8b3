package compare

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"spate/internal/safe/escape"
)

// NoiseFile is where the noise of equal runs is kept.
type NoiseFile struct {
	Path     string // empty: there is no place for it
	ReadFile func(name string) ([]byte, error)
}

// NoiseOf is the file at the place said, else in the user's state folder.
func NoiseOf(said string, getenv func(string) string, read func(name string) ([]byte, error)) *NoiseFile {
	return &NoiseFile{Path: NoisePath(said, getenv), ReadFile: read}
}

// NoisePath is the place said, else one in the user's state folder; empty: there is none.
func NoisePath(said string, getenv func(string) string) string {
	if said != "" {
		return said
	}
	root := getenv("XDG_STATE_HOME")
	if root == "" {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		root = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(root, "spate", "noise.json")
}

// Read reads what was learned; a file that is not there yet has nothing in it.
func (f *NoiseFile) Read() (*Noise, error) {
	if f.Path == "" {
		return ReadNoise(nil)
	}
	data, err := f.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read noise file: %w", err)
	}
	n, err := ReadNoise(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return n, nil
}

// Learn adds what equal runs differ by to the file, and prints it.
func (f *NoiseFile) Learn(w io.Writer, equal []Sample, now time.Time) error {
	if f.Path == "" {
		return errors.New("there is no home folder to keep the noise file in: name a file with --noise-file")
	}
	noise, err := f.Read()
	if err != nil {
		return err
	}
	place, err := noise.Learn(equal, now)
	if err != nil {
		return fmt.Errorf("learn noise: %w", err)
	}
	data, err := noise.Encode()
	if err != nil {
		return err
	}
	if err := Replace(f.Path, data); err != nil {
		return fmt.Errorf("keep noise: %w", err)
	}
	return place.write(w, f.Path)
}

// write prints what was learned, and where it is kept.
func (p *Place) write(w io.Writer, path string) error {
	escape.Print(w, "what %d equal runs of %s, from %s against %s, differ by:\n",
		len(p.Runs), cmp.Or(p.Text, "one workload"), cmp.Or(p.Host, "no host"), cmp.Or(p.Server, "a server"))
	if err := p.WriteFloors(w); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if len(p.Runs) < 4 {
		escape.Print(w, "%d runs say little: the floor gets lower with more runs\n", len(p.Runs))
	}
	escape.Print(w, "kept in %s\n", path)
	return nil
}

// Replace writes a file so that a reader sees the old or the new one, never a part.
func Replace(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".noise-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that matters is on its way
	}
	return err
}
