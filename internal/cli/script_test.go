package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"spate": func() {
			os.Exit(Run(context.Background(), Process{
				Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
				Env: os.LookupEnv, Getwd: os.Getwd, ReadFile: os.ReadFile,
				Interrupts: func() (<-chan os.Signal, func()) {
					signals := make(chan os.Signal, 2)
					signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
					return signals, func() { signal.Stop(signals) }
				},
			}))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true})
}
