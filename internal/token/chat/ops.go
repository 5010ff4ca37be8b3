package chat

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

func sign(op string, v any) (any, error) {
	if op == "not" {
		return !truth(v), nil
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if n, ok := asInt(v); ok {
		switch {
		case op == "+":
			return n, nil
		case n == math.MinInt64:
			return nil, errOverflow
		}
		return -n, nil
	}
	if f, ok := v.(float64); ok {
		if op == "-" {
			f = -f
		}
		return f, nil
	}
	return nil, fmt.Errorf("a value of type %s has no sign", typeName(v))
}

var (
	errOverflow = errors.New("integer does not fit 64 bits")
	errZero     = errors.New("division by zero")
)

// arith applies a binary operator. Nothing is coerced: a string and a number
// do not add up.
func (r *run) arith(op string, a, b any) (any, error) {
	for _, v := range []any{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	switch op {
	case "+":
		if v, ok, err := r.join(a, b); ok || err != nil {
			return v, err
		}
	case "*":
		if v, ok, err := r.repeat(a, b); ok || err != nil {
			return v, err
		}
	case "%":
		if s, ok := text(a); ok {
			v, err := r.percent(s, b)
			return v, err
		}
	}
	if _, big := a.(*big.Int); !big {
		if x, ok := asInt(a); ok {
			if y, ok := asInt(b); ok && op != "/" {
				return arithInt(op, x, y)
			}
		}
		if x, ok := asFloat(a); ok {
			if y, ok := asFloat(b); ok {
				return arithFloat(op, x, y)
			}
		}
	}
	return nil, fmt.Errorf("cannot apply %s to values of type %s and %s", op, typeName(a), typeName(b))
}

// join adds strings or sequences; ok is false when a and b are neither.
func (r *run) join(a, b any) (any, bool, error) {
	if x, ok := text(a); ok {
		y, ok := text(b)
		if !ok {
			return nil, false, nil
		}
		_, safeA := a.(markup)
		_, safeB := b.(markup)
		if safeA && !safeB {
			y = htmlEscapes.Replace(y)
		}
		if safeB && !safeA {
			x = htmlEscapes.Replace(x)
		}
		if err := r.room(len(x) + len(y)); err != nil {
			return nil, true, err
		}
		if safeA || safeB {
			return markup(x + y), true, nil
		}
		return x + y, true, nil
	}
	x, okX := sequence(a)
	y, okY := sequence(b)
	if !okX || !okY || typeName(a) != typeName(b) {
		return nil, false, nil
	}
	if err := r.spend(len(x) + len(y)); err != nil {
		return nil, true, err
	}
	out := make([]any, 0, len(x)+len(y))
	out = append(append(out, x...), y...)
	return sameKind(a, out), true, nil
}

// room checks that a string of n bytes may be built, and charges for it.
func (r *run) room(n int) error {
	if n < 0 || n > r.lim.output {
		return errTooLong
	}
	return r.build(n)
}

// sameKind returns items as a tuple if v is one, else as a list.
func sameKind(v any, items []any) any {
	if _, ok := v.(tuple); ok {
		return tuple(items)
	}
	return items
}

// repeat multiplies a string or sequence by a whole number.
func (r *run) repeat(a, b any) (any, bool, error) {
	n, ok := asInt(b)
	if !ok {
		if n, ok = asInt(a); !ok {
			return nil, false, nil
		}
		a = b
	}
	n = max(n, 0)
	if s, ok := text(a); ok {
		if n > 0 && len(s) > r.lim.output/int(min(n, math.MaxInt32)) {
			return nil, true, errTooLong
		}
		return like(a, strings.Repeat(s, int(n))), true, r.room(len(s) * int(n))
	}
	items, ok := sequence(a)
	if !ok {
		return nil, false, nil
	}
	if n > 0 && len(items) > r.lim.steps/16/int(min(n, math.MaxInt32)) {
		return nil, true, errTooLongRun
	}
	if err := r.spend(len(items) * int(n)); err != nil {
		return nil, true, err
	}
	out := make([]any, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return sameKind(a, out), true, nil
}

func arithInt(op string, x, y int64) (any, error) {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return s, nil
		}
		return nil, errOverflow
	case "-":
		if d := x - y; (d < x) == (y > 0) {
			return d, nil
		}
		return nil, errOverflow
	case "*":
		return exact(new(big.Int).Mul(big.NewInt(x), big.NewInt(y)))
	case "**":
		return power(x, y)
	}
	if y == 0 {
		return nil, errZero
	}
	if y == -1 {
		if op == "//" {
			return sign("-", x)
		}
		return int64(0), nil
	}
	q, m := x/y, x%y
	if m != 0 && (m < 0) != (y < 0) {
		q, m = q-1, m+y
	}
	if op == "//" {
		return q, nil
	}
	return m, nil
}

func exact(n *big.Int) (any, error) {
	if !n.IsInt64() {
		return nil, errOverflow
	}
	return n.Int64(), nil
}

func power(x, y int64) (any, error) {
	if y < 0 {
		return arithFloat("**", float64(x), float64(y))
	}
	if x == 0 || x == 1 || y == 0 {
		if y == 0 {
			return int64(1), nil
		}
		return x, nil
	}
	if x == -1 {
		return 1 - 2*(y&1), nil
	}
	if y > 63 {
		return nil, errOverflow
	}
	return exact(new(big.Int).Exp(big.NewInt(x), big.NewInt(y), nil))
}

func arithFloat(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		if x == 0 && y < 0 {
			return nil, errZero
		}
		return math.Pow(x, y), nil
	}
	if y == 0 {
		return nil, errZero
	}
	if op == "/" {
		return x / y, nil
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	if op == "%" {
		return m, nil
	}
	return math.Floor((x - m) / y), nil
}

// relation decides one comparison.
func (r *run) relation(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		eq, err := r.equal(a, b, 0)
		return !eq, err
	case "in":
		return r.in(a, b)
	case "not in":
		ok, err := r.in(a, b)
		return !ok && err == nil, err
	}
	c, err := r.compare(a, b, 0)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

func (r *run) in(x, where any) (bool, error) {
	switch w := where.(type) {
	case string, markup:
		s, _ := text(w)
		part, ok := text(x)
		if !ok {
			return false, fmt.Errorf("in a string, only a string can be looked for, not a value of type %s", typeName(x))
		}
		return strings.Contains(s, part), r.build(len(s) / 16)
	case *Dict:
		_, ok := w.get(x)
		return ok, nil
	}
	items, err := r.iterate(where)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if ok, err := r.equal(x, item, 0); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// item is v[i]. What is not there is undefined, not an error.
func (r *run) item(v, i any) (any, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if d, ok := v.(*Dict); ok {
		if x, ok := d.get(i); ok {
			return x, nil
		}
	} else if n, ok := asInt(i); ok {
		if x, ok := index(v, n); ok {
			return x, nil
		}
	}
	if name, ok := text(i); ok {
		switch v.(type) {
		case *namespace, *loop:
			return r.attr(v, name)
		}
		return method(v, name), nil
	}
	s, err := r.str(i)
	return &undefined{fmt.Sprintf("%s has no element %s", typeName(v), s)}, err
}

func index(v any, n int64) (any, bool) {
	if s, ok := text(v); ok {
		runes := []rune(s)
		if n < 0 {
			n += int64(len(runes))
		}
		if n < 0 || n >= int64(len(runes)) {
			return nil, false
		}
		return like(v, string(runes[n])), true
	}
	items, ok := sequence(v)
	if n < 0 {
		n += int64(len(items))
	}
	if !ok || n < 0 || n >= int64(len(items)) {
		return nil, false
	}
	return items[n], true
}

// attr is v.name: a method first, then an entry.
func (r *run) attr(v any, name string) (any, error) {
	switch x := v.(type) {
	case *undefined:
		return nil, x.err()
	case *namespace:
		if got, ok := x.d.Get(name); ok {
			return got, nil
		}
		return &undefined{fmt.Sprintf("namespace has no attribute %q", name)}, nil
	case *loop:
		return x.attr(name), nil
	}
	m := method(v, name)
	if _, none := m.(*undefined); !none {
		return m, nil
	}
	if d, ok := v.(*Dict); ok && !slices.Contains(changers, name) {
		if x, ok := d.Get(name); ok {
			return x, nil
		}
	}
	return m, nil
}

func (r *run) evalSlice(x *sliceExpr, s *scope) (any, error) {
	v, err := r.eval(x.x, s)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int64
	for i, b := range []expr{x.lo, x.hi, x.step} {
		if b == nil {
			continue
		}
		bv, err := r.eval(b, s)
		if err != nil {
			return nil, err
		}
		if bv == nil {
			continue
		}
		n, ok := asInt(bv)
		if !ok {
			return nil, fmt.Errorf("slice bounds must be whole numbers, not a value of type %s", typeName(bv))
		}
		bounds[i] = &n
	}
	return r.slice(v, bounds[0], bounds[1], bounds[2])
}

func (r *run) slice(v any, lo, hi, step *int64) (any, error) {
	if s, ok := text(v); ok {
		if err := r.build(5 * len(s)); err != nil { // it is cut by runes
			return nil, err
		}
		out, err := cut([]rune(s), lo, hi, step)
		return like(v, string(out)), err
	}
	if items, ok := sequence(v); ok {
		if err := r.spend(len(items)); err != nil {
			return nil, err
		}
		out, err := cut(items, lo, hi, step)
		return sameKind(v, out), err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	return nil, fmt.Errorf("a value of type %s cannot be sliced", typeName(v))
}

// cut takes a[lo:hi:step] with Python's rules for negative and open bounds.
func cut[T any](a []T, lo, hi, step *int64) ([]T, error) {
	n, by := int64(len(a)), int64(1)
	if step != nil {
		by = *step
	}
	if by == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	first, end := int64(0), n
	low, high := int64(0), n
	if by < 0 {
		first, end = n-1, -1
		low, high = -1, n-1
	}
	clamp := func(b *int64, open int64) int64 {
		if b == nil {
			return open
		}
		i := *b
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	first, end = clamp(lo, first), clamp(hi, end)
	out := []T{}
	for i := first; (by > 0 && i < end) || (by < 0 && i > end); {
		out = append(out, a[i])
		if by > n || by < -n {
			break
		}
		i += by
	}
	return out, nil
}
