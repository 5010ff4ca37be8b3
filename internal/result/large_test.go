package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLargeLogIsNotHeld refuses to put the records of a log into memory that is larger than memory may be.
func TestLargeLogIsNotHeld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, RecordsFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxRecordLog+1); err != nil { // takes no room on the disk
		t.Fatal(err)
	}
	e := Entry{ID: "x", Run: &Run{Dir: dir}}
	if _, err := e.Records(); err == nil || !strings.Contains(err.Error(), "4294967297 bytes") {
		t.Errorf("error %v, want one that names the size", err)
	}
}
