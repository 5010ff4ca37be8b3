package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/figure"
	"spate/internal/result"
	"spate/internal/result/store"
	"spate/internal/view/listing"
)

// newShow is `spate show ID`.
func newShow(p Process) *cobra.Command {
	var place string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID...",
		Short: "Show a result of the store: figures, settings, where its records lie",
		Long: `Show everything the store knows of a result.

The beginning of an id is enough, or its end after a dash; last is the latest result. A run whose folder was
moved or deleted is shown from its summary, and spate import NEW-FOLDER tells the store where it is now.`,
		Example: `  spate show last
  spate show 20261115-12
  spate show --json 1a2b | jq .result.metrics`,
		Args: atLeastOne("id"),
		RunE: func(cmd *cobra.Command, refs []string) error {
			return withStore(cmd.Context(), p, place, func(s *store.Store) error {
				for i, ref := range refs {
					if i > 0 {
						p.Print("\n")
					}
					if err := showOne(cmd.Context(), p.Stdout, s, ref, asJSON); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, as spate export writes it")
	return cmd
}

func showOne(ctx context.Context, w io.Writer, s *store.Store, ref string, asJSON bool) error {
	it, e, err := s.Get(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		err = listing.ShowJSON(w, &e)
	} else {
		err = listing.Show(w, s, &it, &e)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// newTag is `spate tag ID LABEL...`.
func newTag(p Process) *cobra.Command {
	var place string
	var remove []string
	cmd := &cobra.Command{
		Use:   "tag ID [NAME=VALUE|NAME]... [--remove NAME]",
		Short: "Label a result of the store",
		Long: `Set labels of a result, or remove them. list, compare and report find results by their labels, as in
label:team=search. A name without a value is a label too.

Labels are the store's: the run folder stays as it was written.`,
		Example: `  spate tag last best gpu=H200
  spate tag 20261115-12 team=search --remove best`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && len(remove) == 0 {
				return errors.New("name a result and a label: spate tag ID name=value")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]string{}
			for _, text := range args[1:] {
				l, err := store.ParseLabel(text)
				if err != nil {
					return console.Usage("spate tag", err)
				}
				set[l.Name] = l.Value
			}
			return withStore(cmd.Context(), p, place, func(s *store.Store) error {
				id, err := s.ID(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := s.Tag(cmd.Context(), id, set, remove); err != nil {
					return err
				}
				items, err := s.List(cmd.Context(), store.Filter{IDs: []string{id}})
				if err == nil && len(items) == 1 {
					p.Print("%s  %s\n", id, listing.Labels(items[0].Labels))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "take the label of this name away; repeat for several")
	return cmd
}

// newRm is `spate rm ID...`.
func newRm(p Process) *cobra.Command {
	var place string
	var files, yes bool
	cmd := &cobra.Command{
		Use:   "rm ID...",
		Short: "Remove results from the store",
		Long: `Remove results from the store. Their files stay, unless --files is given: then the folders of runs go too,
with their records. Files of other tools are never deleted.

It asks first; --yes answers.`,
		Example: `  spate rm 20261115-12
  spate rm --files --yes 1a2b 3c4d`,
		Args: atLeastOne("id"),
		RunE: func(cmd *cobra.Command, refs []string) error {
			return withStore(cmd.Context(), p, place, func(s *store.Store) error {
				return remove(cmd.Context(), p, s, refs, files, yes)
			})
		},
	}
	cmd.Flags().StringVar(&place, "store", "", storeHelp)
	cmd.Flags().BoolVar(&files, "files", false, "also delete the folders of the runs")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func remove(ctx context.Context, p Process, s *store.Store, refs []string, files, yes bool) error {
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
		p.Say("%s  %s\n", items[i].ID, listing.What(&items[i]))
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
		return "", fmt.Errorf("%s is not deleted: it is no run folder any more: %w", it.Folder, err)
	}
	e := result.FromRun(run)
	if result.Identity(&e) != it.Key {
		return "", fmt.Errorf("%s is not deleted: it holds another run than %s now", it.Folder, it.ID)
	}
	return filepath.Clean(it.Folder), nil
}

// confirm asks on standard error and wants a yes on standard input.
func confirm(p Process, what string) error {
	p.Say("%s? [y/N] ", what)
	answer, err := bufio.NewReader(p.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	case "":
		if err != nil {
			p.Say("\n")
			return errors.New("nothing was removed: nobody answered; --yes answers")
		}
	}
	return errors.New("nothing was removed")
}
