//go:build unix

package infile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpenRefuses holds that what is no bounded regular file is refused at once: no reader of the pipe is there
// to end a wait, and the device has no end.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe, large, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // takes no room on the disk
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "is a named pipe: want a regular file, so write what comes out of it to one first", link: "is a device",
		"/dev/zero": "is a device", dir: "is a folder", large: "has 1099511627776 bytes", filepath.Join(dir, "none"): "no such file",
	} {
		for name, open := range map[string]func() error{
			"Open":     func() error { _, err := Open(path, 100); return err },
			"ReadFile": func() error { _, err := ReadFile(path, 100); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s(%s): %v, want %q", name, path, err, want)
			}
		}
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{5, Unbounded} {
		if data, err := ReadFile(path, most); err != nil || string(data) != "hello" {
			t.Errorf("bound %d: %q, %v", most, data, err)
		}
	}
	if _, err := ReadFile(path, 4); err == nil {
		t.Error("a file above the bound was read")
	}
}

// TestDataset: a dataset may be a folder, and nothing else that Open refuses.
func TestDataset(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Dataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	if names, err := f.Readdirnames(-1); err != nil || len(names) != 1 || names[0] != "a.jsonl" {
		t.Errorf("the folder has %q, %v", names, err)
	}
	if _, err := Dataset("/dev/zero"); err == nil {
		t.Error("a device was opened as a dataset")
	}
}
