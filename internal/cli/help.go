package cli

import (
	"fmt"
	"io"
	"strings"

	"spate/internal/console"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is where the help of flags is wrapped.
const helpWidth = 100

// commandGroups are the parts of `spate --help`, and which commands stand in each. A test fails for a command that
// stands in none.
var commandGroups = []struct{ id, title, commands string }{
	{"measure", "Measure:", "bench demo sweep capacity launch record worker fleet"},
	{"results", "Results:", "report compare explain explain-diff import store list show tag rm export"},
	{"predict", "Predict:", "predict plan calibrate sim"},
	{"tune", "Tune:", "tune"},
	{"tools", "Tools:", "dataset calibrate-client selftest completion version help"},
}

// groupCommands puts the commands of the program into their groups.
func groupCommands(root *cobra.Command) {
	ids := map[string]string{}
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range strings.Fields(g.commands) {
			ids[name] = g.id
		}
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(root.Name()) // after all others: it looks whether there are any
	for _, c := range root.Commands() {
		c.GroupID = ids[c.Name()]
		switch c.Name() {
		case "help":
			c.Short = "Show the help of a command"
		case "completion":
			c.Short = "Write the completion script of a shell"
			c.Example = "  source <(spate completion bash)    commands, flags and their values by the tab key"
		}
	}
	root.SetUsageFunc(func(c *cobra.Command) error { return writeUsage(c.OutOrStderr(), c) })
}

// writeUsage prints what follows a command's description: how to call it, examples, commands and flags in groups.
func writeUsage(w io.Writer, c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range c.Groups() {
		writeCommands(&b, g.Title, c, g.ID)
	}
	if len(c.Groups()) == 0 && c.HasAvailableSubCommands() {
		writeCommands(&b, "Commands:", c, "")
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString("\n" + flagUsages(c.LocalFlags(), flagGroups[commandName(c)]))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" describes a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCommands lists the commands of one group.
func writeCommands(b *strings.Builder, title string, parent *cobra.Command, id string) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, c := range parent.Commands() {
		if c.GroupID == id && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(b, "  %-*s %s\n", parent.Commands()[0].NamePadding(), c.Name(), c.Short)
		}
	}
}

// commandName is a command without the program's name; a command of the store has the name of its short form.
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return strings.TrimPrefix(name, "store ")
}

// mixedHelp prints the help of a command with flags of its own beside those of bench.
func mixedHelp(w io.Writer, c *cobra.Command, own *pflag.FlagSet) {
	console.Say(w, "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n\n%s\nIt also takes the flags of bench: spate bench --help\n",
		c.Long, c.Parent().CommandPath()+" "+c.Use, c.Example, flagUsages(own, flagGroups[commandName(c)]))
}

// flagUsages describes flags, those of each group under its title. What stands in no group comes last.
func flagUsages(all *pflag.FlagSet, groups []flagGroup) string {
	var b strings.Builder
	grouped := map[string]bool{}
	for _, g := range groups {
		set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		set.SortFlags = false // they stand in the order of the group
		for _, name := range strings.Fields(g.flags) {
			if f := all.Lookup(name); f != nil {
				set.AddFlag(f)
				grouped[name] = true
			}
		}
		fmt.Fprintf(&b, "%s:\n%s\n", g.title, set.FlagUsagesWrapped(helpWidth))
	}
	rest := pflag.NewFlagSet("rest", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] {
			rest.AddFlag(f)
		}
	})
	title := "Flags"
	if len(groups) > 0 {
		title = "Help"
	}
	fmt.Fprintf(&b, "%s:\n%s", title, rest.FlagUsagesWrapped(helpWidth))
	return b.String()
}

// flagGroup is a part of a command's flags.
type flagGroup struct{ title, flags string }

// whichResults are the filters that list and export share.
const whichResults = "where model backend engine gpu label verdict since until sort limit store"

