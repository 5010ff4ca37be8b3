package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"spate/internal/report"
	"spate/internal/result"
)

// newReport is `spate report FOLDER`.
func newReport(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "report FOLDER...",
		Short: "Print a run from its folder, also one that was killed",
		Long: `Print what was measured in a run folder: the result block, then spate's findings.

A run that was killed left no result.json. Its report is computed from the records of the requests that had
finished, and says so.`,
		Example: "  spate report spate-runs/20261115-120000-model-1a2b",
		Args:    atLeastOne("run folder"),
		RunE: func(_ *cobra.Command, dirs []string) error {
			for _, dir := range dirs {
				run, err := result.Open(dir)
				if err != nil {
					return err
				}
				if err := report.Text(p.Stdout, run); err != nil {
					return fmt.Errorf("write to standard output: %w", err)
				}
			}
			return nil
		},
	}
}
