package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/settings/dialect"
	"spate/internal/view/curve"
)

// newExplainDiff is `spate explain-diff A B`.
func newExplainDiff(p Process) *cobra.Command {
	var asJSON bool
	var where, asA, asB string
	cmd := &cobra.Command{
		Use:   "explain-diff [flags] A B",
		Short: "Explain which definitions make two tools' numbers differ, and by how much",
		Long: `Set two results of the same workload side by side, figure by figure, and say where the tools define a figure
differently: when a request ends, what the first token is, which tokens are counted.

Where one of the results is a run of spate, its records are put through both tools' formulas: what then differs
is made by the definitions, and what is left by the measurements. Without records only the definitions are told.

Whose words a result is in is seen from its format; --a and --b say it where that is not enough.`,
		Example: `  spate explain-diff spate-runs/20261115-120000-model-1a2b lmdeploy.log
  spate explain-diff --b sglang run run          one run in two tools' words`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want two results, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, refs []string) error {
			lines, names, err := explainDiff(cmd.Context(), p, where, refs, [2]string{asA, asB})
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(p.Stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(lines)
			}
			for i := range lines {
				p.Print("%s\n", lines[i].Sentence(names[0], names[1]))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an array of figures")
	cmd.Flags().StringVar(&asA, "a", "", "`tool` whose definitions A follows")
	cmd.Flags().StringVar(&asB, "b", "", "`tool` whose definitions B follows")
	cmd.Flags().StringVar(&where, "store", "", "`where` ids are looked up")
	return cmd
}

func explainDiff(ctx context.Context, p Process, where string, refs []string, as [2]string) (lines []dialect.Line, names [2]string, err error) {
	where, err = store.Locate(where, p.Getenv)
	if err != nil {
		return nil, names, err
	}
	finder := store.Finder{Where: where, Stdin: p.Stdin}
	defer func() { err = errors.Join(err, finder.Close()) }()
	var sides [2]dialect.Side
	for i, ref := range refs {
		set, err := finder.Resolve(ctx, []string{ref})
		if err != nil {
			return nil, names, err
		}
		if len(set) != 1 {
			return nil, names, fmt.Errorf("%s holds %d results: name one, as file:line", ref, len(set))
		}
		if sides[i], err = newSide(&set[0], as[i]); err != nil {
			return nil, names, err
		}
		names[i] = string(sides[i].Dialect)
	}
	if names[0] == names[1] {
		short := curve.Names([]result.Entry{*sides[0].Entry, *sides[1].Entry})
		names = [2]string{short[0], short[1]}
	}
	lines = dialect.Compare(sides[0], sides[1])
	if len(lines) == 0 {
		return nil, names, errors.New("the two results have no figure in common")
	}
	return lines, names, nil
}

// newSide is a result with its records, where it has some.
func newSide(e *result.Entry, as string) (dialect.Side, error) {
	s := dialect.Side{Name: e.Name, Dialect: dialect.Of(e), Entry: e}
	if as != "" {
		name, err := dialect.Parse(as)
		if err != nil {
			return s, err
		}
		s.Dialect = name
	}
	recs, err := e.Records()
	if err != nil || recs == nil {
		return s, err
	}
	s.Run = &dialect.Run{Run: e.Run, Records: recs, Now: time.Now()}
	return s, nil
}
