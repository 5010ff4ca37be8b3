package cli

import (
	"strings"
	"testing"

	"spate/internal/forecast/predict"
	"spate/internal/forecast/sizing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// verbs are the words a command's line in the help may begin with.
const verbs = " Check Compare Convert Count Explain Export Find Fit Import Label List Make Measure Predict Print Read Record Remove Serve Show Start Turn Write Run Finish End Send "

// ownSets are the flags of the commands that take those of bench, too.
func ownSets() map[string]*pflag.FlagSet {
	return map[string]*pflag.FlagSet{
		"capacity": new(capacityOptions).set(), "plan": new(sizing.Command).Flags(), "predict": new(predict.Command).Flags(), "sweep": new(sweepOptions).set(),
	}
}

// everyCommand visits the commands that users see.
func everyCommand(visit func(c *cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				visit(sub)
				walk(sub)
			}
		}
	}
	walk(newRoot(Process{}))
}

// TestEveryCommandIsDescribed: a group, a line that begins with a verb, a description in sentences, examples.
func TestEveryCommandIsDescribed(t *testing.T) {
	seen := 0
	everyCommand(func(c *cobra.Command) {
		seen++
		name := c.CommandPath()
		if c.Parent().HasParent() == (c.GroupID != "") {
			t.Errorf("%s stands in group %q: commandGroups names those of spate itself", name, c.GroupID)
		}
		if c.Name() == "help" || strings.Contains(name, "completion ") { // cobra's own
			return
		}
		verb, _, _ := strings.Cut(c.Short, " ")
		if !strings.Contains(verbs, " "+strings.TrimSuffix(verb, ",")+" ") {
			t.Errorf("%s: %q does not begin with a verb", name, c.Short)
		}
		if c.Name() == "bench" || c.Name() == "version" { // internal/settings/flags writes bench's
			return
		}
		if first, _, ok := strings.Cut(c.Long, "."); !ok || len(first) < 20 {
			t.Errorf("%s has no description: %q", name, c.Long)
		}
		if !strings.Contains(c.Example, "spate ") {
			t.Errorf("%s has no example", name)
		}
	})
	if seen < 30 {
		t.Errorf("only %d commands were seen", seen)
	}
}

// TestManyFlagsAreGrouped: a command with more flags than can be read at once has them in groups, each flag in one.
func TestManyFlagsAreGrouped(t *testing.T) {
	sets := ownSets()
	everyCommand(func(c *cobra.Command) {
		if sets[commandName(c)] == nil {
			sets[commandName(c)] = c.LocalFlags()
		}
	})
	for name, set := range sets {
		times := map[string]int{}
		for _, g := range flagGroups[name] {
			for flag := range strings.FieldsSeq(g.flags) {
				times[flag]++
				if set.Lookup(flag) == nil {
					t.Errorf("spate %s has no --%s; group %q names it", name, flag, g.title)
				}
			}
		}
		count := 0
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				count++
			}
		})
		set.VisitAll(func(f *pflag.Flag) {
			if n := times[f.Name]; !f.Hidden && f.Name != "help" && (count > 7 || len(times) > 0) && n != 1 {
				t.Errorf("spate %s --%s stands in %d groups of flagGroups, want 1", name, f.Name, n)
			}
		})
	}
	for name := range flagGroups {
		if _, _, err := newRoot(Process{}).Find(strings.Fields(name)); err != nil {
			t.Errorf("flagGroups names spate %s: %v", name, err)
		}
	}
}
