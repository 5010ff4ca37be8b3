package sweep

import (
	"errors"
	"slices"
	"strings"

	"spate/internal/config"
	"spate/internal/flags"
)

// fold makes a flag's spelling comparable.
func fold(name string) string {
	return strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
}

// known finds a flag of bench by its name or by one that means exactly the same.
func known(name string) *flags.Def {
	name = fold(name)
	for _, d := range flags.Table() {
		if d.Name == name {
			return d
		}
		for _, a := range d.Also {
			if a.Name == name {
				return d
			}
		}
	}
	return nil
}

// canonical is a flag's own name; a spelling whose words are translated stays what it is.
func canonical(name string) string {
	name = fold(name)
	d := known(name)
	if d == nil {
		return name
	}
	for _, a := range d.Also {
		if a.Name == name && a.To != nil {
			return name
		}
	}
	return d.Name
}

// spelling is a hint at the flag that was meant.
func spelling(name string, more ...string) string {
	for _, d := range flags.Table() {
		more = append(more, d.Name)
	}
	return config.DidYouMean(name, more)
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
var ours = []string{"output-dir", "no-output", "dry-run", "config", "help"}
