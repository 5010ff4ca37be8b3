package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/host/launch"
	"spate/internal/settings/flags"
	"spate/internal/trial"
	"spate/internal/trial/executor"
)

// guardName is the hidden command that is the guard of a launched server.
const guardName = "launch-guard"

// newGuard is the second process that ends a launched server with all it started.
func newGuard(Process) *cobra.Command {
	return &cobra.Command{
		Use: guardName, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, command []string) error {
			if code := launch.Guard(command); code != 0 {
				return console.Exit(code)
			}
			return nil
		},
	}
}

// newLaunch is `spate launch -- CMD`.
func newLaunch(p Process) *cobra.Command {
	var spec launch.Spec
	var gpus, usedOK, after string
	cmd := &cobra.Command{
		Use:   "launch [flags] -- COMMAND",
		Short: "Start a server, say when it is ready, and end it with all it started",
		Long: `Start a server and watch it. When it answers, spate prints its URL and what it printed about itself: version, KV
cache, maximum concurrency. Ctrl-C ends it, first with a signal, then by force, with every process it started, also those
that left its process group; after that its port is free, or spate says what uses it. If spate itself is killed, even
with -9, the server ends too (on Linux).

Before the start and after the end, nvidia-smi must report that the memory of its GPUs is free: those of --gpus, else of
CUDA_VISIBLE_DEVICES, else all. If other processes use it, spate names them; --gpu-memory-used-ok allows them some of
it. A server that runs elsewhere, in a container or on another machine, needs a --stop-command to end it there.

{port} in the command is replaced by a free port. When a start fails, spate prints the kind of failure (bad-flag, rule,
memory, kv-cache, port, cuda, download, timeout, crash) and the line of the log that shows it.

Exit codes: 0 ended on request, 1 it did not start or died, 2 usage.`,
		Example: `  spate launch -- vllm serve Qwen/Qwen3-8B --port {port}
  spate launch --gpus 1 --gpu-memory-used-ok 2GiB -- vllm serve Qwen/Qwen3-8B --port {port}
  spate launch --stop-command 'docker rm -f spate-{port}' -- docker run --rm --name spate-{port} -p {port}:8000 vllm/vllm-openai --model Qwen/Qwen3-8B
  spate bench --launch 'vllm serve Qwen/Qwen3-8B --port {port}' --num-prompts 200    measure it and end it`,
		Args: atLeastOne("command"),
		RunE: func(cmd *cobra.Command, command []string) error {
			spec.Command = command
			if err := spec.Choose("--", gpus, usedOK); err != nil {
				return console.Usage("spate launch", err)
			}
			var err error
			if spec.Cleanup, err = launch.Split(after); err != nil {
				return console.Usage("spate launch", fmt.Errorf("--stop-command %s: %w", after, err))
			}
			return runLaunch(cmd.Context(), p, spec)
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec.URL, "url", "", "URL at which the server will answer (default http://127.0.0.1:{port})")
	f.StringVar(&spec.Log, "log", "server.log", "`file` for the server's output")
	f.DurationVar(&spec.Ready, "timeout", 10*time.Minute, "how long the server may take until it answers")
	f.DurationVar(&spec.Grace, "grace", 30*time.Second, "how long the server may take to end before it is killed")
	f.StringArrayVar(&spec.Env, "env", nil, "`NAME=value` for its environment (repeatable)")
	f.StringVar(&gpus, "gpus", "", "`list` of the GPUs it may use, such as 0,1 (CUDA_VISIBLE_DEVICES)")
	f.StringVar(&usedOK, "gpu-memory-used-ok", "", "GPU memory that others may use before it starts, such as 20GiB or any")
	f.StringVar(&after, "stop-command", "", "`command` that is run after the server has ended, for whatever reason; {port} is replaced by its port")
	flags.Rename(f, map[string]string{"ready": "timeout"})
	return cmd
}

func runLaunch(ctx context.Context, p Process, spec launch.Spec) error {
	sig := p.Signals(ctx, "ending the server with all it started (interrupt again to end it by force)")
	defer sig.Done()
	defer sig.Hold()()
	l, err := announced(p, measured(p, sig.Stop))
	if err != nil {
		return err
	}
	ctx = sig.Context
	srv, _, err := l.Start(ctx, &trial.Server{Spec: spec})
	var left *launch.LeftError
	switch {
	case err != nil && sig.Was() && !errors.As(err, &left):
		return fmt.Errorf("the server was ended before it was ready; its log is %s", spec.Log)
	case err != nil:
		return err
	}
	p.Print("%s\n", srv.URL)
	select {
	case <-srv.Ended():
		err = srv.Died()
	case <-sig.Stop:
		err = nil
	case <-ctx.Done():
	}
	return errors.Join(err, srv.Stop(ctx))
}

// announced is launched for a server that the user waits for: it is told when it starts and what it says of itself.
func announced(p Process, m *executor.Measured) (*executor.Launched, error) {
	l, err := launched(p, m)
	if err != nil {
		return nil, err
	}
	l.Starting = func(spec *launch.Spec) { p.Say("starting %s\n", spec.Line()) }
	l.Ready = func(srv *launch.Server) { sayReady(p, srv) }
	return l, nil
}

// sayReady tells what a server said of itself.
func sayReady(p Process, srv *launch.Server) {
	text := fmt.Sprintf("ready at %s after %.1f s", srv.URL, srv.Took.Seconds())
	if data, err := os.ReadFile(srv.Log); err == nil {
		facts := launch.ReadFacts(string(data))
		if facts.Version != "" {
			text += ", version " + facts.Version
		}
		if facts.KVTokens > 0 {
			text += fmt.Sprintf(", KV cache of %d tokens", facts.KVTokens)
		}
		if facts.MaxConcurrency > 0 {
			text += fmt.Sprintf(", %g requests of full length at once", facts.MaxConcurrency)
		}
	}
	p.Say("%s; log: %s\n", text, srv.Log)
	sayGuarded(p, srv)
}

// sayGuarded says what ends the server should spate be killed, and why it is not known whether the GPUs are free. A command
// that starts many says it once.
func sayGuarded(p Process, srv *launch.Server) {
	p.Say("protection if spate is killed: %s\n", srv.Protection)
	if srv.Unchecked != "" && srv.Unchecked != executor.NoGPU {
		p.Say("GPU memory is not checked: %s\n", srv.Unchecked)
	}
}
