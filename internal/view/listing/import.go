package listing

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/result/harvest"
	"spate/internal/result/store"
)

// Import is `spate import FILE|DIR...`.
type Import struct {
	json, strict, noStore bool
	place                 string
}

// Bind adds the flags to a set.
func (o *Import) Bind(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per result")
	f.BoolVar(&o.strict, "strict", false, "exit with code 3 when anything is damaged or contradicts itself")
	f.StringVar(&o.place, "store", "", store.Help)
	f.BoolVar(&o.noStore, "no-store", false, "do not put the results into the store")
}

// Run reads files, prints the results in them, and puts them into the store.
func (o *Import) Run(ctx context.Context, p console.Process, paths []string) error {
	if o.noStore {
		o.place = store.None
	}
	telling := p.Reading(paths)
	set, err := harvest.Find(paths, p.Stdin)
	telling.End()
	if err != nil {
		return err
	}
	if o.json {
		err = FoundJSON(p.Stdout, set)
		Problems(p.Stderr, set)
	} else {
		err = Found(p.Stdout, set)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	switch {
	case o.strict && set.Bad() > 0:
		return console.Exit(console.ExitUnmet)
	case len(set.Entries) == 0:
		return fmt.Errorf("no result found in %s", strings.Join(paths, ", "))
	}
	if kept := store.Keep(ctx, p, o.place, set.Entries); len(kept) > 0 && !o.json {
		p.Print("%s\n", countKept(kept))
	}
	return nil
}

func countKept(kept []store.Kept) string {
	known := 0
	for _, k := range kept {
		if !k.New {
			known++
		}
	}
	switch known {
	case 0:
		return "all in the store now: spate list"
	case len(kept):
		return "all in the store already: spate list"
	}
	return fmt.Sprintf("%d put into the store, %d in it already: spate list", len(kept)-known, known)
}
