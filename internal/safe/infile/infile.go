// Package infile opens the files that users and settings name: tokenizers, datasets, logs, results of other
// tools. What is opened is a regular file of bounded size. A named pipe could make spate wait without an end, and
// a device such as /dev/zero has no end at all: both are refused at once, by name. Packages that read such files
// open them here; a server's words never get this far.
package infile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The most bytes a file may have, by what it holds. All are far above what such files have.
const (
	MaxSettings  = 64 << 20  // settings, certificates, profiles, one result
	MaxTokenizer = 512 << 20 // a tokenizer.json; the largest known have 40 MiB
	MaxImport    = 4 << 30   // logs, pages and tables of other tools
	MaxDataset   = 64 << 30
	Unbounded    = 0 // for files that are read piece by piece
)

// missing is an error about a file or folder that is not there, in words of its own.
type missing struct{ error }

func (m missing) Is(target error) bool { return target == fs.ErrNotExist }
func (m missing) Unwrap() error        { return m.error }

// Missing says that what a user named is not there; errors.Is finds fs.ErrNotExist in it.
func Missing(format string, args ...any) error { return missing{fmt.Errorf(format, args...)} }

// Open opens a regular file of at most this many bytes; Unbounded is without a limit.
func Open(path string, most int64) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := check(path, info, most); err != nil { // before it is opened: opening a device may do something
		return nil, err
	}
	// Not to wait is for the case that a pipe took the file's place just now.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info, most)
	}
	if err != nil {
		_ = f.Close() // only opened
		return nil, err
	}
	return f, nil
}

// Dataset opens a dataset: a regular file of at most MaxDataset bytes, or a folder to list.
func Dataset(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return Open(path, MaxDataset)
}

// ReadFile is os.ReadFile for a regular file of at most so many bytes. A file that grows while it is read is
// cut at the bound with an error.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if most == Unbounded {
		return io.ReadAll(f)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLarge(path, int64(len(data)), most)
	}
	return data, err
}

func check(path string, info fs.FileInfo, most int64) error {
	if mode := info.Mode(); !mode.IsRegular() {
		return fmt.Errorf("%s is %s: want a regular file%s", path, kind(mode), cure(mode))
	}
	if most != Unbounded && info.Size() > most {
		return tooLarge(path, info.Size(), most)
	}
	return nil
}

func tooLarge(path string, size, most int64) error {
	return fmt.Errorf("%s has %d bytes: files of this kind have at most %d", path, size, most)
}

// kind names what a path leads to.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file"
}

func cure(mode fs.FileMode) string {
	if mode&fs.ModeNamedPipe != 0 {
		return ", so write what comes out of it to one first"
	}
	return ""
}
