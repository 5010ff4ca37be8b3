package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// besideBench is a command with flags of its own beside those of bench, which follow argparse's rules, so that cobra
// does not read them.
type besideBench interface {
	Flags() *pflag.FlagSet
	Run(ctx context.Context, p Process, own *pflag.FlagSet, args []string) error
}

// beside makes a command of it. Each call gets a new one.
func beside(p Process, cmd *cobra.Command, create func() besideBench) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) { mixedHelp(p.Stdout, c, create().Flags()) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o := create()
		err := o.Run(cmd.Context(), p, o.Flags(), args)
		if errors.Is(err, pflag.ErrHelp) {
			return cmd.Help()
		}
		return err
	}
	return cmd
}
