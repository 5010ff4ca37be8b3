package sweep

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"spate/internal/nearest"
	"spate/internal/settings/flags"
)

// fold makes a flag's spelling comparable.
func fold(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// entry is a spelling of a flag.
type entry struct {
	def  *flags.Def
	name string // the flag's own name, or the spelling if its words are translated
}

// spellings are all of them. Building the table of flags takes longer than everything else here.
var spellings = sync.OnceValue(func() map[string]entry {
	out := map[string]entry{}
	for _, d := range flags.Table() {
		out[d.Name] = entry{d, d.Name}
		for _, a := range d.Also {
			name := d.Name
			if a.To != nil {
				name = a.Name
			}
			out[a.Name] = entry{d, name}
		}
	}
	return out
})

// known finds a flag of bench by its name or by another of its spellings.
func known(name string) *flags.Def { return spellings()[fold(name)].def }

// canonical is a flag's own name; a spelling whose words are translated stays what it is.
func canonical(name string) string {
	if e, ok := spellings()[fold(name)]; ok {
		return e.name
	}
	return fold(name)
}

// spelling is a hint at the flag that was meant.
func spelling(name string, more ...string) string {
	for _, d := range flags.Table() {
		more = append(more, d.Name)
	}
	return nearest.Hint(name, more)
}

// takesMany reports whether a flag takes several words, by trying.
func takesMany(name string) bool {
	_, err := flags.Parse([]string{"--" + name, "a", "b"}, flags.Options{})
	var bad *flags.Error
	return !errors.As(err, &bad) || !strings.Contains(bad.Text, "unexpected argument")
}

// takesList reports whether a flag of one value may be given several to go through on a command
// line: whatever has commas of its own may not.
func takesList(d *flags.Def) bool {
	kinds := []string{"INT", "NUM", "TOKENS", "RATIO", "NAME", "SEC", "TIME"}
	return d.Group != flags.GroupGeneral && slices.Contains(kinds, d.Type()) && !takesMany(d.Name)
}

// ours are settings that a sweep makes itself for every run.
var ours = []string{"output-dir", "no-output", "dry-run", "config", "help", "repeat", "interleave"}
