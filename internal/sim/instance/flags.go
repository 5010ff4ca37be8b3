package instance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/nearest"
	"spate/internal/sim/catalog"
	"spate/internal/sim/engineconf"
	"spate/internal/sim/serve"
)

// Command is `spate sim`: a server from its flags, which are those of vllm serve and some of its own.
type Command struct {
	host   string
	port   int
	unix   string
	script string
	faults []string
	caFile string
	delay  time.Duration
	cfg    serve.Config

	settings  engineconf.Settings
	profile   string
	scale     float64
	timetable bool
	details   bool
	list      bool
	split     Split
	router    string
}

// Bind adds the flags to a set.
func (o *Command) Bind(f *pflag.FlagSet) {
	t := &o.cfg.Timetable
	f.StringVar(&o.host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&o.port, "port", 8000, "port to listen on; 0 picks a free one")
	f.StringVar(&o.unix, "unix-socket", "", "listen on this Unix socket instead")
	f.StringSliceVar(&o.cfg.Models, "model", nil, "model to serve; with a timetable, names to answer to (default spate-sim)")
	f.StringVar(&o.cfg.APIKey, "api-key", "", "require this key under /v1 and /sim")
	f.BoolVar(&o.cfg.Control, "sim-control", false, "allow requests to /sim/ from other machines when --host is an address they can reach; with --api-key, they need the key")
	f.BoolVar(&o.cfg.TLS, "tls", false, "serve TLS with a new self-made certificate")
	f.StringVar(&o.caFile, "tls-ca-file", "", "write that certificate here, for --ca-cert")
	f.DurationVar(&o.delay, "start-delay", 0, "wait this long before listening, as a server that loads its weights does")
	o.bindEngine(f)
	f.DurationVar(&t.TTFT, "ttft", 50e6, "time to first token")
	f.DurationVar(&t.ITL, "itl", 10e6, "time between chunks")
	f.IntVar(&t.ChunkTokens, "tokens-per-chunk", 1, "tokens in each chunk")
	f.Float64Var(&t.Jitter, "jitter", 0, "vary each wait by up to this share")
	f.DurationVar(&t.TTFTSpread, "ttft-spread", 0, "random time that is added to the time to first token, up to this")
	f.DurationVar(&t.Prefill, "prefill", 0, "time that is added to the time to first token for each 1,000 prompt tokens")
	f.IntVar(&t.OutputLen, "output-len", 0, "answers end by themselves after this many tokens; 0 is never")
	f.Float64Var(&t.OutputVary, "output-vary", 0, "vary that length by up to this share")
	f.IntVar(&t.MaxRunning, "max-running", 0, "most requests served at a time, others wait; 0 is no limit")
	f.IntVar(&t.Reasoning, "reasoning", 0, "first tokens of chat answers that are reasoning")
	f.IntVar(&t.ToolTokens, "tool-tokens", 0, "last tokens of chat answers that are a tool call")
	f.BoolVar(&t.PrefixCache, "prefix-cache", true, "remember prompts, as servers with a prefix cache do")
	f.Uint64Var(&t.Seed, "seed", 0, "seed of jitter and faults")
	f.StringArrayVar(&o.faults, "fault", nil, "a fault, such as cut,at=5,p=0.1 (repeatable)")
	f.StringVar(&o.script, "script", "", "file of rules and outages")
	f.StringVar(&o.cfg.TruthFile, "truth-file", "", "write the true time of every event here, as JSON lines, at the end")
	f.BoolVar(&o.cfg.Stamp, "stamp", false, "put the true write time into every event (spate_ns)")
	f.BoolVar(&o.cfg.PromptTokensDetails, "enable-prompt-tokens-details", true, "report cached tokens in usage")
	f.BoolVar(&o.cfg.RequestMetrics, "enable-per-request-metrics", false, "report the times of each request in its usage event")
}

// bindEngine adds the flags that describe a simulated engine.
func (o *Command) bindEngine(f *pflag.FlagSet) {
	f.StringVar(&o.profile, "sim", "", "simulated engine to serve, by `NAME`: model@gpu, or a calibrated profile (see --list-profiles)")
	f.BoolVar(&o.list, "list-profiles", false, "list the names that --sim takes, and exit")
	f.Float64Var(&o.scale, "time-scale", 1, "run this many times faster than the real server would")
	f.BoolVar(&o.timetable, "timetable", false, "answer by a timetable instead of simulating an engine")
	f.BoolVar(&o.details, "enable-logging-iteration-details", false, "log every step")
	f.IntVar(&o.split.Prefill, "prefill-engines", 0, "engines that only compute prompts; KV then moves to the decode engines")
	f.IntVar(&o.split.Decode, "decode-engines", 0, "engines that only decode, after another engine has computed the prompt")
	f.StringVar(&o.split.Link, "kv-link", "", "link the KV moves over: nvlink, rdma1, rdma2, tcp, rdma-400 ... (default the one of --node-link)")
	f.Float64Var(&o.split.Loss, "kv-loss", 0, "share of KV transfers that are lost")
	f.IntVar(&o.split.Retries, "kv-retries", 0, "times a lost transfer is tried again")
	f.StringVar(&o.split.OnLoss, "kv-load-failure-policy", "", "what to do with a request whose KV is lost: recompute, fail (default recompute)")
	f.StringVar(&o.router, "router", "", "how requests are spread over engines: round-robin, least-loaded, prefix (default least-loaded)")
	o.settings.Bind(f)
	engineconf.BindIgnored(f)
	f.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "profile" { // what it was called before
			name = "sim"
		}
		return engineconf.Normalize(f, name)
	})
}

// Args are a command line as the flags take it. What cannot be rewritten stays, and is refused as an unknown flag:
// FlagError says why.
func Args(args []string) []string {
	if rewritten, err := engineconf.Args(args); err == nil {
		return rewritten
	}
	return args
}

// FlagError explains why a flag of a command line was not taken.
func (*Command) FlagError(f *pflag.FlagSet, args []string, err error) error {
	if _, bad := engineconf.Args(args); bad != nil {
		return bad
	}
	return unknownFlag(f, err)
}

// unknownFlag names the nearest flag, and says what the engine's own command line says.
func unknownFlag(f *pflag.FlagSet, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	if name == "config" {
		return errors.New("a file of settings is not read here: give them as flags instead of --config")
	}
	var known []string
	f.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return fmt.Errorf("unknown flag --%s%s\n%w", name, nearest.Hint(name, known), catalog.UnknownFlag([]string{"--" + name}))
}
