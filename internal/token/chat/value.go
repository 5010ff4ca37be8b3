package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values in a running template are: nil (none), bool, int64, *big.Int (only
// carried, never computed with), float64, string, markup, []any (a list that
// nothing can change), tuple, *Dict, *generator, *namespace, *loop,
// *undefined and *function.

type (
	tuple []any
	// markup is a string marked safe. It matters in one place: + escapes the
	// other side, even though nothing else in a chat template is escaped.
	markup string
	// namespace is the one value a template can change.
	namespace struct{ d *Dict }
	// undefined is what a missing name, key or index gives. It prints as
	// nothing and fails when used for anything else.
	undefined struct{ msg string }
	// generator is a sequence that can be walked once, as lazy filters give.
	generator struct{ items []any }
	// function is anything callable.
	function struct {
		name string
		call func(r *run, a args) (any, error)
	}
)

func (u *undefined) err() error { return fmt.Errorf("%s", u.msg) }

func missing(name string) *undefined {
	return &undefined{fmt.Sprintf("%q is undefined", name)}
}

// maxValueDepth bounds nesting of lists and dicts wherever they are walked.
const maxValueDepth = 500

var errTooDeep = fmt.Errorf("value is nested deeper than %d levels", maxValueDepth)

// convert brings a caller's value into the set above.
func convert(v any, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case nil, bool, string, int64, float64:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		return integer(new(big.Int).SetUint64(v)), nil
	case float32:
		return float64(v), nil
	case *big.Int:
		return integer(v), nil
	case json.Number:
		return number(string(v))
	case []any:
		return convertList(v, depth)
	case []string:
		return convertList(v, depth)
	case []map[string]any:
		return convertList(v, depth)
	case []*Dict:
		return convertList(v, depth)
	case map[string]any:
		d := NewDict()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x, err := convert(v[k], depth+1)
			if err != nil {
				return nil, within(k, err)
			}
			d.Set(k, x)
		}
		return d, nil
	case *Dict:
		return v.convert(depth)
	}
	return nil, fmt.Errorf("a value of type %T cannot be used in a template", v)
}

func convertList[T any](in []T, depth int) (any, error) {
	out := make([]any, len(in))
	for i, x := range in {
		var err error
		if out[i], err = convert(x, depth+1); err != nil {
			return nil, within("element "+strconv.Itoa(i), err)
		}
	}
	return out, nil
}

// within names the place of an error. Excessive depth goes without: its path
// would be as long as it is deep.
func within(place string, err error) error {
	if errors.Is(err, errTooDeep) {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}

// number reads a JSON number, keeping integers apart from floats.
func number(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		if n, ok := new(big.Int).SetString(s, 10); ok && len(s) <= 4300 {
			return n, nil
		}
		return nil, fmt.Errorf("%q is not a number", s)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	return f, nil
}

func integer(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// typeName is the name Python gives a value's type, for error messages.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "none"
	case bool:
		return "boolean"
	case int64, *big.Int:
		return "integer"
	case float64:
		return "float"
	case string, markup:
		return "string"
	case []any:
		return "list"
	case tuple:
		return "tuple"
	case *Dict:
		return "mapping"
	case *generator:
		return "generator"
	case *namespace:
		return "namespace"
	case *undefined:
		return "undefined value"
	case *loop:
		return "loop"
	}
	return "function"
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *Dict:
		return v.Len() > 0
	case *loop:
		return len(v.items) > 0
	}
	return true
}

// text returns the characters of a string or markup.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// like gives s the kind of string v is.
func like(v any, s string) any {
	if _, ok := v.(markup); ok {
		return markup(s)
	}
	return s
}

// asInt returns whole numbers, booleans among them.
func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func asFloat(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	if b, ok := v.(*big.Int); ok {
		f, _ := new(big.Float).SetInt(b).Float64()
		return f, true
	}
	n, ok := asInt(v)
	return float64(n), ok
}

// iterate returns the elements of v. A generator is empty afterwards.
func (r *run) iterate(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case tuple:
		return v, nil
	case *Dict:
		return v.keys, nil
	case *generator:
		items := v.items
		v.items = nil
		return items, nil
	case *undefined:
		return nil, nil
	case string, markup:
		s, _ := text(v)
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
		out := make([]any, 0, len(s))
		for _, c := range s {
			out = append(out, string(c))
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be iterated", typeName(v))
}

// length is Python's len.
func length(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), nil
	case markup:
		return utf8.RuneCountInString(string(v)), nil
	case []any:
		return len(v), nil
	case tuple:
		return len(v), nil
	case *Dict:
		return v.Len(), nil
	case *loop:
		return len(v.items), nil
	case *undefined:
		return 0, nil
	}
	return 0, fmt.Errorf("a value of type %s has no length", typeName(v))
}

// equal is Python's ==. Steps are charged because shared substructure can
// make two small values exponentially long to compare.
func (r *run) equal(a, b any, depth int) (bool, error) {
	if depth > maxValueDepth {
		return false, errTooDeep
	}
	if err := r.spend(1); err != nil {
		return false, err
	}
	if x, ok := asInt(a); ok {
		if y, ok := asInt(b); ok {
			return x == y, nil
		}
	}
	if x, ok := asFloat(a); ok {
		y, ok := asFloat(b)
		return ok && x == y, nil
	}
	if x, ok := text(a); ok {
		y, ok := text(b)
		return ok && x == y, nil
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case []any:
		y, ok := b.([]any)
		if !ok {
			return false, nil
		}
		return r.equalItems(x, y, depth)
	case tuple:
		y, ok := b.(tuple)
		if !ok {
			return false, nil
		}
		return r.equalItems(x, y, depth)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok {
			return false, nil
		}
		return r.equalDicts(x, y, depth)
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	}
	return a == b, nil
}

func (r *run) equalItems(a, b []any, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if ok, err := r.equal(a[i], b[i], depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *Dict, depth int) (bool, error) {
	if a == b {
		return true, nil
	}
	if a.Len() != b.Len() {
		return false, nil
	}
	for i, k := range a.keys {
		v, ok := b.get(k)
		if !ok {
			return false, nil
		}
		if ok, err := r.equal(a.vals[i], v, depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compare orders two values: below, equal to or above zero.
func (r *run) compare(a, b any, depth int) (int, error) {
	if depth > maxValueDepth {
		return 0, errTooDeep
	}
	if err := r.spend(1); err != nil {
		return 0, err
	}
	if x, ok := asInt(a); ok {
		if y, ok := asInt(b); ok {
			return order(x, y), nil
		}
	}
	if x, ok := asFloat(a); ok {
		if y, ok := asFloat(b); ok {
			return order(x, y), nil
		}
	}
	if x, ok := text(a); ok {
		if y, ok := text(b); ok {
			return strings.Compare(x, y), nil
		}
	}
	x, okX := sequence(a)
	y, okY := sequence(b)
	if okX && okY && typeName(a) == typeName(b) {
		return r.compareItems(x, y, depth)
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(*undefined); ok {
			return 0, u.err()
		}
	}
	return 0, fmt.Errorf("values of type %s and %s have no order", typeName(a), typeName(b))
}

func (r *run) compareItems(a, b []any, depth int) (int, error) {
	for i := range min(len(a), len(b)) {
		eq, err := r.equal(a[i], b[i], depth+1)
		if err != nil {
			return 0, err
		}
		if !eq {
			return r.compare(a[i], b[i], depth+1)
		}
	}
	return order(len(a), len(b)), nil
}

// order places a NaN above everything; no template compares one.
func order[T int | int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// sequence returns the elements of a list or tuple.
func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}
