package profile

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"spate/internal/nearest"
)

//go:embed data/*.json
var files embed.FS

var shipped = sync.OnceValues(func() ([]*Profile, error) {
	entries, err := files.ReadDir("data")
	if err != nil {
		return nil, fmt.Errorf("listing the shipped profiles: %w", err)
	}
	var out []*Profile
	for _, e := range entries {
		data, err := files.ReadFile("data/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading the shipped profile %s: %w", e.Name(), err)
		}
		p, err := Decode(data)
		if err != nil {
			return nil, fmt.Errorf("shipped profile %s: %w", e.Name(), err)
		}
		p.Name = fullName(p.Name)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Profile) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
})

// Shipped lists the profiles in the binary, by name.
func Shipped() ([]*Profile, error) {
	list, err := shipped()
	return slices.Clone(list), err
}

// Find returns the profile of a name or an alias among some.
func Find(list []*Profile, name string) (*Profile, error) {
	var names, known []string
	titles := map[string]string{} // of every spelling known
	for _, p := range list {
		if strings.EqualFold(fullName(p.Name), fullName(name)) {
			return p, nil
		}
		names = append(names, p.Title())
		known, titles[p.Name] = append(known, p.Name), p.Title()
		if alias := p.Alias(); alias != "" {
			known, titles[alias] = append(known, alias), p.Title()
		}
	}
	if near := nearest.Word(name, known); near != "" {
		return nil, fmt.Errorf("no profile %q: did you mean %s?", name, titles[near])
	}
	return nil, fmt.Errorf("no profile %q; there are %s", name, strings.Join(names, ", "))
}
