package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStrangersAreKeptOut: a broker that others could use does not start, and says what is missing.
func TestStrangersAreKeptOut(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{Listen: "127.0.0.1:0"}, "token"},
		{Options{Listen: "0.0.0.0:0", Token: "t"}, "needs TLS"},
		{Options{Listen: ":0", Token: "t"}, "needs TLS"},
		{Options{Listen: "gpu7:4222", Token: "t"}, "needs TLS"},
		{Options{Listen: "127.0.0.1", Token: "t"}, "want HOST:PORT"},
		{Options{Listen: "127.0.0.1:x", Token: "t"}, "the port is a number"},
		{Options{Listen: "127.0.0.1:0", Token: "t", Dir: open}, "can be read by others"},
	} {
		if c.opt.Dir == "" {
			c.opt.Dir = t.TempDir()
		}
		b, err := Start(c.opt)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.opt, err, c.want)
		}
	}
}

// TestATakenAddressIsSaid at once: the server by itself would wait for it.
func TestATakenAddressIsSaid(t *testing.T) {
	dir := t.TempDir()
	one, err := Start(Options{Listen: "127.0.0.1:0", Token: "t", Dir: filepath.Join(dir, "a")})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if !strings.HasPrefix(one.URL(), "nats://127.0.0.1:") || !strings.HasSuffix(one.URL(), ":"+one.Port()) {
		t.Errorf("URL %s, port %s", one.URL(), one.Port())
	}
	if _, err := Start(Options{Listen: "127.0.0.1:" + one.Port(), Token: "t", Dir: filepath.Join(dir, "b")}); err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("a second one on %s: %v", one.URL(), err)
	}
}
