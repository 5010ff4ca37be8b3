package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"spate/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(cleaning{m}, map[string]func(){
		"spate": func() {
			os.Exit(cli.Run(context.Background(), cli.Process{
				Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Env: os.LookupEnv, Getwd: os.Getwd, ReadFile: os.ReadFile,
			}))
		},
	})
}

// cleaning removes the program the end-to-end tests built.
type cleaning struct{ *testing.M }

func (m cleaning) Run() int {
	dir, err := os.MkdirTemp("", "spate-store-")
	if err == nil {
		err = os.Setenv("SPATE_STORE", dir) // nothing in a test may reach the user's own
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // only litter
	code := m.M.Run()
	if err := removeProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SPATE_STORE", filepath.Join(env.WorkDir, "store"))
			env.Setenv("GORACE", "atexit_sleep_ms=5") // under the race detector every command would end a second later
			smi, err := filepath.Abs("../../host/launch/testdata/nvidia-smi")
			env.Setenv("NVIDIA_SMI", smi)
			return err
		},
	})
}
