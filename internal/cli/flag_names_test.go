package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spate/internal/settings/flags"
)

// flagUse is a flag as one command takes it.
type flagUse struct{ command, kind, help string }

// allFlags lists what every command takes, by name; the flags of bench stand once, under bench.
func allFlags() map[string][]flagUse {
	out := map[string][]flagUse{}
	for _, d := range flags.Table() {
		out[d.Name] = append(out[d.Name], flagUse{"bench", map[bool]string{true: "switch", false: "value"}[d.Type() == ""], d.Help})
	}
	add := func(command string, f *pflag.Flag) {
		kind := "value"
		if f.Value.Type() == "bool" {
			kind = "switch"
		}
		if !f.Hidden {
			out[f.Name] = append(out[f.Name], flagUse{command, kind, f.Usage})
		}
	}
	for name, set := range ownSets() {
		set.VisitAll(func(f *pflag.Flag) { add(name, f) })
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { add(c.CommandPath(), f) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(Process{}))
	return out
}

// told is the reason of most exceptions.
const told = "the same thing in the words of each command"

// otherWords are names whose help begins differently in different commands, how it begins, and why that is fine.
var otherWords = []struct{ name, words, why string }{
	{"all", "also show", "nothing is left out: rows of a list, requests of a recording"},
	{"api-key", "api require", "the key a client sends is the one the simulated server requires"},
	{"backend", "only protocol", "what is asked for or simulated; list and export filter by it"},
	{"baseline", "compare value", "what the others are compared with: a result, or with --by a value"},
	{"by", "compare setting what", "what a search raises and what a comparison groups by; both documented and in scripts"},
	{"compare", "run two", "a result to compare with, in bench known and not supported"},
	{"enable-prefix-caching", "reuse the", told},
	{"engine", "engine only", "what is asked for or simulated; list and export filter by it"},
	{"format", "form json table text", told},
	{"gpu", "gpu only", "what is asked for or simulated; list and export filter by it"},
	{"help", "help this", told},
	{"host", "address host", "where bench connects is where sim listens, as in vLLM"},
	{"input-len", "mean prompt", told},
	{"label", "name only", "vLLM's name of a run in bench; list and export filter by spate's labels"},
	{"launch", "command start", told},
	{"lora-modules", "adapters lora", told},
	{"max-num-batched-tokens", "tokens values", "the engine's flag; plan tries several values"},
	{"max-num-seqs", "sequences values", "the engine's flag; plan tries several values"},
	{"model", "model only", "what is asked for or simulated; list and export filter by it"},
	{"no-enable-prefix-caching", "the turn", told},
	{"no-store", "do keep", told},
	{"output", "also append file folder write", "where to write: a folder where several files are written"},
	{"output-dir", "folder run", told},
	{"output-len", "answers mean output", "bench asks for it, calibrate is told it, sim answers with it"},
	{"parallel", "runs searches", told},
	{"repeat", "fewest make measurements runs", "how often: runs, points, probes"},
	{"served-model-name", "name names", told},
	{"slo", "conditions objectives", told},
	{"sort", "only sort", "record puts a file in order, list and export their rows"},
	{"store", "store the", told},
	{"tensor-parallel-size", "gpus sizes", "the engine's flag; plan tries several values"},
	{"tokenizer", "tokenizer tokenizer.json", told},
	{"unix-socket", "listen reach", "where bench connects is where sim listens"},
}

// TestOneMeaningPerFlagName fails when a name is a switch in one command and takes a value in another, or when its
// help begins with other words: then it may be another thing, and needs another name or a reason here.
func TestOneMeaningPerFlagName(t *testing.T) {
	excused := map[string]string{}
	for _, e := range otherWords {
		excused[e.name] = e.words
		if e.why == "" {
			t.Errorf("--%s is an exception without a reason", e.name)
		}
	}
	for name, uses := range allFlags() {
		var kinds, words, lines []string
		for _, u := range uses {
			first := strings.ToLower(strings.Trim(strings.Fields(strings.ReplaceAll(u.help, "`", ""))[0], ",:;"))
			kinds, words = append(kinds, u.kind), append(words, first)
			lines = append(lines, fmt.Sprintf("%-24s %-7s %s", u.command, u.kind, u.help))
		}
		slices.Sort(kinds)
		slices.Sort(words)
		slices.Sort(lines)
		begin := strings.Join(slices.Compact(words), " ")
		if want := cmp.Or(excused[name], words[0]); len(slices.Compact(kinds)) > 1 || begin != want {
			t.Errorf("--%s means several things: its help begins with %q, want %q\n%s", name, begin, want, strings.Join(lines, "\n"))
		}
		delete(excused, name)
	}
	for name := range excused {
		t.Errorf("--%s is an exception and no flag", name)
	}
}
