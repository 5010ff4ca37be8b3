package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate/internal/predict"
	"spate/internal/profile"
)

// newPredict is spate predict: figures of runs that nobody made.
func newPredict(p Process) *cobra.Command {
	var opt struct {
		validate  string
		json      bool
		intervals bool
		profiles  []string
		seed      uint64
	}
	cmd := &cobra.Command{
		Use:   "predict [flags]",
		Short: "Say what a benchmark would show, from a calibrated profile",
		Example: `  spate predict --validate rows.json            replay published runs, with their errors
  spate predict --validate rows.json --json     the same, for programs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.validate == "" {
				return usage{cmd.CommandPath(), fmt.Errorf("nothing to predict: give --validate ROWS")}
			}
			data, err := p.ReadFile(opt.validate)
			if err != nil {
				return fmt.Errorf("reading %s: %w", opt.validate, err)
			}
			f, err := predict.ParseRows(data)
			if err != nil {
				return fmt.Errorf("%s: %w", opt.validate, err)
			}
			profiles, err := readProfiles(p, opt.profiles)
			if err != nil {
				return err
			}
			list, err := predict.Validate(f, profiles, opt.seed, opt.intervals)
			if err != nil {
				return err
			}
			if opt.json {
				return predict.WriteJSON(p.Stdout, list)
			}
			return predict.WriteTable(p.Stdout, list)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.validate, "validate", "", "rows file to replay and compare with")
	f.BoolVar(&opt.json, "json", false, "print JSON")
	f.BoolVar(&opt.intervals, "intervals", false, "add what other parameters within noise predict")
	f.StringArrayVar(&opt.profiles, "profiles", nil, "profile file, or folder of them, instead of those in the binary")
	f.Uint64Var(&opt.seed, "sim-seed", 0, "seed of what the simulation draws")
	return cmd
}

// readProfiles reads profile files and folders; without any, those in the binary.
func readProfiles(p Process, paths []string) ([]*profile.Profile, error) {
	if len(paths) == 0 {
		return profile.Shipped()
	}
	var out []*profile.Profile
	for _, path := range paths {
		files, err := profileFiles(path)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			data, err := p.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			prof, err := profile.Decode(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, prof)
		}
	}
	return out, nil
}
