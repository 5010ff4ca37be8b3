package chat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a format specification: "[[fill]align][0][width][.precision][type]".
type spec struct {
	fill      string
	align     byte
	width     int64
	precision int // -1 when not given
	verb      byte
}

func parseSpec(s string) (spec, error) {
	sp := spec{fill: " ", precision: -1}
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && strings.IndexByte("<>^=", s[n]) >= 0 {
		sp.fill, sp.align, s = s[:n], s[n], s[n+1:]
	} else if s != "" && strings.IndexByte("<>^=", s[0]) >= 0 {
		sp.align, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, "0") && sp.align == 0 {
		sp.fill, sp.align = "0", '='
	}
	n := run1(s, isDigit)
	if n > 0 {
		w, err := strconv.ParseInt(s[:n], 10, 32)
		if err != nil {
			return sp, fmt.Errorf("format width %s is too large", s[:n])
		}
		sp.width, s = w, s[n:]
	}
	if strings.HasPrefix(s, ".") {
		n := run1(s[1:], isDigit)
		p, err := strconv.Atoi(s[1 : 1+n])
		if err != nil || p > 1000 {
			return sp, fmt.Errorf("bad format precision %q", s)
		}
		sp.precision, s = p, s[1+n:]
	}
	if len(s) > 1 {
		return sp, fmt.Errorf("format %q is not supported", s)
	}
	if s != "" {
		sp.verb = s[0]
	}
	return sp, nil
}

// pad widens s. The '=' alignment keeps a sign in front of the fill.
func (r *run) pad(s string, sp spec) (string, error) {
	n := sp.width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s, nil
	}
	if utf8.RuneCountInString(sp.fill) != 1 {
		return "", fmt.Errorf("the fill must be one character")
	}
	if n > math.MaxInt32 {
		return "", errTooLong
	}
	if err := r.room(len(s) + int(n)*len(sp.fill)); err != nil {
		return "", err
	}
	fill := func(n int64) string { return strings.Repeat(sp.fill, int(n)) }
	switch sp.align {
	case '>':
		return fill(n) + s, nil
	case '^':
		return fill(n/2) + s + fill(n-n/2), nil
	case '=':
		if s != "" && (s[0] == '-' || s[0] == '+') {
			return s[:1] + fill(n) + s[1:], nil
		}
		return fill(n) + s, nil
	}
	return s + fill(n), nil
}

// formatValue writes v as spec asks.
func (r *run) formatValue(v any, sp spec) (string, error) {
	var s string
	var err error
	switch sp.verb {
	case 0, 's':
		if s, err = r.str(v); err != nil {
			return "", err
		}
		if _, isText := text(v); isText && sp.precision >= 0 {
			s = string([]rune(s)[:min(sp.precision, utf8.RuneCountInString(s))])
		}
		if _, num := asFloat(v); num && sp.align == 0 {
			sp.align = '>'
		}
	case 'd', 'x', 'X', 'o', 'b':
		n, ok := asInt(v)
		if !ok {
			return "", fmt.Errorf("format %q needs a whole number, not a value of type %s", sp.verb, typeName(v))
		}
		base := map[byte]int{'d': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[sp.verb]
		s = strconv.FormatInt(n, base)
		if sp.verb == 'X' {
			s = strings.ToUpper(s)
		}
	case 'f', 'F', 'e', 'g':
		f, ok := asFloat(v)
		if !ok {
			return "", fmt.Errorf("format %q needs a number, not a value of type %s", sp.verb, typeName(v))
		}
		if sp.precision < 0 {
			sp.precision = 6
		}
		verb := sp.verb | 0x20
		s = strconv.FormatFloat(f, verb, sp.precision, 64)
	default:
		return "", fmt.Errorf("format %q is not supported", sp.verb)
	}
	if sp.align == 0 && sp.verb != 0 && sp.verb != 's' {
		sp.align = '>'
	}
	return r.pad(s, sp)
}

// format is str.format: {} {0} {name} {x.y} {x[y]}, with !r, !s and a spec.
func (r *run) format(s string, a args) (string, error) {
	w := &writer{run: r}
	auto := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			return w.b.String() + s, r.room(w.b.Len() + len(s))
		}
		if err := w.write(s[:i]); err != nil {
			return "", err
		}
		if i+1 < len(s) && s[i+1] == s[i] {
			if err := w.write(s[i : i+1]); err != nil {
				return "", err
			}
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if s[i] == '}' || end < 0 {
			return "", fmt.Errorf("format: single %q in format string", s[i])
		}
		out, err := r.field(s[i+1:i+end], a, &auto)
		if err != nil {
			return "", err
		}
		if err := w.write(out); err != nil {
			return "", err
		}
		s = s[i+end+1:]
	}
	return w.b.String(), nil
}

