package chat

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"spate/internal/nearest"
)

type filterFunc func(r *run, v any, a args) (any, error)

// library is the filters and tests a template can name. It is a value and not
// a package variable because some of them (map, select) look up others.
type library struct {
	filters map[string]filterFunc
	tests   map[string]*predicate
}

func newLibrary() *library { return &library{filterTable(), predicateTable()} }

func (l *library) noFilter(name string) error {
	return fmt.Errorf("no filter named %q%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(l.filters))))
}

func (l *library) noTest(name string) error {
	return fmt.Errorf("no test named %q%s", name, nearest.Hint(name, slices.Sorted(maps.Keys(l.tests))))
}

func filterTable() map[string]filterFunc {
	return map[string]filterFunc{
		"abs": bare("abs", filterAbs), "attr": filterAttr, "capitalize": caseFilter("capitalize"),
		"count": bare("length", filterLength), "d": filterDefault, "default": filterDefault, "dictsort": filterDictsort,
		"e": bare("escape", filterEscape), "escape": bare("escape", filterEscape), "first": bare("first", filterFirst),
		"float": filterFloat, "format": filterFormat, "indent": filterIndent, "int": filterInt,
		"items": bare("items", filterItems), "join": filterJoin, "last": bare("last", filterLast),
		"length": bare("length", filterLength), "list": bare("list", filterList), "lower": caseFilter("lower"),
		"map": filterMap, "max": extremeFilter("max", 1), "min": extremeFilter("min", -1),
		"reject": pickFilter("reject", false, false), "rejectattr": pickFilter("rejectattr", true, false),
		"replace": filterReplace, "reverse": bare("reverse", filterReverse), "round": filterRound,
		"safe": bare("safe", filterSafe), "select": pickFilter("select", false, true),
		"selectattr": pickFilter("selectattr", true, true), "sort": filterSort, "string": bare("string", filterString),
		"sum": filterSum, "title": bare("title", filterTitle), "tojson": filterTojson, "trim": filterTrim,
		"unique": filterUnique, "upper": caseFilter("upper"),
	}
}

func (r *run) filter(name string, v any, a args) (any, error) {
	f := r.lib.filters[name]
	if f == nil {
		return nil, r.lib.noFilter(name)
	}
	return f(r, v, a)
}

// bare is a filter without parameters.
func bare(name string, f func(r *run, v any) (any, error)) filterFunc {
	return func(r *run, v any, a args) (any, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		return f(r, v)
	}
}

// softText is how string filters read their value: anything prints.
func (r *run) softText(v any) (string, error) {
	s, err := r.str(v)
	if err == nil {
		err = r.room(len(s))
	}
	return s, err
}

func caseFilter(name string) filterFunc {
	return bare(name, func(r *run, v any) (any, error) {
		s, err := r.softText(v)
		return like(v, changeCase(name, s)), err
	})
}

// filterTitle capitalises after spaces, hyphens and opening brackets, which
// is not where the title method does.
func filterTitle(r *run, v any) (any, error) {
	s, err := r.softText(v)
	start := true
	var b strings.Builder
	for _, c := range s {
		if start {
			b.WriteString(upper(string(c)))
		} else {
			b.WriteString(strings.ToLower(string(c)))
		}
		start = isSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return like(v, b.String()), err
}

func filterTrim(r *run, v any, a args) (any, error) {
	p, err := a.bind("trim", 0, "chars")
	if err != nil {
		return nil, err
	}
	s, err := r.softText(v)
	if err != nil {
		return nil, err
	}
	out, err := strip(s, "trim", p[0])
	return like(v, out), err
}

func filterString(r *run, v any) (any, error) {
	s, err := r.str(v)
	return like(v, s), err
}

func filterSafe(r *run, v any) (any, error) {
	s, err := r.str(v)
	return markup(s), err
}

func filterEscape(r *run, v any) (any, error) {
	if m, ok := v.(markup); ok {
		return m, nil
	}
	s, err := r.softText(v)
	if err != nil {
		return nil, err
	}
	out := htmlEscapes.Replace(s)
	return markup(out), r.room(len(out))
}

func filterReplace(r *run, v any, a args) (any, error) {
	p, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	for i := range 2 {
		if p[i], err = r.str(p[i]); err != nil {
			return nil, err
		}
	}
	if p[2] == nil {
		p[2] = absent
	}
	s, err := r.softText(v)
	if err != nil {
		return nil, err
	}
	out, err := r.replace(s, p)
	return like(v, out), err
}

func filterFormat(r *run, v any, a args) (any, error) {
	s, err := r.softText(v)
	if err != nil {
		return nil, err
	}
	if len(a.named) > 0 {
		return nil, fmt.Errorf("format: named arguments are not supported")
	}
	out, err := r.percent(s, tuple(a.pos))
	return like(v, out), err
}

func filterIndent(r *run, v any, a args) (any, error) {
	p, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	pad, isText := text(p[0])
	if !isText {
		n, err := intArg("indent", p[0], 4)
		if err != nil {
			return nil, err
		}
		if err := r.room(int(min(n, math.MaxInt32))); err != nil && n > 0 {
			return nil, err
		}
		pad = strings.Repeat(" ", int(max(n, 0)))
	}
	s, err := r.softText(v)
	if err != nil {
		return nil, err
	}
	blank := truth(or(p[2], false))
	w := &writer{run: r}
	for i, line := range splitLines(s+"\n", false) {
		if i > 0 {
			line = indentLine(line, pad, blank)
		} else if truth(or(p[1], false)) {
			line = pad + line
		}
		if err := w.write(line); err != nil {
			return nil, err
		}
	}
	return like(v, w.b.String()), nil
}

func indentLine(line, pad string, blank bool) string {
	if line == "" && !blank {
		return "\n"
	}
	return "\n" + pad + line
}

func filterTojson(r *run, v any, a args) (any, error) {
	p, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	st := jsonStyle{item: ", ", key: ": ", ascii: truth(or(p[0], false)), sortedKeys: truth(or(p[3], false))}
	if ind := or(p[1], nil); ind != nil {
		st.lines, st.item = true, ","
		pad, isText := text(ind)
		if !isText {
			n, err := intArg("tojson", ind, 0)
			if err != nil {
				return nil, err
			}
			if n > 1000 {
				return nil, fmt.Errorf("tojson: indent %d is too large", n)
			}
			pad = strings.Repeat(" ", int(max(n, 0)))
		}
		st.indent = pad
	}
	if sep := or(p[2], nil); sep != nil {
		pair, ok := sequence(sep)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("tojson: separators must be a pair")
		}
		if st.item, err = textArg("tojson", pair[0]); err != nil {
			return nil, err
		}
		if st.key, err = textArg("tojson", pair[1]); err != nil {
			return nil, err
		}
	}
	w := &writer{run: r}
	err = w.json(v, st, 0)
	return w.b.String(), err
}

func filterDefault(_ *run, v any, a args) (any, error) {
	p, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	_, undef := v.(*undefined)
	if undef || (truth(or(p[1], false)) && !truth(v)) {
		return or(p[0], ""), nil
	}
	return v, nil
}

func filterAttr(r *run, v any, a args) (any, error) {
	p, err := a.bind("attr", 1, "name")
	if err != nil {
		return nil, err
	}
	name, err := textArg("attr", p[0])
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case *namespace, *loop, *undefined:
		return r.attr(v, name)
	}
	return method(v, name), nil
}

