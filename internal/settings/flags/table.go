// Package flags reads the command line of `spate bench` the way Python's argparse reads that of
// `vllm bench serve`, so that a script works with one word replaced. One table says everything about
// every flag; parsing, config files, environment, help, completion and spelling hints all read it.
//
// It fills a config.Bench, which internal/settings/config then resolves and validates. Read parse.go first,
// then scan.go; the table is in the table_*.go files, one per group.
package flags

import (
	"fmt"

	"spate/internal/settings/config"
)

// Group is a section of the help.
type Group string

// The groups, in the order help shows them.
const (
	GroupTarget  Group = "target"
	GroupModel   Group = "model"
	GroupDataset Group = "dataset"
	GroupLoad    Group = "load"
	GroupBody    Group = "body"
	GroupClient  Group = "client"
	GroupOutput  Group = "output"
	GroupCheck   Group = "check"
	GroupObserve Group = "observe"
	GroupSim     Group = "sim"
	GroupRepeat  Group = "repeat"
	GroupFleet   Group = "fleet"
	GroupGeneral Group = "general"
	GroupLater   Group = "later"
)

// groups gives each group its heading.
var groups = []struct {
	Group Group
	Title string
}{
	{GroupTarget, "where the server is"},
	{GroupModel, "model and tokenizer"},
	{GroupDataset, "what is sent"},
	{GroupLoad, "when it is sent, and when the run ends"},
	{GroupBody, "request body"},
	{GroupClient, "how requests travel"},
	{GroupOutput, "what is written and shown"},
	{GroupCheck, "what the run is judged by"},
	{GroupObserve, "what is sampled during the run"},
	{GroupSim, "the embedded server"},
	{GroupRepeat, "several runs, and how they compare"},
	{GroupFleet, "load from several processes or hosts"},
	{GroupGeneral, "flags about flags"},
	{GroupLater, "known, not supported"},
}

// Def is one flag: all that is known about it.
type Def struct {
	Name    string
	Group   Group
	Default string // as typed; empty means not set
	Help    string
	Meta    string            // placeholder, where the type's own says too little
	Choices []string          // the values it takes
	Later   []string          // values it knows and does not have
	Words   map[string]string // other tools' words for a value
	Needs   string            // what the flag belongs to that spate does not have
	Also    []Alias           // other tools' and older spellings
	VLLM    bool              // a flag of vllm bench serve
	Main    bool              // shown in the short help

	value   *value
	initial string // the value's text before anything was set
}

// Type is the placeholder for the flag's value; switches have none.
func (d *Def) Type() string {
	if d.Meta != "" {
		return d.Meta
	}
	if len(d.Choices) > 0 {
		return "NAME"
	}
	return d.value.kind
}

// Alias is another spelling of a flag.
type Alias struct {
	Name string
	Many bool                                // takes several words, whatever the flag does
	To   func(word string) ([]target, error) // how a word translates; nil when it means the same
}

// target is where a translated word goes.
type target struct {
	flag string   // canonical name
	keys []string // for a JSON flag, the path inside it
	word string
}

// also lists spellings that mean exactly the flag they stand beside.
func also(names ...string) []Alias {
	out := make([]Alias, len(names))
	for i, n := range names {
		out[i] = Alias{Name: n}
	}
	return out
}

// table builds the flags, each bound to its place in b. The order is that of the groups, and within
// the vLLM flags that in which they are shown in a Namespace.
func table(b *config.Bench) []*Def {
	var all []*Def
	for _, group := range [][]Def{
		datasetFlags(b), targetFlags(b), modelFlags(b), loadFlags(b), bodyFlags(b),
		clientFlags(b), outputFlags(b), checkFlags(b), observeFlags(b), simFlags(b), repeatFlags(b), fleetFlags(b), laterFlags(), generalFlags(),
	} {
		for i := range group {
			all = append(all, &group[i])
		}
	}
	return all
}

// fresh builds the table on a new Bench with every default in place.
func fresh() (*config.Bench, []*Def) {
	b := &config.Bench{Given: map[string]config.Source{}}
	defs := table(b)
	for _, d := range defs {
		if d.Default != "" {
			if err := d.value.Set(d.Default); err != nil {
				panic(fmt.Sprintf("default of --%s: %v", d.Name, err)) // the table is wrong, not the user
			}
		}
		d.initial = d.value.text()
	}
	return b, defs
}

// Table is a copy of the flag table, for documents made from it.
func Table() []*Def {
	_, defs := fresh()
	return defs
}
