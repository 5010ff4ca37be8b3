package cli

import (
	"github.com/spf13/cobra"

	"spate/internal/fleet/coordinator"
	"spate/internal/fleet/worker"
)

// newWorker is `spate worker`.
func newWorker(p Process) *cobra.Command {
	var o worker.Command
	cmd := &cobra.Command{
		Use:   "worker --join URL [flags]",
		Short: "Send parts of runs that coordinators hand out",
		Long: `Connect to the broker of a fleet, wait for work, and send the parts of runs that coordinators hand out: one run at a
time, any number of them one after the other. It dials out, so that no port of this host needs to be open.

Records are written to a log on this host as requests end, and sent to the broker, which acknowledges them. What could
not be delivered is delivered when the broker is there again, also by a worker that is started anew with the same --dir.
A worker that hears no coordinator for 10 seconds stops sending.

The server's API key is taken from the settings of the run, over a connection with TLS or within this host, or from
OPENAI_API_KEY here. docs/fleet.md has the whole picture.`,
		Example: `  spate worker --join nats://127.0.0.1:4222        the token is in SPATE_FLEET_TOKEN
  spate worker --join fleet.join                   the file that spate fleet serve has written`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context(), p) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

// newFleet is `spate fleet`.
func newFleet(p Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run the broker of a fleet, see who is there, finish a run",
		Long: `A fleet is workers that share the load of a run: spate worker on each host, a broker between them, and
spate bench --fleet URL --workers N, which hands out the parts and puts the records together.

docs/fleet.md shows who says what to whom, and what holds when something breaks.`,
		Example: `  spate fleet serve                                                   the broker
  spate worker --join fleet.join                                      on every host
  spate bench --fleet fleet.join --workers 4 --num-prompts 1000`,
		Args: cobra.ArbitraryArgs,
		RunE: runParent,
	}
	cmd.AddCommand(newFleetServe(p), newFleetStatus(p), newFleetDrain(p), newFleetCollect(p))
	for _, c := range cmd.Commands() {
		c.Args = usageArgs(c.Args)
	}
	return cmd
}

func newFleetServe(p Process) *cobra.Command {
	var o coordinator.ServeCommand
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker of a fleet on an address of its own",
		Long: `Run a broker (NATS with JetStream) that workers and coordinators connect to. It listens on this host only, unless
--listen says otherwise; then it speaks TLS, with a certificate of its own making unless --tls-cert names one.

Who connects needs its token. Both are in the join file, which is written for its owner only: copy it to the hosts of
the workers, and name it in spate worker --join and spate bench --fleet.`,
		Example: `  spate fleet serve                                             for workers on this host
  spate fleet serve --listen 0.0.0.0:4222 --advertise bench.example.com --join-file fleet.join
  scp fleet.join gpu7: && ssh gpu7 spate worker --join fleet.join`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context(), p) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

func newFleetStatus(p Process) *cobra.Command {
	var o coordinator.StatusCommand
	cmd := &cobra.Command{
		Use:   "status --fleet URL",
		Short: "Show who is there, and which runs are kept",
		Long: `Show the workers of a fleet: their host, version and cores, the load average of the host over the last minute, clock
offset and round trip, how many runs they have finished, and what they do. Below stand runs of which the broker still
keeps records: those under way, and those that spate fleet collect can finish.

The clock offset is the worker's wall clock less that of this host, from the fastest of 24 questions that are asked now;
it is right to within half the round trip, which is from here to the worker through the broker. A run does not depend
on it: it compares clocks by itself. A "-" is what a worker does not tell.

How much load a host can send without error is measured there, with spate calibrate-client.`,
		Example: `  spate fleet status --fleet fleet.join
  spate fleet status --fleet fleet.join --json     the same with times in nanoseconds`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context(), p) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

func newFleetDrain(p Process) *cobra.Command {
	var o coordinator.DrainCommand
	cmd := &cobra.Command{
		Use:   "drain [WORKER...] --fleet URL",
		Short: "End workers when they have finished what they do",
		Long:  "Tell workers, or those that are named, to take no further run and to end when they have finished the one they work on.",
		Example: `  spate fleet drain --fleet fleet.join            all of them
  spate fleet drain gpu7-4711 --fleet fleet.join`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args) },
	}
	o.Bind(cmd.Flags())
	return cmd
}

func newFleetCollect(p Process) *cobra.Command {
	var o coordinator.CollectCommand
	cmd := &cobra.Command{
		Use:   "collect RUN --fleet URL",
		Short: "Finish the folder of a run whose coordinator died",
		Long: `Put the records that the broker keeps of a run into its folder, and compute the result: for a run whose coordinator was
killed, and for one whose lost workers came back later. RUN is the name that spate fleet status shows, or the run's folder.

For a run of workers on one host, which had its broker inside the coordinator, name the folder; --fleet is not needed.`,
		Example: `  spate fleet collect 20261116-101500-1a2b3c4d --fleet fleet.join
  spate fleet collect spate-runs/20261116-101500-model-1a2b3c`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), p, args[0]) },
	}
	o.Bind(cmd.Flags())
	return cmd
}
