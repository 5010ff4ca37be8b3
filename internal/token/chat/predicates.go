package chat

import (
	"fmt"
	"math/big"
	"strings"
	"unicode"
)

// predicate is what follows "is". arity is how many arguments it takes.
type predicate struct {
	arity int
	holds func(r *run, v any, a []any) (bool, error)
}

// is makes a predicate of a plain question about a value.
func is(f func(v any) bool) *predicate {
	return &predicate{0, func(_ *run, v any, _ []any) (bool, error) { return f(v), nil }}
}

// compares makes a predicate of a comparison operator.
func compares(op string) *predicate {
	return &predicate{1, func(r *run, v any, a []any) (bool, error) { return r.relation(op, v, a[0]) }}
}

func predicateTable() map[string]*predicate {
	t := map[string]*predicate{
		"boolean": is(isA[bool]), "callable": is(isA[*function]), "defined": is(func(v any) bool { return !isA[*undefined](v) }),
		"undefined": is(isA[*undefined]), "none": is(func(v any) bool { return v == nil }),
		"true": is(func(v any) bool { return v == true }), "false": is(func(v any) bool { return v == false }),
		"string": is(func(v any) bool { _, ok := text(v); return ok }), "mapping": is(isA[*Dict]),
		"iterable": is(isIterable), "sequence": is(isSequence), "escaped": is(isA[markup]),
		"number": is(func(v any) bool { _, ok := asFloat(v); return ok }), "float": is(isA[float64]),
		"integer": is(func(v any) bool { return isA[int64](v) || isA[*big.Int](v) }),
		"in":      compares("in"),
		"odd":     {0, func(_ *run, v any, _ []any) (bool, error) { return remainder(v, int64(2), 1) }},
		"even":    {0, func(_ *run, v any, _ []any) (bool, error) { return remainder(v, int64(2), 0) }},
		"divisibleby": {1, func(_ *run, v any, a []any) (bool, error) {
			return remainder(v, a[0], 0)
		}},
		"sameas": {1, func(r *run, v any, a []any) (bool, error) {
			if typeName(v) != typeName(a[0]) {
				return false, nil
			}
			return r.equal(v, a[0], 0)
		}},
		"lower": {0, func(r *run, v any, _ []any) (bool, error) {
			s, err := r.str(v)
			return strings.ContainsFunc(s, unicode.IsLower) && !strings.ContainsFunc(s, unicode.IsUpper), err
		}},
		"upper": {0, func(r *run, v any, _ []any) (bool, error) {
			s, err := r.str(v)
			return strings.ContainsFunc(s, unicode.IsUpper) && !strings.ContainsFunc(s, unicode.IsLower), err
		}},
		"filter": {0, func(r *run, v any, _ []any) (bool, error) {
			s, ok := text(v)
			return ok && r.lib.filters[s] != nil, nil
		}},
		"test": {0, func(r *run, v any, _ []any) (bool, error) {
			s, ok := text(v)
			return ok && r.lib.tests[s] != nil, nil
		}},
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"},
		">": {"gt", "greaterthan"}, ">=": {"ge"},
	} {
		for _, name := range append(names, op) {
			t[name] = compares(op)
		}
	}
	return t
}

func isA[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func isIterable(v any) bool {
	switch v.(type) {
	case string, markup, []any, tuple, *Dict, *generator, *undefined, *loop:
		return true
	}
	return false
}

func isSequence(v any) bool {
	switch v.(type) {
	case string, markup, []any, tuple, *Dict, *undefined:
		return true
	}
	return false
}

func remainder(v, by any, want int64) (bool, error) {
	n, ok := asInt(v)
	d, okBy := asInt(by)
	if !ok || !okBy {
		return false, fmt.Errorf("a value of type %s has no remainder", typeName(v))
	}
	m, err := arithInt("%", n, d)
	return m == want, err
}

func (r *run) test(name string, v any, a args) (bool, error) {
	p := r.lib.tests[name]
	if p == nil {
		return false, r.lib.noTest(name)
	}
	if len(a.named) > 0 || len(a.pos) != p.arity {
		return false, fmt.Errorf("test %q takes %d arguments", name, p.arity)
	}
	return p.holds(r, v, a.pos)
}
