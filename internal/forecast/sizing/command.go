package sizing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/nearest"
	"spate/internal/settings/flags"
	"spate/internal/sim/engineconf"
)

// planRequests is how many requests a simulation of a plan has at most.
const planRequests = 2000

// Command is `spate plan`. Like predict, it takes bench's flags for what is sent.
type Command struct {
	slo      string
	rate     float64
	profiles []string
	prices   []string
	tp       []int
	seqs     []int
	tokens   []int
	requests int
	json     bool
	seed     uint64
}

// Flags are those of plan itself.
func (o *Command) Flags() *pflag.FlagSet {
	f := flags.NewSet("plan")
	f.StringVar(&o.slo, "slo", "", "objectives, such as 'p99_ttft<500ms,p99_tpot<50ms'")
	f.Float64Var(&o.rate, "rate", 0, "requests per second, over all replicas")
	f.StringSliceVar(&o.profiles, "profiles", nil, "servers to consider: names (see spate predict --list), files, or model@gpu")
	f.StringSliceVar(&o.prices, "price", nil, "NAME=USD per GPU and hour, NAME a profile or a GPU; then the least cost is sought")
	f.IntSliceVar(&o.tp, "tensor-parallel-size", nil, "sizes to try (default all that fit a node)")
	f.IntSliceVar(&o.seqs, "max-num-seqs", nil, "values to try (default a quarter to four times the profile's)")
	f.IntSliceVar(&o.tokens, "max-num-batched-tokens", nil, "values to try (default a sixteenth to four times the profile's)")
	f.IntVar(&o.requests, "num-prompts", planRequests, "requests in one simulation, at most")
	f.Uint64Var(&o.seed, "sim-seed", 0, "seed of the random numbers of the simulation")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return f
}

// Run plans; own are the flags that Flags made.
func (o *Command) Run(_ context.Context, p console.Process, own *pflag.FlagSet, args []string) error {
	line, err := flags.Divide(own, args)
	if err != nil {
		return console.Usage("spate plan", err)
	}
	opts, err := o.options(p, line.Bench)
	if err != nil {
		return err
	}
	servers, refused, err := o.servers(p)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		var why []string
		for _, r := range refused {
			why = append(why, fmt.Sprintf("profile %s cannot be planned with: %s", r.Profile, r.Reason))
		}
		return errors.New(strings.Join(why, "\n"))
	}
	opts.Servers = servers
	telling := p.Wait("planning")
	opts.Progress = func(done, total int) {
		telling.Now("planning: %d of %d profiles and sizes simulated", done, total)
	}
	out, err := Make(*opts)
	telling.End()
	if err != nil {
		return console.Usage("spate plan", err)
	}
	out.Refused = append(refused, out.Refused...)
	if o.json {
		err = p.JSON(out)
	} else {
		err = out.Write(p.Stdout)
	}
	if err == nil && out.Recommended == nil {
		return console.Exit(console.ExitUnmet)
	}
	return err
}

// options reads what is asked for and what is sent.
func (o *Command) options(p console.Process, bench []string) (*Options, error) {
	switch {
	case o.slo == "":
		return nil, console.Usage("spate plan", errors.New("no objectives: give --slo, such as --slo 'p99_ttft<500ms,p99_tpot<50ms'"))
	case !(o.rate > 0) || math.IsInf(o.rate, 1):
		return nil, console.Usage("spate plan", errors.New("no rate: give --rate, the requests per second to plan for, such as --rate 20"))
	case len(o.profiles) == 0:
		return nil, console.Usage("spate plan", errors.New("no servers: give --profiles NAME,... (spate predict --list shows them) or model@gpu such as Qwen3-8B@H100-SXM"))
	}
	objectives, err := figure.ParseObjectives(o.slo)
	if err != nil {
		return nil, console.Usage("spate plan", err)
	}
	for _, list := range [][]int{o.tp, o.seqs, o.tokens} {
		for _, v := range list {
			if v < 1 {
				return nil, console.Usage("spate plan", fmt.Errorf("sizes are 1 or more, not %d", v))
			}
		}
	}
	args := append(slices.Clone(bench), "--num-prompts", strconv.Itoa(o.requests))
	r, err := flags.ParseOne(args, flags.Options{Env: p.Env, ReadFile: p.ReadFile, IDPrefix: "plan-"}, "spate plan")
	if err != nil {
		return nil, console.UsageIf(flags.Mistake(err), "spate plan", err)
	}
	load := &r.Bench.Load
	if load.MaxConcurrency != nil || !math.IsInf(float64(load.RequestRate), 1) || len(load.Stages) > 0 || load.RampUp != "" || load.Duration > 0 {
		return nil, console.Usage("spate plan", errors.New("plans take --rate instead of --request-rate, --max-concurrency, --stages, --duration and ramps"))
	}
	l, err := predict.On(p).Load(r.Bench)
	if err != nil {
		return nil, console.Usage("spate plan", err)
	}
	return &Options{
		Objectives: objectives, Rate: o.rate, Load: l, Burstiness: float64(load.Burstiness), TP: o.tp, MaxSeqs: o.seqs, MaxTokens: o.tokens,
		Seed: uint64(load.Seed),
	}, nil
}

// servers finds the profiles, with their prices.
func (o *Command) servers(p console.Process) ([]*Server, []Refusal, error) {
	shipped, err := profile.Shipped()
	if err != nil {
		return nil, nil, err
	}
	var out []*Server
	var refused []Refusal
	for _, name := range o.profiles {
		s, reason, err := o.server(p, shipped, strings.TrimSpace(name))
		switch {
		case err != nil:
			return nil, nil, console.Usage("spate plan", err)
		case reason != nil:
			refused = append(refused, Refusal{Profile: name, Reason: reason.Error()})
		default:
			out = append(out, s)
		}
	}
	if err := o.setPrices(out); err != nil {
		return nil, nil, console.Usage("spate plan", err)
	}
	return out, refused, nil
}

// server takes a name, a file or model@gpu; reason says why it cannot be planned with.
func (o *Command) server(p console.Process, shipped []*profile.Profile, name string) (s *Server, reason, err error) {
	if model, gpu, ok := engineconf.ProfileName(name); ok && !strings.HasSuffix(name, ".json") {
		s, err = FromPair(model, gpu, o.seed)
		return s, nil, err
	}
	prof, err := profile.Named(p.ReadNamed, shipped, name)
	if err != nil {
		return nil, nil, err
	}
	s, reason = FromProfile(prof, o.seed)
	return s, reason, nil
}

// setPrices gives every server its price; with some known and others not, costs cannot be compared.
func (o *Command) setPrices(list []*Server) error {
	if len(o.prices) == 0 {
		return nil
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name, s.GPU)
	}
	for _, text := range o.prices {
		name, value, ok := strings.Cut(text, "=")
		usd, err := strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
		if !ok || err != nil || !(usd > 0) || math.IsInf(usd, 1) {
			return fmt.Errorf("--price %q does not read NAME=USD, such as H100-SXM=2.5", text)
		}
		used := false
		for _, s := range list {
			if strings.EqualFold(name, s.Name) || strings.EqualFold(name, s.GPU) {
				s.Price, used = usd, true
			}
		}
		if !used {
			return fmt.Errorf("--price %q names neither a profile of --profiles nor its GPU%s", text, nearest.Hint(name, names))
		}
	}
	for _, s := range list {
		if s.Price == 0 {
			return fmt.Errorf("no price for %s: add --price %s=USD, or give none at all", s.Name, s.GPU)
		}
	}
	return nil
}
