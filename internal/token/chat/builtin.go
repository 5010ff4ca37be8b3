package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spate/internal/nearest"
)

// absent marks a parameter that was not given.
type absentType struct{}

var absent = absentType{}

// bind lays arguments out in the order of names, of which the first need are
// required; those not given are absent.
func (a args) bind(fn string, need int, names ...string) ([]any, error) {
	if len(a.pos) > len(names) {
		return nil, fmt.Errorf("%s takes no more than %d arguments", fn, len(names))
	}
	out := make([]any, len(names))
	for i := range out {
		out[i] = absent
	}
	copy(out, a.pos)
	for _, n := range a.named {
		i := slices.Index(names, n.name)
		if i < 0 {
			return nil, fmt.Errorf("%s has no parameter %q%s", fn, n.name, nearest.Hint(n.name, names))
		}
		if out[i] != absent {
			return nil, fmt.Errorf("%s: argument %q is given twice", fn, n.name)
		}
		out[i] = n.v
	}
	for i := range need {
		if out[i] == absent {
			return nil, fmt.Errorf("%s needs the argument %q", fn, names[i])
		}
	}
	return out, nil
}

// or returns v, or def when v was not given.
func or(v, def any) any {
	if v == absent {
		return def
	}
	return v
}

// intArg reads an optional whole number.
func intArg(fn string, v any, def int64) (int64, error) {
	if v == absent {
		return def, nil
	}
	n, ok := asInt(v)
	if !ok {
		return 0, fmt.Errorf("%s: expected a whole number, not a value of type %s", fn, typeName(v))
	}
	return n, nil
}

// textArg reads a string.
func textArg(fn string, v any) (string, error) {
	s, ok := text(v)
	if !ok {
		return "", fmt.Errorf("%s: expected a string, not a value of type %s", fn, typeName(v))
	}
	return s, nil
}

// raisedError is a template's own refusal.
type raisedError string

func (e raisedError) Error() string { return string(e) }

// globals are the functions every template can call.
func globals() map[string]any {
	return map[string]any{
		"range":           &function{"range", callRange},
		"namespace":       &function{"namespace", callNamespace},
		"dict":            &function{"dict", callDict},
		"raise_exception": &function{"raise_exception", callRaise},
	}
}

func callRaise(r *run, a args) (any, error) {
	v, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return nil, err
	}
	msg, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	return nil, raisedError(msg)
}

// maxRange is the longest range Jinja's sandbox allows.
const maxRange = 100_000

func callRange(r *run, a args) (any, error) {
	v, err := a.bind("range", 1, "start", "stop", "step")
	if err != nil {
		return nil, err
	}
	var n [3]int64
	for i, def := range []int64{0, 0, 1} {
		if n[i], err = intArg("range", v[i], def); err != nil {
			return nil, err
		}
	}
	start, stop, step := n[0], n[1], n[2]
	if v[1] == absent {
		start, stop = 0, n[0]
	}
	if step == 0 {
		return nil, fmt.Errorf("range: step cannot be zero")
	}
	out := []any{}
	for i := start; (step > 0 && i < stop) || (step < 0 && i > stop); i += step {
		if len(out) >= maxRange {
			return nil, fmt.Errorf("range is longer than %d", maxRange)
		}
		out = append(out, i)
		if (step > 0 && i > stop-step && stop-step < stop) || (step < 0 && i < stop-step && stop-step > stop) {
			break
		}
	}
	return out, r.spend(len(out))
}

func callDict(r *run, a args) (any, error) {
	d := NewDict()
	if len(a.pos) > 1 {
		return nil, fmt.Errorf("dict takes no more than 1 plain argument")
	}
	for _, v := range a.pos {
		if err := r.fill(d, v); err != nil {
			return nil, err
		}
	}
	for _, n := range a.named {
		d.Set(n.name, n.v)
	}
	return d, r.spend(d.Len())
}

// fill copies a mapping, or a sequence of pairs, into d.
func (r *run) fill(d *Dict, v any) error {
	if src, ok := v.(*Dict); ok {
		for i, k := range src.keys {
			d.set(k, src.vals[i])
		}
		return nil
	}
	items, err := r.iterate(v)
	if err != nil {
		return err
	}
	for _, item := range items {
		pair, err := r.iterate(item)
		if err != nil {
			return err
		}
		if len(pair) != 2 || !d.set(pair[0], pair[1]) {
			return fmt.Errorf("dict: expected pairs of a key and a value")
		}
	}
	return nil
}

func callNamespace(r *run, a args) (any, error) {
	d, err := callDict(r, a)
	if err != nil {
		return nil, err
	}
	return &namespace{d.(*Dict)}, nil
}

func strftimeNow(now func() time.Time) *function {
	return &function{"strftime_now", func(_ *run, a args) (any, error) {
		v, err := a.bind("strftime_now", 1, "format")
		if err != nil {
			return nil, err
		}
		format, err := textArg("strftime_now", v[0])
		if err != nil {
			return nil, err
		}
		return strftime(now(), format), nil
	}}
}

// layouts maps strftime letters to Go layouts.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'f': "000000",
	'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

// strftime formats t as C does in the C locale. The time strftime_now gives
// has no zone, so %z and %Z are empty; an unknown letter is left as it is.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 >= len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format)
		if bare {
			i++
		}
		s := strftimeLetter(t, format[i])
		if bare {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

func strftimeLetter(t time.Time, c byte) string {
	switch c {
	case '%':
		return "%"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'z', 'Z':
		return ""
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1)
	case 'w':
		return fmt.Sprint(int(t.Weekday()))
	case 's':
		return fmt.Sprint(t.Unix())
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout)
	}
	return "%" + string(c)
}

// attr is what a template can read of its loop.
func (l *loop) attr(name string) any {
	n := int64(len(l.items))
	i := int64(l.i)
	switch name {
	case "index":
		return i + 1
	case "index0":
		return i
	case "revindex":
		return n - i
	case "revindex0":
		return n - i - 1
	case "first":
		return i == 0
	case "last":
		return i == n-1
	case "length":
		return n
	case "depth":
		return int64(1) // it counts recursive loops, which there are none of
	case "depth0":
		return int64(0)
	case "previtem":
		if i > 0 {
			return l.items[i-1]
		}
		return &undefined{"there is no previous item"}
	case "nextitem":
		if i < n-1 {
			return l.items[i+1]
		}
		return &undefined{"there is no next item"}
	case "cycle":
		return &function{"loop.cycle", l.cycle}
	case "changed":
		return &function{"loop.changed", l.changed}
	}
	return &undefined{fmt.Sprintf("loop has no attribute %q", name)}
}

func (l *loop) cycle(_ *run, a args) (any, error) {
	if len(a.pos) == 0 {
		return nil, fmt.Errorf("loop.cycle needs values to cycle through")
	}
	return a.pos[l.i%len(a.pos)], nil
}

func (l *loop) changed(r *run, a args) (any, error) {
	if l.last != nil {
		same, err := r.equalItems(l.last, a.pos, 0)
		if same || err != nil {
			return false, err
		}
	}
	l.last = slices.Clone(a.pos)
	return true, nil
}
