package listing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/nearest"
	"spate/internal/result"
	"spate/internal/result/store"
)

// This file has the commands of the store: their flags and what they do.

// List is `spate list`.
type List struct {
	filter        store.FilterFlags
	place, format string
	columns       []string
	probes, all   bool
}

// Bind adds the flags to a set.
func (o *List) Bind(f *pflag.FlagSet) {
	o.filter.Bind(f)
	f.StringVar(&o.place, "store", "", store.Help)
	f.StringVar(&o.format, "format", "table", "table, json or csv")
	f.BoolVar(&o.all, "all", false, "show all rows, not only the first 20")
	f.BoolVar(&o.probes, "probes", false, "show one row for each probe of a capacity search, not one for the search")
	f.StringSliceVar(&o.columns, "columns", nil, "figures, labels or settings to show instead of the usual ones, separated by commas")
}

// Run prints the list.
func (o *List) Run(ctx context.Context, p console.Process, queries []string) error {
	f, err := o.filter.Build(time.Now(), queries)
	if err != nil {
		return console.Usage("spate list", err)
	}
	if !slices.Contains(Formats, o.format) {
		return console.Usage("spate list", fmt.Errorf("--format is one of %s, not %q%s", strings.Join(Formats, ", "), o.format, nearest.Hint(o.format, Formats)))
	}
	most := Rows
	if o.all || f.Limit > 0 {
		most = 0
	}
	return store.Use(ctx, p, o.place, func(s *store.Store) error {
		if err := s.CheckFigures(ctx, f); err != nil {
			return console.Usage("spate list", err)
		}
		return Write(ctx, p.Stdout, s, f, o.format, Options{Columns: o.columns, Probes: o.probes, Most: most})
	})
}

// ShowCommand is `spate show ID`.
type ShowCommand struct {
	place string
	json  bool
}

// Bind adds the flags to a set.
func (o *ShowCommand) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.place, "store", "", store.Help)
	f.BoolVar(&o.json, "json", false, "print it as JSON, as spate export writes it")
}

// Run prints results.
func (o *ShowCommand) Run(ctx context.Context, p console.Process, refs []string) error {
	return store.Use(ctx, p, o.place, func(s *store.Store) error {
		for i, ref := range refs {
			if i > 0 {
				p.Print("\n")
			}
			if err := showOne(ctx, p.Stdout, s, ref, o.json); err != nil {
				return err
			}
		}
		return nil
	})
}

func showOne(ctx context.Context, w io.Writer, s *store.Store, ref string, asJSON bool) error {
	it, e, err := s.Get(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		err = ShowJSON(w, &e)
	} else {
		err = Show(w, s, &it, &e)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// Tag is `spate tag ID LABEL...`.
type Tag struct {
	place  string
	remove []string
}

// Bind adds the flags to a set.
func (o *Tag) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.place, "store", "", store.Help)
	f.StringArrayVar(&o.remove, "remove", nil, "remove the label of this name; repeat for several")
}

// Check wants a result and something to do with its labels.
func (o *Tag) Check(args []string) error {
	if len(args) == 0 || len(args) == 1 && len(o.remove) == 0 {
		return errors.New("name a result and a label: spate tag ID name=value")
	}
	return nil
}

// Run sets and removes labels.
func (o *Tag) Run(ctx context.Context, p console.Process, args []string) error {
	set := map[string]string{}
	for _, text := range args[1:] {
		l, err := store.ParseLabel(text)
		if err != nil {
			return console.Usage("spate tag", err)
		}
		set[l.Name] = l.Value
	}
	return store.Use(ctx, p, o.place, func(s *store.Store) error {
		id, err := s.ID(ctx, args[0])
		if err != nil {
			return err
		}
		if err := s.Tag(ctx, id, set, o.remove); err != nil {
			return err
		}
		items, err := s.List(ctx, store.Filter{IDs: []string{id}})
		if err == nil && len(items) == 1 {
			p.Print("%s  %s\n", id, Labels(items[0].Labels))
		}
		return err
	})
}

// Remove is `spate rm ID...`.
type Remove struct {
	place      string
	files, yes bool
}

// Bind adds the flags to a set.
func (o *Remove) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.place, "store", "", store.Help)
	f.BoolVar(&o.files, "files", false, "also delete the folders of the runs")
	f.BoolVarP(&o.yes, "yes", "y", false, "remove without asking")
}

// Run removes results, and their folders where that is asked for.
func (o *Remove) Run(ctx context.Context, p console.Process, refs []string) error {
	return store.Use(ctx, p, o.place, func(s *store.Store) error { return remove(ctx, p, s, refs, o.files, o.yes) })
}

func remove(ctx context.Context, p console.Process, s *store.Store, refs []string, files, yes bool) error {
	var ids []string
	for _, ref := range refs {
		id, err := s.ID(ctx, ref)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	items, err := s.List(ctx, store.Filter{IDs: ids})
	if err != nil {
		return err
	}
	var folders []string
	for i := range items {
		folder := ""
		if files {
			if folder, err = deletable(&items[i]); err != nil {
				return err
			}
		}
		p.Say("%s  %s\n", items[i].ID, What(&items[i]))
		if folder != "" {
			folders = append(folders, folder)
			p.Say("  and its folder %s\n", folder)
		}
	}
	if !yes {
		if err := confirm(p, "remove "+figure.Counted(len(items), "result")); err != nil {
			return err
		}
	}
	for _, folder := range folders { // first: what is still in the store can be removed again
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("delete run folder: %w", err)
		}
	}
	if err := s.Remove(ctx, ids...); err != nil {
		return err
	}
	p.Print("removed %s, %s\n", figure.Counted(len(items), "result"), figure.Counted(len(folders), "folder"))
	return nil
}

// deletable is the folder of a run, if it is there and still that run's: a place can have been taken over
// by something else.
func deletable(it *store.Item) (string, error) {
	if it.Folder == "" {
		return "", nil
	}
	if _, err := os.Stat(it.Folder); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	run, err := result.Open(it.Folder)
	if err != nil {
		return "", fmt.Errorf("%s is not deleted: it is not a run folder any more: %w", it.Folder, err)
	}
	e := result.FromRun(run)
	if result.Identity(&e) != it.Key {
		return "", fmt.Errorf("%s is not deleted: it holds another run than %s now", it.Folder, it.ID)
	}
	return filepath.Clean(it.Folder), nil
}

// confirm asks on standard error and wants a yes on standard input.
func confirm(p console.Process, what string) error {
	p.Say("%s? [y/N] ", what)
	answer, err := bufio.NewReader(p.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			p.Say("\n")
			return errors.New("nothing was removed: nobody confirmed it; --yes confirms")
		}
	}
	return errors.New("nothing was removed")
}