func filterAbs(_ *run, v any) (any, error) {
	if n, ok := asInt(v); ok && n < 0 {
		return sign("-", n)
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	return sign("+", v)
}

func filterInt(_ *run, v any, a args) (any, error) {
	p, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := intArg("int", p[1], 10)
	if err != nil {
		return nil, err
	}
	if s, ok := text(v); ok {
		if n, ok := parseInt(s, base); ok {
			return n, nil
		}
		f, ok := parseFloat(s)
		if !ok {
			return or(p[0], int64(0)), nil
		}
		v = f
	}
	switch v := v.(type) {
	case *big.Int:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return or(p[0], int64(0)), nil
		}
		n, _ := big.NewFloat(v).Int(nil)
		return integer(n), nil
	}
	if n, ok := asInt(v); ok {
		return n, nil
	}
	return or(p[0], int64(0)), nil
}

// parseInt reads an integer as Python's int(s, base) does.
func parseInt(s string, base int64) (any, bool) {
	s = strings.ToLower(strings.TrimFunc(s, isSpace))
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	prefix := map[int64]string{16: "0x", 8: "0o", 2: "0b"}[base]
	if prefix != "" {
		s = strings.TrimPrefix(s, prefix)
	}
	if s == "" || s[0] == '-' || s[0] == '+' || base < 2 || base > 36 || len(s) > 4300 {
		return nil, false
	}
	if s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(s, "_", ""), int(base))
	if !ok {
		return nil, false
	}
	if negative {
		n.Neg(n)
	}
	return integer(n), true
}

func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func filterFloat(_ *run, v any, a args) (any, error) {
	p, err := a.bind("float", 0, "default")
	if err != nil {
		return nil, err
	}
	if s, ok := text(v); ok {
		if f, ok := parseFloat(s); ok {
			return f, nil
		}
	} else if f, ok := asFloat(v); ok {
		return f, nil
	}
	return or(p[0], 0.0), nil
}

func filterRound(_ *run, v any, a args) (any, error) {
	p, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return nil, err
	}
	digits, err := intArg("round", p[0], 0)
	if err != nil {
		return nil, err
	}
	f, ok := asFloat(v)
	if !ok {
		return nil, fmt.Errorf("round: a value of type %s is not a number", typeName(v))
	}
	if digits < -300 || digits > 300 {
		return nil, fmt.Errorf("round: precision %d is out of range", digits)
	}
	how, _ := text(or(p[1], "common"))
	scale := math.Pow(10, float64(digits))
	switch how {
	case "floor":
		return math.Floor(f*scale) / scale, nil
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "common":
		if n, whole := asInt(v); whole && digits >= 0 {
			return n, nil
		}
		if digits < 0 {
			return math.RoundToEven(f*scale) / scale, nil
		}
		out, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
		return out, err
	}
	return nil, fmt.Errorf("round: method must be common, ceil or floor")
}
