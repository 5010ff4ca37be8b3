// Command gotest runs `go test` and shows how far it is: the lines go test prints, the whole output of a test that
// fails, and, whenever nothing else was printed for a while, how many tests have passed and which are running.
// make test calls it. Arguments are those of go test. It stands beside the packages it tests, and imports none.
package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"
)

// quiet is how long nothing is printed before a line says what is going on.
const quiet = 15 * time.Second

func main() {
	code, err := run(os.Args[1:], os.Stdout, quiet)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "gotest:", err) // nobody is left to tell
	}
	os.Exit(code)
}

// run runs go test with the arguments and returns its exit code. GO names another go command.
func run(args []string, out io.Writer, quiet time.Duration) (int, error) {
	// An interrupt reaches go test as well, which ends and is followed to its last line.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)

	defer hold(":8000")()
	out = &shared{w: out}
	//nolint:gosec // G204: it is there to run what make test says
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = out
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 1, err
	}
	followed := newFollower(out, time.Now).follow(events, quiet)
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return max(code, 1), followed // a signal gives -1
	}
	if followed == nil {
		followed = err
	}
	if followed != nil {
		return 1, followed
	}
	return 0, nil
}

// hold keeps a port taken until the returned function is called, so that no test can come to depend on it being free:
// it is where vLLM and the README's simulated server listen. One that is taken already does as well.
func hold(addr string) (release func()) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return func() {}
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }() // ends with Close
	return func() { _ = srv.Close() }
}

// shared is a writer for go test's complaints and for the follower.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
