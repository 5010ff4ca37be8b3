package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxBinary is how many bytes the program may have, built as `make build` does for linux/amd64. docs/dependencies.md says
// what it is made of. A jump of some megabytes at once is most often a package that calls methods by name
// (text/template does): with one such call the linker keeps every method there is.
//
// Ten of them are the NATS server of a fleet: one package, of which nothing can be left out.
const maxBinary = 43_000_000

// TestBinaryStaysSmall builds the program with the Makefile's own flags. Without a cache that is a minute or two, with
// the one of the other tests it is the link.
func TestBinaryStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	line := regexp.MustCompile(`CGO_ENABLED=0 \$\(GO\) build (.*) -ldflags "(.*)" -o bin/spate (\S+)`).FindStringSubmatch(read(t, "Makefile"))
	if line == nil {
		t.Fatal("the Makefile has no line that builds bin/spate")
	}
	out := filepath.Join(t.TempDir(), "spate")
	args := append([]string{"build"}, strings.Fields(line[1])...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "-ldflags", line[2], "-o", out, line[3])...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	info, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxBinary {
		t.Errorf("the program has %d bytes, more than %d: see docs/dependencies.md", info.Size(), maxBinary)
	}
}
