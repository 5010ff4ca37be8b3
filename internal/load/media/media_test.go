//go:build unix

package media

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tree is a dataset's folder beside files that are none of its business.
func tree(t *testing.T) (base string) {
	t.Helper()
	base = t.TempDir()
	for name, text := range map[string]string{
		"data/rows.jsonl": "", "data/a.png": "inside", "data/sub/b.png": "deeper", "secret.txt": "secret", "other/c.png": "allowed",
		"hub/blobs/x": "blob", "hub/snapshots/1/rows.jsonl": "",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"data/out.png": "../secret.txt", "data/abs.png": filepath.Join(base, "secret.txt"), "data/in.png": "sub/b.png", "data/up": "..",
		"hub/snapshots/1/d.png": "../../blobs/x", "data/dev.png": "/dev/zero",
	} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(base, "data", "pipe.png"), 0o600); err != nil {
		t.Fatal(err)
	}
	big, err := os.Create(filepath.Join(base, "data", "big.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(Largest + 1); err != nil {
		t.Fatal(err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	return base
}

func TestMediaStayInTheirFolder(t *testing.T) {
	base := tree(t)
	for _, c := range []struct{ dataset, named, file, want, err string }{
		{"data/rows.jsonl", "", "a.png", "inside", ""},
		{"data", "", "a.png", "inside", ""},
		{"data/rows.jsonl", "", "sub/b.png", "deeper", ""},
		{"data/rows.jsonl", "", "file://" + base + "/data/a.png", "inside", ""},
		{"data/rows.jsonl", "", base + "/data/sub/../a.png", "inside", ""},
		{"data/rows.jsonl", "", "in.png", "deeper", ""},
		{"data/rows.jsonl", base + "/other", base + "/other/c.png", "allowed", ""},
		{"data/rows.jsonl", base + "/other", "c.png", "allowed", ""},
		{"hub/snapshots/1/rows.jsonl", "", "d.png", "blob", ""},
		{"data/rows.jsonl", "", "/etc/passwd", "", "outside"},
		{"data/rows.jsonl", "", "../secret.txt", "", "outside"},
		{"data/rows.jsonl", "", "sub/../../secret.txt", "", "outside"},
		{"data/rows.jsonl", "", base + "/secret.txt", "", "outside"},
		{"data/rows.jsonl", "", "out.png", "", "outside"},
		{"data/rows.jsonl", "", "abs.png", "", "outside"},
		{"data/rows.jsonl", "", "up/secret.txt", "", "not sent"},
		{"data/rows.jsonl", "", "dev.png", "", "outside"},
		{"data/rows.jsonl", "", "pipe.png", "", "not a regular file"},
		{"data/rows.jsonl", "", "sub", "", "not a regular file"},
		{"data/rows.jsonl", "", "big.png", "", "bytes, and media files may have"},
		{"data/rows.jsonl", "", "none.png", "", "is not in"},
		{"data/rows.jsonl", "", base + "/other/c.png", "", "outside"},
	} {
		file, err := New(filepath.Join(base, c.dataset), c.named).Open(c.file)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.file, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		data, err := io.ReadAll(file)
		if string(data) != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.file, data, err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}
