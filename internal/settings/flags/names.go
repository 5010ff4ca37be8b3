package flags

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/nearest"
)

// Error is a mistake on the command line, in a config file or in the environment.
type Error struct {
	Text string
	Hint string // what to do about it, when there is more to say
}

// Error is the mistake with its hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Text
	}
	return e.Text + ": " + e.Hint
}

func mistake(format string, args ...any) *Error { return &Error{Text: fmt.Sprintf(format, args...)} }

// entry is one spelling of a flag.
type entry struct {
	spelling string // without dashes
	def      *Def
	alias    *Alias // nil for the flag's own name
	off      bool   // the --no- form
}

// index finds flags by the words users type.
type index struct {
	exact map[string]entry
	vllm  []entry // flags a vLLM script may abbreviate
	rest  []entry
}

func newIndex(defs []*Def) *index {
	ix := &index{exact: map[string]entry{}}
	for _, d := range defs {
		spellings := []entry{{spelling: d.Name, def: d}}
		if d.value.arity == tri {
			spellings = append(spellings, entry{spelling: "no-" + d.Name, def: d, off: true})
		}
		ix.add(d.VLLM || d.Group == GroupGeneral, spellings)
		for i := range d.Also {
			ix.add(false, []entry{{spelling: d.Also[i].Name, def: d, alias: &d.Also[i]}})
		}
	}
	return ix
}

func (ix *index) add(vllm bool, entries []entry) {
	for _, e := range entries {
		ix.exact[e.spelling] = e
		if vllm {
			ix.vllm = append(ix.vllm, e)
		} else {
			ix.rest = append(ix.rest, e)
		}
	}
}

// fold makes dashes of underscores.
func fold(name string) string { return strings.ReplaceAll(name, "_", "-") }

// find resolves a name as argparse does: whole, or an abbreviation that fits one flag only. vLLM's
// own flags come first, so that no flag of ours makes an abbreviation ambiguous that is not so there.
func (ix *index) find(name string) (entry, *Error) {
	name = fold(name)
	if e, ok := ix.exact[name]; ok {
		return e, nil
	}
	if len(name) > 1 {
		for _, tier := range [][]entry{ix.vllm, ix.rest} {
			switch fits := abbreviated(tier, name); len(fits) {
			case 0:
			case 1:
				return fits[0], nil
			default:
				return entry{}, mistake("--%s is ambiguous: it could be %s", name, spellings(fits))
			}
		}
	}
	return entry{}, ix.unknown(name)
}

// abbreviated lists the entries that begin with name; two spellings of one flag count once.
func abbreviated(tier []entry, name string) []entry {
	var fits []entry
	for _, e := range tier {
		if !strings.HasPrefix(e.spelling, name) {
			continue
		}
		twin := func(f entry) bool { return f.def == e.def && f.off == e.off && plain(f) && plain(e) }
		if !slices.ContainsFunc(fits, twin) {
			fits = append(fits, e)
		}
	}
	return fits
}

// plain reports whether an entry's words mean what the flag's words mean.
func plain(e entry) bool { return e.alias == nil || e.alias.To == nil }

func spellings(entries []entry) string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = "--" + e.spelling
	}
	return strings.Join(names, ", ")
}

// shortHints are one-letter flags on which tools disagree, so that guessing would do harm.
var shortHints = map[string]string{
	"u": "some tools mean --url by it and others --max-concurrency",
	"H": "say --header KEY=VALUE",
	"c": "say --max-concurrency",
	"n": "say --num-prompts",
	"r": "say --request-rate",
	"d": "say --duration",
	"k": "say --insecure",
	"o": "say --output-dir",
}

// unknown explains a name that is no flag.
func (ix *index) unknown(name string) *Error {
	if hint, ok := shortHints[name]; ok {
		return &Error{"unknown flag -" + name, hint}
	}
	e := mistake("unknown flag --%s", name)
	if best := nearest.Word(name, ix.names()); best != "" {
		e.Hint = "did you mean --" + best + "?"
		if d := ix.exact[best].def; d.Name != best {
			e.Hint = "did you mean --" + best + " (" + "--" + d.Name + ")?"
		}
	}
	return e
}

// names lists every spelling, vLLM's first.
func (ix *index) names() []string {
	var out []string
	for _, tier := range [][]entry{ix.vllm, ix.rest} {
		for _, e := range tier {
			out = append(out, e.spelling)
		}
	}
	return out
}
