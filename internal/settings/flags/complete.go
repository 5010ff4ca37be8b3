package flags

import "strings"

// Completion is one thing a shell can offer, with a word about it.
type Completion struct {
	Text string
	Help string
}

// Complete offers what may come next after the given arguments, where word is what was begun.
// files reports that a path is wanted.
func Complete(args []string, word string) (offers []Completion, files bool) {
	_, defs := fresh()
	ix := newIndex(defs)
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "--") {
		return completeValue(ix, name, name+"=", value)
	}
	if strings.HasPrefix(word, "-") {
		return completeName(ix, word), false
	}
	if len(args) > 0 && strings.HasPrefix(args[len(args)-1], "-") {
		return completeValue(ix, args[len(args)-1], "", word)
	}
	return nil, false
}

// completeName offers flags; other tools' names only once they are begun, or the list would be long.
func completeName(ix *index, word string) []Completion {
	begun := fold(strings.TrimLeft(word, "-"))
	var out []Completion
	for _, tier := range [][]entry{ix.vllm, ix.rest} {
		for _, e := range tier {
			hidden := e.def.Needs != "" || e.alias != nil
			if !strings.HasPrefix(e.spelling, begun) || hidden && len(begun) < 2 || len(e.spelling) < 2 {
				continue
			}
			help := e.def.Help
			if e.alias != nil {
				help = "same as --" + e.def.Name
			}
			out = append(out, Completion{"--" + e.spelling, help})
		}
	}
	return out
}

// completeValue offers a flag's choices, or files where it names one.
func completeValue(ix *index, flag, prefix, begun string) ([]Completion, bool) {
	e, err := ix.find(strings.TrimLeft(flag, "-"))
	if err != nil {
		return nil, false
	}
	var out []Completion
	for _, c := range e.def.Choices {
		if strings.HasPrefix(c, begun) {
			out = append(out, Completion{Text: prefix + c})
		}
	}
	switch e.def.Type() {
	case "FILE", "DIR", "PATH":
		return out, true
	}
	return out, false
}
