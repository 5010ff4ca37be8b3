package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func filterLength(_ *run, v any) (any, error) {
	n, err := length(v)
	return int64(n), err
}

func filterList(r *run, v any) (any, error) {
	items, err := r.iterate(v)
	if items == nil {
		items = []any{}
	}
	return items, err
}

func filterFirst(r *run, v any) (any, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"first: the sequence is empty"}, nil
	}
	return items[0], nil
}

func filterLast(r *run, v any) (any, error) {
	if _, lazy := v.(*generator); lazy {
		return nil, fmt.Errorf("last: a generator has no end to start from, add | list")
	}
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"last: the sequence is empty"}, nil
	}
	return items[len(items)-1], nil
}

func filterItems(_ *run, v any) (any, error) {
	switch v := v.(type) {
	case *undefined:
		return &generator{}, nil
	case *Dict:
		return &generator{v.pairs()}, nil
	}
	return nil, fmt.Errorf("items: a value of type %s is not a mapping", typeName(v))
}

func filterReverse(r *run, v any) (any, error) {
	if _, ok := text(v); ok {
		by := int64(-1)
		return r.slice(v, nil, nil, &by)
	}
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	return &generator{out}, r.spend(len(out))
}

// bindItems binds the arguments of a filter and goes through its value.
func (r *run) bindItems(v any, a args, fn string, need int, names ...string) (p, items []any, err error) {
	if p, err = a.bind(fn, need, names...); err == nil {
		items, err = r.iterate(v)
	}
	return p, items, err
}

func filterJoin(r *run, v any, a args) (any, error) {
	p, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return nil, err
	}
	sep, err := r.str(or(p[0], ""))
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	get := r.getter(or(p[1], nil), absent)
	return r.joined(items, sep, func(item any) (string, error) {
		x, err := get(item)
		if err != nil {
			return "", err
		}
		return r.str(x)
	})
}