// field renders one replacement field.
func (r *run) field(f string, a args, auto *int) (string, error) {
	f, specText, _ := strings.Cut(f, ":")
	name, conv, _ := strings.Cut(f, "!")
	sp, err := parseSpec(specText)
	if err != nil {
		return "", err
	}
	v, err := r.fieldValue(name, a, auto)
	if err != nil {
		return "", err
	}
	switch conv {
	case "":
	case "s":
		v, err = r.str(v)
	case "r":
		w := &writer{run: r}
		err = w.repr(v, 0)
		v = w.b.String()
	default:
		return "", fmt.Errorf("format: conversion %q is not supported", conv)
	}
	if err != nil {
		return "", err
	}
	return r.formatValue(v, sp)
}

func (r *run) fieldValue(name string, a args, auto *int) (any, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := formatArg(name[:end], a, auto)
	rest := name[end:]
	for err == nil && rest != "" {
		part := rest[1:]
		n := strings.IndexAny(part, ".[")
		if rest[0] == '[' {
			n = strings.IndexByte(part, ']')
			if n < 0 {
				return nil, fmt.Errorf("format: missing ] in field %q", name)
			}
			v, err = r.item(v, formatKey(part[:n]))
			rest = part[n+1:]
			continue
		}
		if n < 0 {
			n = len(part)
		}
		v, err = r.attr(v, part[:n])
		rest = part[n:]
	}
	return v, err
}

func formatKey(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return s
}

func formatArg(name string, a args, auto *int) (any, error) {
	i := *auto
	if name == "" {
		*auto++
	} else if n, err := strconv.Atoi(name); err == nil {
		i = n
	} else {
		for _, n := range a.named {
			if n.name == name {
				return n.v, nil
			}
		}
		return nil, fmt.Errorf("format: no argument %q", name)
	}
	if i < 0 || i >= len(a.pos) {
		return nil, fmt.Errorf("format: no argument number %d", i)
	}
	return a.pos[i], nil
}

// percent is the % operator on a string, for %s %r %d %i %x %f %e %g and %%
// with flags -, 0, width and precision.
func (r *run) percent(s string, v any) (string, error) {
	list, isTuple := v.(tuple)
	if !isTuple {
		list = tuple{v}
	}
	used := 0
	w := &writer{run: r}
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			break
		}
		if err := w.write(s[:i]); err != nil {
			return "", err
		}
		out, rest, err := r.percentField(s[i+1:], list, &used)
		if err != nil {
			return "", err
		}
		if err := w.write(out); err != nil {
			return "", err
		}
		s = rest
	}
	if _, isDict := v.(*Dict); used < len(list) && !isDict {
		return "", fmt.Errorf("not all arguments converted during string formatting")
	}
	return w.b.String() + s, r.room(w.b.Len() + len(s))
}

func (r *run) percentField(s string, list tuple, used *int) (out, rest string, err error) {
	n := run1(s, func(c byte) bool { return strings.IndexByte("-0123456789.", c) >= 0 })
	if n >= len(s) {
		return "", "", fmt.Errorf("incomplete format")
	}
	verb, flags := s[n], s[:n]
	rest = s[n+1:]
	if verb == '%' {
		return "%", rest, nil
	}
	if *used >= len(list) {
		return "", "", fmt.Errorf("not enough arguments for format string")
	}
	v := list[*used]
	*used++
	left := strings.HasPrefix(flags, "-")
	sp, err := parseSpec(strings.TrimPrefix(flags, "-"))
	if err != nil {
		return "", "", err
	}
	switch {
	case left:
		sp.align, sp.fill = '<', " "
	case sp.align == 0:
		sp.align = '>'
	}
	switch verb {
	case 'r':
		q := &writer{run: r}
		if err := q.repr(v, 0); err != nil {
			return "", "", err
		}
		v, verb = q.b.String(), 's'
	case 'i', 'u':
		verb = 'd'
	case 's':
		if v, err = r.str(v); err != nil {
			return "", "", err
		}
	}
	if f, ok := v.(float64); ok && verb == 'd' && math.Abs(f) < 1<<53 {
		v = int64(f)
	}
	sp.verb = verb
	out, err = r.formatValue(v, sp)
	return out, rest, err
}
