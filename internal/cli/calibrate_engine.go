package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/forecast/calibrate"
	"spate/internal/forecast/predict"
	"spate/internal/result"
)

// calibrateOptions are the flags of calibrate.
type calibrateOptions struct {
	out    string
	report string
	rows   string
	only   string
	cross  bool
	seed   uint64
	given  calibrate.Given
	prefix bool
	cold   bool
}

// newCalibrateEngine is spate calibrate: profiles from whatever was measured.
func newCalibrateEngine(p Process) *cobra.Command {
	o := &calibrateOptions{}
	cmd := &cobra.Command{
		Use:   "calibrate FILE|DIR... -o FOLDER",
		Short: "Fit the simulator to measured runs",
		Long: `Fit the simulator to measured runs, and write a profile for every server found.

Files and folders may hold anything that "spate import" reads (spate's run folders, result files and logs of vLLM,
SGLang, LMDeploy and others), logs of an engine's start, logs of its steps (vLLM: --enable-logging-iteration-details),
and rows files. Steps give the step time directly, start-up lines give the version, flags and size of the KV cache, and results
give the rest. If a text does not say something, give it by flag; a result that lacks something is left out, with the reason.`,
		Example: `  spate calibrate rows.json -o profiles/                             one profile per server in the file
  spate calibrate rows.json -o profiles/ --group 002                 only one of them
  spate calibrate results/ --gpu H100 --engine-version 0.10.1        a folder of vLLM's result files
  spate calibrate server.log bench.log --gpu A100-80GB --one-server  logs of a server and of its client`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(p, args) },
	}
	o.bind(cmd.Flags())
	return cmd
}

func (o *calibrateOptions) bind(f *pflag.FlagSet) {
	f.StringVarP(&o.out, "output", "o", "profiles", "folder for the profiles")
	f.StringVar(&o.only, "group", "", "fit only the servers that share parameters with this group")
	f.BoolVar(&o.cross, "cross-validate", true, "predict every row from a fit of the others, too")
	f.StringVar(&o.report, "report", "", "write errors of all rows to this Markdown file, with pictures beside it")
	f.StringVar(&o.rows, "rows", "", "write the rows that were used to this file")
	f.Uint64Var(&o.seed, "sim-seed", 0, "seed of the random numbers of the simulation")
	g := &o.given
	f.StringVar(&g.Name, "name", "", "name of the profile, when there is one server (default by model, GPU and version)")
	f.StringVar(&g.Server.Model, "model", "", "model the servers had, where the text does not say or uses another name")
	f.StringVar(&g.Server.GPU, "gpu", "", "GPU the servers had, such as H100; unknown fits without physics")
	f.StringVar(&g.Server.Engine, "engine", "", "engine, where the text does not say: vllm, sglang, lmdeploy")
	f.StringVar(&g.Server.Version, "engine-version", "", "its version, where the text does not say")
	f.IntVar(&g.Server.TP, "tensor-parallel-size", 0, "GPUs that shared every layer, where the text does not say (1)")
	f.IntVar(&g.Server.Nodes, "nnodes", 0, "nodes the servers were spread over")
	f.IntVar(&g.Server.MaxSeqs, "max-num-seqs", 0, "sequences in a step, where the text does not say (the engine's default)")
	f.IntVar(&g.Server.MaxTokens, "max-num-batched-tokens", 0, "tokens in a step, where the text does not say (the engine's default)")
	f.IntVar(&g.Server.MaxModelLen, "max-model-len", 0, "longest context, where the text does not say (the engine's default)")
	f.IntVar(&g.Server.KVTokens, "kv-cache-tokens", 0, "size of the KV cache in tokens, where no start-up line says")
	f.BoolVar(&o.prefix, "enable-prefix-caching", false, "the servers reused common prompt beginnings")
	f.BoolVar(&o.cold, "no-enable-prefix-caching", false, "the servers did not reuse common prompt beginnings")
	f.StringVar(&g.Dataset, "dataset-name", "", "kind of the prompts, where the text does not say: random, sharegpt, sonnet, fixed (all the same length)")
	f.StringVar(&g.Rate, "request-rate", "", "requests per second, where the text does not say; inf for all at once")
	f.IntVar(&g.Slots, "max-concurrency", 0, "most requests in flight, where the text does not say")
	f.IntVar(&g.Input, "input-len", 0, "mean tokens of a prompt, where the text does not say")
	f.IntVar(&g.Output, "output-len", 0, "mean tokens of an answer, where the text does not say")
	f.BoolVar(&g.Same, "one-server", false, "one server process served all runs, one after another, and kept its prefix cache between them")
}

func (o *calibrateOptions) run(p Process, args []string) error {
	if o.prefix || o.cold {
		o.given.Server.PrefixCaching = &o.prefix
	}
	note := func(format string, a ...any) { p.Say(format+"\n", a...) }
	in, err := (&calibrate.Reader{ReadFile: p.ReadFile, Stdin: p.Stdin, Given: o.given, Note: note}).Gather(args)
	if err != nil {
		if _, given := errors.AsType[*calibrate.GivenError](err); given {
			return console.Usage("spate calibrate", err)
		}
		return err
	}
	debug.SetGCPercent(400) // thousands of short-lived servers, and memory to spare
	if o.rows != "" {
		if err := saveRows(in.File, o.rows); err != nil {
			return err
		}
	}
	done, err := in.Calibrate(calibrate.Options{Seed: o.seed, Cross: o.cross, Only: o.only, Progress: note})
	if err != nil {
		return err
	}
	if err := saveProfiles(p, done, o.out); err != nil {
		return err
	}
	if o.report != "" {
		if err := saveFidelity(in.File, done, o.report); err != nil {
			return err
		}
	}
	if len(in.File.Rows) == 0 {
		return stepsSummary(p, done)
	}
	return calibrate.Summary(p.Stdout, in.File, done)
}

func saveProfiles(p Process, done *calibrate.Outcome, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of profiles: %w", err)
	}
	for _, prof := range done.Profiles {
		data, err := prof.Encode()
		if err != nil {
			return err
		}
		if err := result.Save(filepath.Join(folder, prof.Name+".json"), data, false); err != nil {
			return fmt.Errorf("saving profile %s: %w", prof.Name, err)
		}
	}
	for _, n := range done.Notes {
		p.Say("%s\n", n)
	}
	return nil
}

// saveFidelity writes the report and its pictures.
func saveFidelity(f *predict.File, done *calibrate.Outcome, path string) error {
	for _, file := range calibrate.Report(f, done) {
		name := path
		if file.Name != "" {
			name = filepath.Join(filepath.Dir(path), file.Name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return fmt.Errorf("making the folder of pictures: %w", err)
			}
		}
		if err := result.Save(name, file.Data, false); err != nil {
			return fmt.Errorf("saving %s: %w", name, err)
		}
	}
	return nil
}

// stepsSummary tells what an engine's steps alone gave.
func stepsSummary(p Process, done *calibrate.Outcome) error {
	for _, prof := range done.Profiles {
		p.Print("%s\n", prof.Name)
		for _, q := range prof.Params {
			state := fmt.Sprintf("%s to %s", predict.Digits(q.Low), predict.Digits(q.High))
			if !q.Free {
				state = "expected, not determined"
			}
			p.Print("  %-10s %10s %-12s %s\n", q.Name, predict.Digits(q.Value), q.Unit, state)
		}
	}
	return nil
}

// saveRows keeps the rows that were made, for another day.
func saveRows(f *predict.File, path string) error {
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("writing the rows: %w", err)
	}
	if err := result.Save(path, append(data, '\n'), false); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	return nil
}