// getter reads attribute (a dotted path, an index, or nil for the item
// itself) of an item; a missing one becomes def unless that is absent.
func (r *run) getter(attribute, def any) func(any) (any, error) {
	if attribute == nil {
		return func(v any) (any, error) { return v, nil }
	}
	path := []any{attribute}
	if s, ok := text(attribute); ok {
		path = path[:0]
		for _, part := range strings.Split(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && part[0] != '-' && part[0] != '+' {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	}
	return func(v any) (any, error) {
		for _, part := range path {
			var err error
			if v, err = r.item(v, part); err != nil {
				return nil, err
			}
			if _, none := v.(*undefined); none && def != absent {
				v = def
			}
		}
		return v, nil
	}
}

// folded makes strings compare without regard to case.
func folded(get func(any) (any, error), caseSensitive bool) func(any) (any, error) {
	if caseSensitive {
		return get
	}
	return func(v any) (any, error) {
		x, err := get(v)
		if s, ok := text(x); ok {
			return strings.ToLower(s), err
		}
		return x, err
	}
}

// sortIndex returns the positions of keys in rising order, stably.
func (r *run) sortIndex(keys []any, reverse bool) ([]int, error) {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(a, b int) int {
		if failed != nil {
			return 0
		}
		c, err := r.compare(keys[a], keys[b], 0)
		failed = err
		if reverse {
			return -c
		}
		return c
	})
	return order, failed
}

// sorted sorts items by what get reads of each.
func (r *run) sorted(items []any, get func(any) (any, error), reverse bool) ([]any, error) {
	keys := make([]any, len(items))
	for i, item := range items {
		var err error
		if keys[i], err = get(item); err != nil {
			return nil, err
		}
	}
	order, err := r.sortIndex(keys, reverse)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, j := range order {
		out[i] = items[j]
	}
	return out, nil
}

func filterSort(r *run, v any, a args) (any, error) {
	p, items, err := r.bindItems(v, a, "sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	attribute := or(p[2], nil)
	get := folded(r.getter(attribute, absent), truth(or(p[1], false)))
	if s, ok := text(attribute); ok && strings.Contains(s, ",") {
		parts := strings.Split(s, ",")
		get = func(v any) (any, error) {
			key := make(tuple, len(parts))
			for i, part := range parts {
				var err error
				if key[i], err = folded(r.getter(part, absent), truth(or(p[1], false)))(v); err != nil {
					return nil, err
				}
			}
			return key, nil
		}
	}
	return r.sorted(items, get, truth(or(p[0], false)))
}

func filterDictsort(r *run, v any, a args) (any, error) {
	p, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("dictsort: a value of type %s is not a mapping", typeName(v))
	}
	by, _ := text(or(p[1], "key"))
	place := slices.Index([]string{"key", "value"}, by)
	if place < 0 {
		return nil, fmt.Errorf("dictsort: by must be key or value")
	}
	get := folded(func(v any) (any, error) { return v.(tuple)[place], nil }, truth(or(p[0], false)))
	return r.sorted(d.pairs(), get, truth(or(p[2], false)))
}

func filterUnique(r *run, v any, a args) (any, error) {
	p, items, err := r.bindItems(v, a, "unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get := folded(r.getter(or(p[1], nil), absent), truth(or(p[0], false)))
	seen := NewDict()
	var out []any
	for _, item := range items {
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		if _, dup := seen.get(key); dup {
			continue
		}
		if !seen.set(key, true) {
			return nil, fmt.Errorf("unique: a value of type %s cannot be told apart", typeName(key))
		}
		out = append(out, item)
	}
	return &generator{out}, nil
}

// extremeFilter is min or max: want is the sign of compare that wins.
func extremeFilter(name string, want int) filterFunc {
	return func(r *run, v any, a args) (any, error) {
		p, items, err := r.bindItems(v, a, name, 0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &undefined{name + ": the sequence is empty"}, nil
		}
		get := folded(r.getter(or(p[1], nil), absent), truth(or(p[0], false)))
		out, err := r.sorted(items, get, want > 0)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
}

func filterSum(r *run, v any, a args) (any, error) {
	p, items, err := r.bindItems(v, a, "sum", 0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	get := r.getter(or(p[0], nil), absent)
	total := or(p[1], int64(0))
	for _, item := range items {
		x, err := get(item)
		if err != nil {
			return nil, err
		}
		if total, err = r.arith("+", total, x); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// filterMap is map(attribute="a", default=d) or map("filter", args...).
func filterMap(r *run, v any, a args) (any, error) {
	if !truth(v) {
		return &generator{}, nil
	}
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	var each func(any) (any, error)
	if len(a.pos) == 0 {
		p, err := a.bind("map", 1, "attribute", "default")
		if err != nil {
			return nil, err
		}
		each = r.getter(p[0], p[1])
	} else {
		name, err := textArg("map", a.pos[0])
		if err != nil {
			return nil, err
		}
		rest := args{a.pos[1:], a.named}
		each = func(x any) (any, error) { return r.filter(name, x, rest) }
	}
	out := make([]any, len(items))
	for i, item := range items {
		if out[i], err = each(item); err != nil {
			return nil, err
		}
	}
	return &generator{out}, r.spend(len(out))
}

// pickFilter is select, reject, selectattr or rejectattr. Like map, they take
// anything false, null included, for an empty sequence.
func pickFilter(name string, byAttr, keep bool) filterFunc {
	return func(r *run, v any, a args) (any, error) {
		if !truth(v) {
			return &generator{}, nil
		}
		items, err := r.iterate(v)
		if err != nil {
			return nil, err
		}
		get := r.getter(nil, absent)
		if byAttr {
			if len(a.pos) == 0 {
				return nil, fmt.Errorf("%s needs the name of an attribute", name)
			}
			get = r.getter(a.pos[0], absent)
			a.pos = a.pos[1:]
		}
		var out []any
		for _, item := range items {
			ok, err := r.picks(name, item, get, a)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return &generator{out}, r.spend(len(out))
	}
}

// picks applies the test named first in a, or plain truth without one.
func (r *run) picks(name string, item any, get func(any) (any, error), a args) (bool, error) {
	x, err := get(item)
	if err != nil {
		return false, err
	}
	if len(a.pos) == 0 {
		return truth(x), nil
	}
	test, err := textArg(name, a.pos[0])
	if err != nil {
		return false, err
	}
	return r.test(test, x, args{a.pos[1:], a.named})
}
