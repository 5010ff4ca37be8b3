package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/selftest/accuracy"
)

// childCommand is how spate calls itself for the server and the readers of a calibration.
const childCommand = "__calibrate-child"

func newCalibrate(p Process) *cobra.Command {
	c := accuracy.Command{Child: []string{childCommand}}
	cmd := &cobra.Command{
		Use:   "calibrate-client [flags]",
		Short: "Check how far TTFT and ITL measured on this host can be trusted",
		Long: `Run spate's own client on this host, at growing concurrency, against a server with a known timetable
(first token after 50 ms, 100 tokens 10 ms apart). The server is a separate process and notes when it
really wrote each token. For each level, spate prints how far the reported TTFT and ITL are from the true
times and how much CPU the client used; at the end, up to which concurrency results from this host can be
trusted.

It takes about 20 seconds and saves nothing without --output.`,
		Example: `  spate calibrate-client                         1 to 1,000 streams
  spate calibrate-client --levels 64,256         the levels you are going to use
  spate calibrate-client --output host-a.json    keep every figure
  spate calibrate-client --full                  the tables of docs/performance.md; about five minutes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.Context(), p) },
	}
	c.Bind(cmd.Flags())
	return cmd
}

// newCalibrateChild is the server or a reader of a calibration, in a process of its own.
func newCalibrateChild(p Process) *cobra.Command {
	return &cobra.Command{
		Use:    childCommand,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return accuracy.Child(cmd.Context(), p.Stdin, p.Raw())
		},
	}
}
