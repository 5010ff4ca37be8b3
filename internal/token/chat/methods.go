package chat

import (
	"fmt"
	"slices"
)

// changers are the methods that would change a list or mapping in place. The
// sandbox refuses them, so naming one gives an undefined value.
var changers = []string{
	"append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
}

type methodFunc func(r *run, self any, a args) (any, error)

// method finds the method of v called name, bound to v.
func method(v any, name string) any {
	var m methodFunc
	switch v.(type) {
	case string, markup:
		m = stringMethod(name)
	case *Dict:
		m = dictMethod(name)
	case []any, tuple:
		m = listMethod(name)
	}
	if m != nil {
		return &function{name, func(r *run, a args) (any, error) { return m(r, v, a) }}
	}
	switch v.(type) {
	case *Dict, []any:
		if slices.Contains(changers, name) {
			return &undefined{fmt.Sprintf("%s of a %s is not allowed: values cannot be changed in place", name, typeName(v))}
		}
	}
	return &undefined{fmt.Sprintf("%s has no attribute %q", typeName(v), name)}
}

func dictMethod(name string) methodFunc {
	switch name {
	case "get":
		return func(_ *run, self any, a args) (any, error) {
			v, err := a.bind("get", 1, "key", "default")
			if err != nil {
				return nil, err
			}
			if x, ok := self.(*Dict).get(v[0]); ok {
				return x, nil
			}
			return or(v[1], nil), nil
		}
	case "items":
		return plain(name, func(d *Dict) any { return d.pairs() })
	case "keys":
		return plain(name, func(d *Dict) any { return d.keys })
	case "values":
		return plain(name, func(d *Dict) any { return d.vals })
	case "copy":
		return plain(name, func(d *Dict) any { return d })
	}
	return nil
}

// plain is a mapping's method without arguments.
func plain(name string, f func(*Dict) any) methodFunc {
	return func(r *run, self any, a args) (any, error) {
		if _, err := a.bind(name, 0); err != nil {
			return nil, err
		}
		d := self.(*Dict)
		return f(d), r.spend(d.Len())
	}
}

func listMethod(name string) methodFunc {
	switch name {
	case "count", "index":
		return func(r *run, self any, a args) (any, error) {
			v, err := a.bind(name, 1, "value")
			if err != nil {
				return nil, err
			}
			items, _ := sequence(self)
			return r.search(name, items, v[0])
		}
	case "copy":
		return func(_ *run, self any, _ args) (any, error) { return self, nil }
	}
	return nil
}

func (r *run) search(name string, items []any, x any) (any, error) {
	n := int64(0)
	for i, item := range items {
		eq, err := r.equal(item, x, 0)
		if err != nil {
			return nil, err
		}
		if eq && name == "index" {
			return int64(i), nil
		}
		if eq {
			n++
		}
	}
	if name == "index" {
		return nil, fmt.Errorf("index: value is not in the list")
	}
	return n, nil
}
