package chat

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethod finds a string's method. Those that give a string give the
// kind they were called on.
func stringMethod(name string) methodFunc {
	switch name {
	case "strip", "lstrip", "rstrip":
		return stripMethod(name)
	case "upper", "lower", "title", "capitalize", "swapcase", "casefold":
		return caseMethod(name)
	case "startswith", "endswith":
		return affixMethod(name)
	case "removeprefix", "removesuffix":
		return removeMethod(name)
	case "split", "rsplit":
		return splitMethod(name)
	case "splitlines":
		return splitlinesMethod
	case "partition", "rpartition":
		return partitionMethod(name)
	case "replace":
		return replaceMethod
	case "join":
		return joinMethod
	case "find", "rfind", "index", "rindex", "count":
		return findMethod(name)
	case "isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isspace", "isupper", "islower":
		return classMethod(name)
	case "format":
		return func(r *run, self any, a args) (any, error) {
			s, _ := text(self)
			out, err := r.format(s, a)
			return like(self, out), err
		}
	case "zfill", "ljust", "rjust", "center":
		return padMethod(name)
	}
	return nil
}

func stripMethod(name string) methodFunc {
	return func(_ *run, self any, a args) (any, error) {
		v, err := a.bind(name, 0, "chars")
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		out, err := strip(s, name, v[0])
		return like(self, out), err
	}
}

// strip removes whitespace, or the characters in chars, from one or both
// ends.
func strip(s, name string, chars any) (string, error) {
	in := isSpace
	if chars != absent && chars != nil {
		set, err := textArg(name, chars)
		if err != nil {
			return "", err
		}
		in = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, in)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, in)
	}
	return s, nil
}

func caseMethod(name string) methodFunc {
	return func(r *run, self any, a args) (any, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		s, _ := text(self)
		if err := r.build(8 * len(s)); err != nil { // it is changed rune by rune
			return nil, err
		}
		return like(self, changeCase(name, s)), r.room(len(s))
	}
}

func changeCase(name, s string) string {
	switch name {
	case "upper":
		return upper(s)
	case "lower", "casefold":
		return strings.ToLower(s)
	case "capitalize":
		for i := range s {
			if i > 0 {
				return upper(s[:i]) + strings.ToLower(s[i:])
			}
		}
		return upper(s)
	case "swapcase":
		return strings.Map(func(c rune) rune {
			if unicode.IsUpper(c) {
				return unicode.ToLower(c)
			}
			return unicode.ToUpper(c)
		}, s)
	}
	inWord := false
	return strings.Map(func(c rune) rune {
		if !unicode.IsUpper(c) && !unicode.IsLower(c) && !unicode.IsTitle(c) {
			inWord = false
			return c
		}
		if inWord {
			return unicode.ToLower(c)
		}
		inWord = true
		return unicode.ToTitle(c)
	}, s)
}

// upper also spells out the sharp s, the one letter of common text whose
// capital form is longer.
func upper(s string) string {
	return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS")
}

func affixMethod(name string) methodFunc {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	return func(_ *run, self any, a args) (any, error) {
		v, err := a.bind(name, 1, "affix")
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		list := []any{v[0]}
		if t, ok := v[0].(tuple); ok {
			list = t
		}
		for _, x := range list {
			affix, err := textArg(name, x)
			if err != nil {
				return nil, err
			}
			if has(s, affix) {
				return true, nil
			}
		}
		return false, nil
	}
}

func removeMethod(name string) methodFunc {
	return func(_ *run, self any, a args) (any, error) {
		v, err := a.bind(name, 1, "affix")
		if err != nil {
			return nil, err
		}
		affix, err := textArg(name, v[0])
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		if name == "removeprefix" {
			return like(self, strings.TrimPrefix(s, affix)), nil
		}
		return like(self, strings.TrimSuffix(s, affix)), nil
	}
}

func splitMethod(name string) methodFunc {
	return func(r *run, self any, a args) (any, error) {
		v, err := a.bind(name, 0, "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		limit, err := intArg(name, v[1], -1)
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		if v[0] == absent || v[0] == nil {
			if err := r.build(12 * len(s)); err != nil { // a word every other byte
				return nil, err
			}
			return strs(self, splitSpace(s, limit, name == "rsplit")), nil
		}
		sep, err := textArg(name, v[0])
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, fmt.Errorf("%s: empty separator", name)
		}
		if err := r.build(len(s) + 48*strings.Count(s, sep)); err != nil {
			return nil, err
		}
		return strs(self, splitSep(s, sep, limit, name == "rsplit")), nil
	}
}

// strs makes a list of strings, each of the kind self is.
func strs(self any, parts []string) []any {
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = like(self, p)
	}
	return out
}

func splitSep(s, sep string, limit int64, fromRight bool) []string {
	parts := strings.Split(s, sep)
	over := int64(len(parts)) - 1 - limit
	if limit < 0 || over <= 0 {
		return parts
	}
	if fromRight {
		return append([]string{strings.Join(parts[:over+1], sep)}, parts[over+1:]...)
	}
	return append(parts[:limit:limit], strings.Join(parts[limit:], sep))
}

// splitSpace splits on runs of whitespace, at most limit times; what is left
// keeps the whitespace it has on the far side.
func splitSpace(s string, limit int64, fromRight bool) []string {
	out := []string{}
	near, next := strings.TrimLeftFunc, firstWord
	if fromRight {
		near, next = strings.TrimRightFunc, lastWord
	}
	for s = near(s, isSpace); s != "" && limit != 0; limit-- {
		var word string
		word, s = next(s)
		out = append(out, word)
		s = near(s, isSpace)
	}
	if s != "" {
		out = append(out, s)
	}
	if fromRight {
		slices.Reverse(out)
	}
	return out
}

