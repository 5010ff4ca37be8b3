package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"spate/internal/calibrate"
	"spate/internal/predict"
	"spate/internal/result"
)

// newCalibrateEngine is spate calibrate: profiles from benchmark tables.
func newCalibrateEngine(p Process) *cobra.Command {
	var opt struct {
		out    string
		report string
		only   string
		cross  bool
		seed   uint64
	}
	cmd := &cobra.Command{
		Use:   "calibrate ROWS -o FOLDER",
		Short: "Fit the simulator to measured runs",
		Example: `  spate calibrate rows.json -o profiles/                  one profile per server in the file
  spate calibrate rows.json -o profiles/ --group 002      only one of them`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := p.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading %s: %w", args[0], err)
			}
			f, err := predict.ParseRows(data)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			debug.SetGCPercent(400) // thousands of short-lived servers, and memory to spare
			sum := sha256.Sum256(data)
			done, err := calibrate.Run(f, calibrate.Options{
				Source: filepath.Base(args[0]), Digest: hex.EncodeToString(sum[:]), Seed: opt.seed, Cross: opt.cross, Only: opt.only,
				Progress: func(format string, a ...any) { say(p.Stderr, format+"\n", a...) },
			})
			if err != nil {
				return err
			}
			if err := saveProfiles(p, done, opt.out); err != nil {
				return err
			}
			if opt.report != "" {
				if err := saveFidelity(f, done, opt.report); err != nil {
					return err
				}
			}
			return calibrate.Summary(p.Stdout, f, done)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&opt.out, "output", "o", "profiles", "folder for the profiles")
	f.StringVar(&opt.only, "group", "", "fit only the servers that share parameters with this group")
	f.BoolVar(&opt.cross, "cross-validate", true, "predict every row from a fit of the others, too")
	f.StringVar(&opt.report, "report", "", "write errors of all rows to this Markdown file, with pictures beside it")
	f.Uint64Var(&opt.seed, "sim-seed", 0, "seed of what the simulation draws")
	return cmd
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
		say(p.Stderr, "%s\n", n)
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

// profileFiles is a file, or the JSON files of a folder.
func profileFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking for profiles: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for profiles: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no profile (*.json) in %s", path)
	}
	slices.Sort(files)
	return files, nil
}