// flagGroups are the groups of the commands with many flags; those of bench are in internal/settings/flags. A test
// fails for a flag that stands in none.
var flagGroups = map[string][]flagGroup{
	"calibrate": {
		{"What is written", "output name rows report"},
		{"How it is fitted", "group one-server cross-validate sim-seed"},
		{"The server, where the text does not say", "model gpu nnodes engine engine-version tensor-parallel-size max-num-seqs max-num-batched-tokens " +
			"max-model-len kv-cache-tokens enable-prefix-caching no-enable-prefix-caching"},
		{"The load, where the text does not say", "dataset-name input-len output-len request-rate max-concurrency"},
	},
	"calibrate-client": {
		{"What is measured", "levels rounds repeat full tokenizer"},
		{"What is trusted", "ttft-bound itl-bound"},
		{"What is printed", "json output"},
	},
	"capacity": {
		{"What is searched", "slo by min max start tolerance at-least"},
		{"Probes", "probe-time repeat max-repeat max-probes cache cooldown"},
		{"Instead of measuring", "predict"},
		{"Output", "json output-dir resume no-store"},
	},
	"compare": {
		{"What is compared", "by metrics baseline force store"},
		{"The gate", "max-regression threshold margin fail-unsure"},
		{"Noise", "learn-noise noise-file no-noise-floor"},
		{"Output", "format"},
	},
	"dataset make": {
		{"What is made", "requests like isl osl groups share chunk seed"},
		{"Arrivals", "rate burstiness"},
		{"Output", "output to"},
	},
	"export": {{"Which results", whichResults}, {"Output", "output format"}},
	"launch": {
		{"The server", "env gpus gpu-memory-used-ok url"},
		{"Start and end", "timeout grace stop-command log"},
	},
	"list": {{"Which results", whichResults}, {"Output", "columns format all probes"}},
	"plan": {
		{"What is wanted", "slo rate price"},
		{"What is tried", "profiles tensor-parallel-size max-num-seqs max-num-batched-tokens"},
		{"The simulation", "num-prompts sim-seed"},
		{"Output", "json"},
	},
	"predict": {
		{"The simulated server", "sim profile-files list tensor-parallel-size max-num-seqs max-num-batched-tokens max-model-len kv-cache-tokens " +
			"enable-prefix-caching no-enable-prefix-caching"},
		{"The simulation", "sim-seed intervals"},
		{"Beside what was measured", "compare validate"},
		{"Output", "json engine-log no-run-folder"},
	},
	"record": {
		{"Where requests come from and go to", "listen upstream"},
		{"What is written", "output overwrite all block-size tokenizer salt-file keep-text"},
		{"Instead of recording", "sort"},
	},
	"report": {
		{"Output", "output format title charts"},
		{"Tables", "columns group-by split by baseline"},
		{"Where results are", "store"},
	},
	"selftest verdict": {
		{"What is run", "runs bent only budget seed parallel"},
		{"Output", "json output"},
	},
	"sim": {
		{"What is served", "sim model served-model-name gpu engine engine-version list-profiles time-scale seed"},
		{"Where it listens", "host port unix-socket tls tls-ca-file api-key sim-control start-delay"},
		{"Engine: size and memory", "tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel nnodes node-link dtype quantization " +
			"kv-cache-dtype kv-cache-memory-bytes gpu-memory-utilization num-gpu-blocks-override swap-space block-size"},
		{"Engine: scheduling", "max-num-seqs max-num-batched-tokens max-model-len enable-chunked-prefill enable-prefix-caching async-scheduling " +
			"num-scheduler-steps scheduler-delay-factor scheduler-reserve-full-isl long-prefill-token-threshold preemption-mode watermark enforce-eager"},
		{"Engine: adapters and speculation", "enable-lora lora-modules max-loras max-lora-rank speculative-config speculative-acceptance"},
		{"Several engines", "router prefill-engines decode-engines kv-link kv-loss kv-retries kv-load-failure-policy"},
		{"A timetable instead of an engine", "timetable ttft ttft-spread prefill itl jitter max-running prefix-cache output-len output-vary tokens-per-chunk reasoning tool-tokens script"},
		{"Faults", "fault"},
		{"What it tells", "enable-logging-iteration-details enable-per-request-metrics enable-prompt-tokens-details stamp truth-file"},
	},
	"sweep": {
		{"What is measured", "repeat order order-seed cache cooldown dry-run"},
		{"Servers that are started", "launch launch-gpus launch-gpu-memory-used-ok launch-timeout"},
		{"Instead of measuring", "predict"},
		{"Output", "name output output-dir resume no-store"},
	},
	"tune": {
		{"The search", "trials strategy seed at-rate dry-run"},
		{"Simulation", "predict sim"},
		{"Servers that are started", "gpus gpu-memory-used-ok"},
		{"Output", "json output output-dir no-store"},
	},
}