func firstWord(s string) (word, rest string) {
	if i := strings.IndexFunc(s, isSpace); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

func lastWord(s string) (word, rest string) {
	i := strings.LastIndexFunc(s, isSpace)
	if i < 0 {
		return s, ""
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return s[i+n:], s[:i+n]
}

func splitlinesMethod(_ *run, self any, a args) (any, error) {
	v, err := a.bind("splitlines", 0, "keepends")
	if err != nil {
		return nil, err
	}
	s, _ := text(self)
	return strs(self, splitLines(s, truth(or(v[0], false)))), nil
}

// splitLines splits at every line boundary Python knows.
func splitLines(s string, keep bool) []string {
	out := []string{}
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(out, s)
		}
		end := i + 1
		switch {
		case strings.HasPrefix(s[i:], "\r\n"), strings.HasPrefix(s[i:], "\u0085"):
			end = i + 2
		case s[i] >= 0x80:
			end = i + 3
		}
		if keep {
			out = append(out, s[:end])
		} else {
			out = append(out, s[:i])
		}
		s = s[end:]
	}
	return out
}

func partitionMethod(name string) methodFunc {
	return func(_ *run, self any, a args) (any, error) {
		v, err := a.bind(name, 1, "sep")
		if err != nil {
			return nil, err
		}
		sep, err := textArg(name, v[0])
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, fmt.Errorf("%s: empty separator", name)
		}
		s, _ := text(self)
		parts := []string{s, "", ""}
		i := strings.Index(s, sep)
		if name == "rpartition" {
			i = strings.LastIndex(s, sep)
			parts = []string{"", "", s}
		}
		if i >= 0 {
			parts = []string{s[:i], sep, s[i+len(sep):]}
		}
		return tuple(strs(self, parts)), nil
	}
}

func replaceMethod(r *run, self any, a args) (any, error) {
	v, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	s, _ := text(self)
	out, err := r.replace(s, v)
	return like(self, out), err
}

// replace takes old, new and count from v.
func (r *run) replace(s string, v []any) (string, error) {
	from, err := textArg("replace", v[0])
	if err != nil {
		return "", err
	}
	to, err := textArg("replace", v[1])
	if err != nil {
		return "", err
	}
	count, err := intArg("replace", or(v[2], int64(-1)), -1)
	if err != nil {
		return "", err
	}
	n := strings.Count(s, from)
	if count >= 0 {
		n = int(min(int64(n), count))
	}
	if n > 0 && len(to) > r.lim.output/n {
		return "", errTooLong
	}
	if err := r.room(len(s) + n*(len(to)-len(from))); err != nil {
		return "", err
	}
	return strings.Replace(s, from, to, n), nil
}

func joinMethod(r *run, self any, a args) (any, error) {
	v, err := a.bind("join", 1, "iterable")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	sep, _ := text(self)
	out, err := r.joined(items, sep, func(item any) (string, error) { return textArg("join", item) })
	return like(self, out), err
}

// joined is the texts of items with sep between them.
func (r *run) joined(items []any, sep string, read func(any) (string, error)) (string, error) {
	w := &writer{run: r}
	for i, item := range items {
		s, err := read(item)
		if err != nil {
			return "", err
		}
		if i > 0 {
			s = sep + s
		}
		if err := w.write(s); err != nil {
			return "", err
		}
	}
	return w.b.String(), nil
}

func findMethod(name string) methodFunc {
	return func(_ *run, self any, a args) (any, error) {
		v, err := a.bind(name, 1, "sub")
		if err != nil {
			return nil, err
		}
		sub, err := textArg(name, v[0])
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		var i int
		switch name {
		case "count":
			return int64(strings.Count(s, sub)), nil
		case "find", "index":
			i = strings.Index(s, sub)
		default:
			i = strings.LastIndex(s, sub)
		}
		if i < 0 && strings.HasSuffix(name, "index") {
			return nil, fmt.Errorf("%s: substring not found", name)
		}
		if i < 0 {
			return int64(-1), nil
		}
		n, err := length(s[:i])
		return int64(n), err
	}
}

func classMethod(name string) methodFunc {
	class := map[string]func(rune) bool{
		"isdigit": unicode.IsDigit, "isdecimal": unicode.IsDigit, "isnumeric": unicode.IsNumber,
		"isalpha": unicode.IsLetter, "isspace": isSpace,
		"isalnum": func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) },
	}[name]
	return func(_ *run, self any, a args) (any, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		s, _ := text(self)
		switch name {
		case "isupper":
			return strings.ContainsFunc(s, unicode.IsUpper) && !strings.ContainsFunc(s, unicode.IsLower), nil
		case "islower":
			return strings.ContainsFunc(s, unicode.IsLower) && !strings.ContainsFunc(s, unicode.IsUpper), nil
		}
		out := func(c rune) bool { return !class(c) }
		return s != "" && !strings.ContainsFunc(s, out), nil
	}
}

func padMethod(name string) methodFunc {
	return func(r *run, self any, a args) (any, error) {
		v, err := a.bind(name, 1, "width", "fillchar")
		if err != nil {
			return nil, err
		}
		width, err := intArg(name, v[0], 0)
		if err != nil {
			return nil, err
		}
		s, _ := text(self)
		sp := spec{fill: " ", align: map[string]byte{"zfill": '=', "ljust": '<', "rjust": '>', "center": '^'}[name], width: width}
		if name == "zfill" {
			sp.fill = "0"
		} else if sp.fill, err = textArg(name, or(v[1], " ")); err != nil {
			return nil, err
		}
		out, err := r.pad(s, sp)
		return like(self, out), err
	}
}
