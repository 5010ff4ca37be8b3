// Command spate measures LLM servers.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"spate/internal/cli"
	"spate/internal/safe/infile"
)

func main() {
	log.SetOutput(io.Discard) // nothing of spate logs there; net/http quotes what servers send unasked
	os.Exit(cli.Run(context.Background(), cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env: os.LookupEnv, Getwd: os.Getwd, ReadFile: func(name string) ([]byte, error) { return infile.ReadFile(name, infile.MaxSettings) },
		Exit: os.Exit,
		Interrupts: func() (<-chan os.Signal, func()) {
			signals := make(chan os.Signal, 2) // a second interrupt may come while the first is handled
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			unheard := make(chan os.Signal, 1) // whoever read standard error is gone: that ends no run that has something to write
			signal.Notify(unheard, syscall.SIGPIPE)
			return signals, func() { signal.Stop(signals); signal.Stop(unheard) }
		},
	}))
}
