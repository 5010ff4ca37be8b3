package cli

import "github.com/spf13/cobra"

// newStoreCommand is `spate store`: the commands of the store under one name. Their short forms stay.
func newStoreCommand(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Find, show, label, remove and export the results that are kept",
		Long: `Keep every result in one place and find it again: list, show, tag, rm, export and import work on the store.
Each of them is also a command of spate itself: spate list is spate store list.

Every run of bench, sweep, capacity and tune goes into the store by itself. docs/store.md describes it.`,
		Example: `  spate store list --model qwen --since 7d
  spate store show last
  spate store export -o all.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(storeCommands(p)...)
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

// storeCommands are what can be done with the store.
func storeCommands(p Process) []*cobra.Command {
	return []*cobra.Command{newList(p), newShow(p), newTag(p), newRm(p), newExport(p), newImport(p)}
}
