package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/forecast/profile"
	"spate/internal/host/probe"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/instance"
	"spate/internal/sim/serve"
)

// simOptions are the flags of `spate sim`.
type simOptions struct {
	host   string
	port   int
	unix   string
	script string
	faults []string
	caFile string
	delay  time.Duration
	cfg    serve.Config
	engine engineOptions
}

// newSim is `spate sim`: the embedded server alone.
func newSim(p Process) *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim [MODEL]",
		Short: "Serve a simulated engine, or a timetable, over the OpenAI protocol",
		Long: `Serve a model on a GPU that is not there: an engine of the version you name schedules, preempts and caches as
the real one does, and every token comes when it would. Flags are those of vllm serve, and so are the errors. Without a
model or a profile, ` + profile.Default + ` is served.

With --timetable, or any of the flags that describe one (--ttft, --itl, ...), answers follow a timetable instead: when each
token is written is known in advance, so that what a client reports can be compared with what happened.

Faults can be injected by flag, by script, or while the server runs; docs/sim.md describes all of it.`,
		Example: `  spate sim Qwen/Qwen3-8B --gpu H100 --engine-version 0.10.1 --max-num-seqs 128
  spate sim --sim Llama-3.3-70B-Instruct@H100-SXM --time-scale 10
  spate sim Qwen/Qwen3-8B --gpu H100 --prefill-engines 1 --decode-engines 1 --kv-link rdma
  spate sim --ttft 50ms --itl 10ms
  spate sim --port 9000 --fault cut,at=5,p=0.1 --fault status,code=429,p=0.05`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runSim(cmd, p, &o, args) },
	}
	f, t := cmd.Flags(), &o.cfg.Timetable
	f.StringVar(&o.host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&o.port, "port", 8000, "port to listen on; 0 picks a free one")
	f.StringVar(&o.unix, "unix-socket", "", "listen on this Unix socket instead")
	f.StringSliceVar(&o.cfg.Models, "model", nil, "model to serve; with a timetable, names to answer to (default spate-sim)")
	f.StringVar(&o.cfg.APIKey, "api-key", "", "ask for this key under /v1 and /sim")
	f.BoolVar(&o.cfg.Control, "sim-control", false, "let others steer the server through /sim/ where --host is an address they can reach; with --api-key, those who have the key")
	f.BoolVar(&o.cfg.TLS, "tls", false, "serve TLS with a certificate made on the spot")
	f.StringVar(&o.caFile, "tls-ca-file", "", "write that certificate here, for --ca-cert")
	f.DurationVar(&o.delay, "start-delay", 0, "wait this long before listening, as a server that loads its weights does")
	o.engine.bind(cmd)
	cmd.SetFlagErrorFunc(simFlagError(p))
	f.DurationVar(&t.TTFT, "ttft", 50e6, "time to first token")
	f.DurationVar(&t.ITL, "itl", 10e6, "time between chunks")
	f.IntVar(&t.ChunkTokens, "tokens-per-chunk", 1, "tokens in each chunk")
	f.Float64Var(&t.Jitter, "jitter", 0, "each wait is longer or shorter by up to this share")
	f.DurationVar(&t.TTFTSpread, "ttft-spread", 0, "added to the time to first token at random, up to this")
	f.DurationVar(&t.Prefill, "prefill", 0, "added to the time to first token for each 1,000 prompt tokens")
	f.IntVar(&t.OutputLen, "output-len", 0, "answers end by themselves after this many tokens; 0 never")
	f.Float64Var(&t.OutputVary, "output-vary", 0, "that length is longer or shorter by up to this share")
	f.IntVar(&t.MaxRunning, "max-running", 0, "requests served at a time, the rest waits; 0 is no limit")
	f.IntVar(&t.Reasoning, "reasoning", 0, "first tokens of chat answers that are reasoning")
	f.IntVar(&t.ToolTokens, "tool-tokens", 0, "last tokens of chat answers that are a tool call")
	f.BoolVar(&t.PrefixCache, "prefix-cache", true, "remember prompts, as servers with a prefix cache do")
	f.Uint64Var(&t.Seed, "seed", 0, "seed of jitter and faults")
	f.StringArrayVar(&o.faults, "fault", nil, "a fault, such as cut,at=5,p=0.1 (repeatable)")
	f.StringVar(&o.script, "script", "", "file of rules and outages")
	f.StringVar(&o.cfg.TruthFile, "truth-file", "", "write the true time of every event here, as JSON lines, at the end")
	f.BoolVar(&o.cfg.Stamp, "stamp", false, "put the true write time into every event (spate_ns)")
	f.BoolVar(&o.cfg.PromptTokensDetails, "enable-prompt-tokens-details", true, "tell cached tokens in usage")
	f.BoolVar(&o.cfg.RequestMetrics, "enable-per-request-metrics", false, "tell each request's own timings in its usage event")
	return cmd
}

// runSim serves until it is interrupted.
func runSim(cmd *cobra.Command, p Process, o *simOptions, args []string) error {
	ctx := cmd.Context()
	if o.engine.list {
		return profile.WriteChoices(p.Stdout)
	}
	o.cfg.Addr = net.JoinHostPort(o.host, strconv.Itoa(o.port))
	if o.unix != "" {
		o.cfg.Addr = "unix:" + o.unix
	}
	var err error
	if o.cfg.Script, err = serve.ReadScript(p.ReadFile, o.script, o.faults); err != nil {
		return console.Usage("spate sim", err)
	}
	var in *instance.Instance
	o.engine.unsimulated = engineconf.Unsimulated(cmd.Flags())
	if !o.engine.timetabled(cmd) {
		if in, err = o.engine.build(p, &o.cfg, args); err != nil {
			return err
		}
	} else {
		o.cfg.Models = append(o.cfg.Models, args...)
		o.cfg.MaxModelLen = o.engine.settings.MaxModelLen
	}
	return o.serve(ctx, p, in)
}

// serve runs the server, and prints its log when it simulates an engine.
func (o *simOptions) serve(ctx context.Context, p Process, in *instance.Instance) error {
	_, _ = probe.RaiseNoFile(1 << 20) // as many as the system gives; a refused connection says the rest
	sig := p.Signals(ctx, "ending the server (interrupt again to end it at once)")
	defer sig.Done()
	if in != nil {
		p.Say("%s\n", in.Title)
		if err := in.Started(p.Stderr, os.Getpid()); err != nil {
			return err
		}
	}
	select {
	case <-time.After(o.delay):
	case <-ctx.Done():
		return nil
	case <-sig.Stop:
		return nil
	}
	srv, err := serve.Start(ctx, o.cfg)
	if err != nil {
		return err
	}
	if o.caFile != "" {
		if err := srv.WriteCA(o.caFile); err != nil {
			return err
		}
	}
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if in != nil {
		wg.Go(func() { in.Watch(watching, srv, p.Stderr, os.Getpid()) })
	}
	p.Print("serving on %s\n", srv.URL())
	select {
	case <-ctx.Done():
	case <-sig.Stop:
	}
	stop()
	wg.Wait()
	if err := srv.Stop(); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	st := srv.Stats()
	p.Say("answered %d requests with %d tokens; events written late by %v at p50, %v at p99\n",
		st.Requests, st.Tokens, st.Lateness.P50.Round(time.Microsecond), st.Lateness.P99.Round(time.Microsecond))
	if st.Lag.Lagging && in != nil {
		p.Say("the simulator was late: p99 %v behind its own deadlines; what was measured is partly this machine\n", st.Lag.P99)
	}
	return nil
}
