package sweep

import (
	"slices"
	"strconv"
	"strings"
)

// Args puts the flags of bench on a command line over the suite: a flag with several values becomes
// an axis of the grid, any other a setting of every point, and both replace what the suite says about
// that flag.
func (s *Suite) Args(args []string) error {
	var axes []Axis
	var plain []Setting
	for i := 0; i < len(args); {
		if !isFlag(args[i]) {
			return wrong("unexpected argument %q: a suite file comes first, then flags", args[i])
		}
		name, word, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		set := Setting{Flag: fold(name)}
		i++
		if joined {
			set.Words = []string{word}
		}
		for !joined && i < len(args) && !isFlag(args[i]) {
			set.Words = append(set.Words, args[i])
			i++
		}
		base, _, _ := strings.Cut(set.Flag, ".")
		d := known(base)
		if d != nil && slices.Contains(ours, d.Name) && d.Name != "config" {
			return wrong("--%s is not possible here: a sweep has its own folder", name)
		}
		if d != nil && len(set.Words) == 1 && strings.Contains(set.Words[0], ",") && !strings.HasPrefix(set.Words[0], "{") && takesList(d) {
			axes = append(axes, listed(set))
			continue
		}
		plain = append(plain, set)
	}
	s.override(plain, axes)
	return nil
}

// listed is a setting whose word has several values.
func listed(set Setting) Axis {
	a := Axis{Flag: set.Flag}
	for v := range strings.SplitSeq(set.Words[0], ",") {
		if v = strings.TrimSpace(v); v != "" {
			a.Values = append(a.Values, []string{v})
		}
	}
	return a
}

// isFlag tells flags from values: a dash, and not a negative number.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil && !strings.Contains(strings.TrimLeft(arg, "-"), " ") || strings.HasPrefix(arg, "--") && strings.Contains(arg, "=")
}

// override replaces what the suite says about the given flags.
func (s *Suite) override(plain []Setting, axes []Axis) {
	gone := map[string]bool{}
	for _, p := range plain {
		gone[canonical(p.Flag)] = true
	}
	for _, a := range axes {
		gone[canonical(a.Flag)] = true
	}
	s.Bench = append(without(s.Bench, gone), plain...)
	s.Shape = s.without(gone)
	s.Grid = append(s.Grid, axes...)
	for i := range s.Servers {
		sv := &s.Servers[i]
		sv.Bench = without(sv.Bench, gone)
		if sv.Shape != nil {
			own := sv.Shape.without(gone)
			own.Grid = append(own.Grid, axes...)
			sv.Shape = &own
		}
	}
}

func without(list []Setting, gone map[string]bool) []Setting {
	var out []Setting
	for _, s := range list {
		if !gone[canonical(s.Flag)] {
			out = append(out, s)
		}
	}
	return out
}

func (sh Shape) without(gone map[string]bool) Shape {
	keep := func(axes []Axis) []Axis {
		var out []Axis
		for _, a := range axes {
			if !gone[canonical(a.Flag)] {
				out = append(out, a)
			}
		}
		return out
	}
	out := Shape{Grid: keep(sh.Grid)}
	for _, p := range sh.Points {
		out.Points = append(out.Points, keep(p))
	}
	return out
}
