package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/forecast/predict"
	"spate/internal/forecast/profile"
	"spate/internal/settings/flags"
)

// predictOptions are the flags of predict itself; the rest are those of bench.
type predictOptions struct {
	validate   string
	compare    string
	profile    string
	profiles   []string
	json       bool
	intervals  bool
	list       bool
	help       bool
	noFolder   bool
	seed       uint64
	override   profile.Override
	noPrefix   bool
	yesPrefix  bool
	log        string
	mixedFlags // bench and override flags that were given several values are a grid
}

// set are the flags of predict itself.
func (o *predictOptions) set() *pflag.FlagSet {
	f := pflag.NewFlagSet("predict", pflag.ContinueOnError)
	f.StringVar(&o.profile, "sim", "", "simulated engine to predict with: a `NAME` (see --list), a file, or model@gpu such as Qwen3-8B@H100-SXM, which is not calibrated")
	f.StringVar(&o.validate, "validate", "", "rows file to replay and compare with")
	f.StringVar(&o.compare, "compare", "", "run folder to predict and compare with")
	f.StringArrayVar(&o.profiles, "profile-files", nil, "profile file, or folder of them, instead of those in the binary")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.intervals, "intervals", true, "add what other parameters within noise predict (never with --validate unless asked for)")
	f.BoolVar(&o.list, "list", false, "list the profiles")
	f.BoolVar(&o.noFolder, "no-run-folder", false, "keep no run folder")
	f.StringVar(&o.log, "engine-log", "", "write the log the engine would write to this file: its start, and every step")
	f.Uint64Var(&o.seed, "sim-seed", 0, "seed of what the simulation draws")
	f.IntVar(&o.override.MaxSeqs, "max-num-seqs", 0, "sequences in a step, other than the profile's")
	f.IntVar(&o.override.MaxTokens, "max-num-batched-tokens", 0, "tokens in a step, other than the profile's")
	f.IntVar(&o.override.MaxModelLen, "max-model-len", 0, "longest context, other than the profile's")
	f.IntVar(&o.override.KVTokens, "kv-cache-tokens", 0, "size of the KV cache in tokens, other than the profile's")
	f.IntVar(&o.override.TP, "tensor-parallel-size", 0, "GPUs that share every layer, other than the profile's")
	f.BoolVar(&o.yesPrefix, "enable-prefix-caching", false, "reuse the KV of common prompt beginnings")
	f.BoolVar(&o.noPrefix, "no-enable-prefix-caching", false, "turn prefix caching off")
	f.BoolVarP(&o.help, "help", "h", false, "help for this command")
	renamed(f, map[string]string{"profile": "sim", "profiles": "profile-files"})
	return f
}

// newPredict is spate predict: figures of runs that nobody made. Beside its own flags it takes those
// of bench, which follow argparse's rules, so cobra does not read them.
func newPredict(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict [flags of bench] --sim NAME",
		Short: "Predict what a benchmark would show, from a calibrated profile",
		Long: `Predict what a benchmark would show, from a calibrated profile, or from a model's shape and a GPU's datasheet
(model@gpu), in virtual time.

All flags of bench that say what is sent and when are taken, with the same meaning: datasets (those of a file need
a tokenizer for exact lengths and shared beginnings), rates, bursts, closed loops, ramps, stages and durations. Several
values separated by commas give a table of all combinations.`,
		Example: `  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --stages 60s@2,60s@8 --random-input-len 1024 --random-output-len 128
  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --num-prompts 200 --random-input-len 1024 --random-output-len 128
  spate predict --sim qwen2-7b-2xA100-80GB-vllm0.10 --max-concurrency 1,8,64 --max-num-seqs 128,256
  spate predict --sim Qwen3-32B@H100-SXM --tensor-parallel-size 2,4 --request-rate 8
  spate predict --validate rows.json --json`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := &predictOptions{}
			own := o.set()
			mixed, err := divideFlags(own, args, gridFlags)
			if err != nil {
				return console.Usage("spate predict", err)
			}
			o.mixedFlags = *mixed
			if o.help {
				return cmd.Help()
			}
			return runPredict(p, o, own)
		},
	}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) { mixedHelp(p.Stdout, c, new(predictOptions).set()) })
	return cmd
}

// gridFlags are the flags of bench that may be given several values.
var gridFlags = []string{
	"num-prompts", "request-rate", "max-concurrency", "input-len", "output-len", "random-input-len", "random-output-len",
	"random-range-ratio", "random-prefix-len", "burstiness", "seed",
}

func runPredict(p Process, o *predictOptions, own *pflag.FlagSet) error {
	profiles, err := profile.Read(readingFile(p), o.profiles)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		return console.Wrote(profile.WriteList(p.Stdout, profiles))
	case o.validate != "":
		return runValidate(p, o, own, profiles)
	case o.profile == "":
		return console.Usage("spate predict", errors.New("no server to predict: give --sim NAME (spate predict --list shows them) or --validate ROWS"))
	}
	prof, err := profile.Named(readingFile(p), profiles, o.profile)
	if err != nil {
		return err
	}
	switch {
	case o.yesPrefix:
		o.override.PrefixCaching = &o.yesPrefix
	case o.noPrefix:
		off := false
		o.override.PrefixCaching = &off
	}
	if o.compare != "" {
		return runCompare(p, o, prof)
	}
	if len(o.lists) > 0 {
		return runGrid(p, o, prof)
	}
	return runOnePrediction(p, o, prof)
}

func runValidate(p Process, o *predictOptions, own *pflag.FlagSet, profiles []*profile.Profile) error {
	data, err := p.ReadFile(o.validate)
	if err != nil {
		return fmt.Errorf("reading %s: %w", o.validate, err)
	}
	f, err := predict.ParseRows(data)
	if err != nil {
		return fmt.Errorf("%s: %w", o.validate, err)
	}
	list, err := predict.Validate(f, profiles, o.seed, o.intervals && own.Changed("intervals"))
	if err != nil {
		return err
	}
	if o.json {
		return predict.WriteJSON(p.Stdout, list)
	}
	return predict.WriteTable(p.Stdout, list)
}

// load reads bench's flags, with one combination of the values given in lists.
func (o *predictOptions) load(p Process, extra []string) (*predict.Load, *flags.Result, error) {
	r, err := benchSettings(p, "predict", append(slices.Clone(o.bench), extra...))
	if err != nil {
		return nil, nil, err
	}
	l, err := newLoad(p, "predict", r.Bench)
	return l, r, err
}
