package chat

import (
	"errors"
	"fmt"
)

// args are evaluated arguments.
type args struct {
	pos   []any
	named []namedArg
}

type namedArg struct {
	name string
	v    any
}

func (r *run) eval(x expr, s *scope) (any, error) {
	if err := r.spend(0); err != nil {
		return nil, at(err, x.pos())
	}
	if err := r.deeper(); err != nil {
		return nil, at(err, x.pos())
	}
	v, err := r.evalNode(x, s)
	r.depth--
	if err != nil {
		return nil, at(err, x.pos())
	}
	return v, nil
}

func (r *run) evalNode(x expr, s *scope) (any, error) {
	switch x := x.(type) {
	case *constExpr:
		return x.v, nil
	case *nameExpr:
		if v, ok := s.get(x.name); ok {
			return v, nil
		}
		return missing(x.name), nil
	case *captured:
		return held(x, s)
	case *listExpr:
		return r.evalList(x, s)
	case *dictExpr:
		return r.evalDict(x, s)
	case *attrExpr:
		v, err := r.eval(x.x, s)
		if err != nil {
			return nil, err
		}
		return r.attr(v, x.name)
	case *indexExpr:
		v, i, err := r.evalPair(x.x, x.i, s)
		if err != nil {
			return nil, err
		}
		return r.item(v, i)
	case *sliceExpr:
		return r.evalSlice(x, s)
	case *callExpr:
		fn, a, err := r.prepare(x, s)
		if err != nil {
			return nil, err
		}
		return r.invoke(fn, a)
	case *filterExpr:
		v, a, err := r.evalWith(x.x, &x.args, s)
		if err != nil {
			return nil, err
		}
		return r.filter(x.name, v, a)
	case *testExpr:
		v, a, err := r.evalWith(x.x, &x.args, s)
		if err != nil {
			return nil, err
		}
		return r.test(x.name, v, a)
	default:
		return r.evalOperator(x, s)
	}
}

func held(x *captured, s *scope) (any, error) {
	for ; s != nil; s = s.parent {
		if v, ok := s.held[x]; ok {
			return v, nil
		}
	}
	return nil, errors.New("block body was not rendered")
}

func (r *run) evalOperator(x expr, s *scope) (any, error) {
	switch x := x.(type) {
	case *binExpr:
		l, right, err := r.evalPair(x.l, x.r, s)
		if err != nil {
			return nil, err
		}
		return r.arith(x.op, l, right)
	case *concatExpr:
		return r.evalConcat(x, s)
	case *logicExpr:
		l, err := r.eval(x.l, s)
		if err != nil || truth(l) == x.or {
			return l, err
		}
		return r.eval(x.r, s)
	case *unaryExpr:
		v, err := r.eval(x.x, s)
		if err != nil {
			return nil, err
		}
		return sign(x.op, v)
	case *compareExpr:
		return r.evalCompare(x, s)
	case *condExpr:
		v, err := r.eval(x.cond, s)
		if err != nil {
			return nil, err
		}
		switch {
		case truth(v):
			return r.eval(x.yes, s)
		case x.no != nil:
			return r.eval(x.no, s)
		}
		return &undefined{"the inline if has no else branch"}, nil
	}
	return nil, fmt.Errorf("cannot evaluate %T", x)
}

func (r *run) evalPair(a, b expr, s *scope) (any, any, error) {
	x, err := r.eval(a, s)
	if err != nil {
		return nil, nil, err
	}
	y, err := r.eval(b, s)
	return x, y, err
}

func (r *run) evalAll(xs []expr, s *scope) ([]any, error) {
	out := make([]any, len(xs))
	for i, x := range xs {
		var err error
		if out[i], err = r.eval(x, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *run) evalList(x *listExpr, s *scope) (any, error) {
	items, err := r.evalAll(x.items, s)
	if err != nil {
		return nil, err
	}
	if x.tuple {
		return tuple(items), nil
	}
	return items, nil
}

func (r *run) evalDict(x *dictExpr, s *scope) (any, error) {
	d := NewDict()
	for i := range x.keys {
		k, v, err := r.evalPair(x.keys[i], x.vals[i], s)
		if err != nil {
			return nil, err
		}
		if !d.set(k, v) {
			return nil, fmt.Errorf("a value of type %s cannot be a key", typeName(k))
		}
	}
	return d, nil
}

func (r *run) evalConcat(x *concatExpr, s *scope) (any, error) {
	w := &writer{run: r}
	for _, p := range x.parts {
		v, err := r.eval(p, s)
		if err != nil {
			return nil, err
		}
		t, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if err := w.write(t); err != nil {
			return nil, err
		}
	}
	return w.b.String(), nil
}

func (r *run) evalCompare(x *compareExpr, s *scope) (any, error) {
	left, err := r.eval(x.x, s)
	if err != nil {
		return nil, err
	}
	for i, op := range x.ops {
		right, err := r.eval(x.rest[i], s)
		if err != nil {
			return nil, err
		}
		ok, err := r.relation(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

// evalWith evaluates what a filter or a test is applied to, then its arguments.
func (r *run) evalWith(x expr, c *callArgs, s *scope) (any, args, error) {
	v, err := r.eval(x, s)
	if err != nil {
		return nil, args{}, err
	}
	a, err := r.evalArgs(c, s)
	return v, a, err
}

func (r *run) evalArgs(c *callArgs, s *scope) (args, error) {
	var a args
	var err error
	if a.pos, err = r.evalAll(c.pos, s); err != nil {
		return a, err
	}
	for i, name := range c.names {
		v, err := r.eval(c.named[i], s)
		if err != nil {
			return a, err
		}
		a.named = append(a.named, namedArg{name, v})
	}
	if c.star != nil {
		v, err := r.eval(c.star, s)
		if err != nil {
			return a, err
		}
		items, err := r.iterate(v)
		if err != nil {
			return a, err
		}
		a.pos = append(a.pos, items...)
	}
	if c.starred != nil {
		err = r.spread(&a, c.starred, s)
	}
	return a, err
}

// spread adds the entries of a ** argument.
func (r *run) spread(a *args, x expr, s *scope) error {
	v, err := r.eval(x, s)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return fmt.Errorf("argument after ** is a %s, not a mapping", typeName(v))
	}
	for i, k := range d.keys {
		name, ok := text(k)
		if !ok {
			return fmt.Errorf("keys after ** must be strings")
		}
		a.named = append(a.named, namedArg{name, d.vals[i]})
	}
	return nil
}

// prepare evaluates what is called and what it is given.
func (r *run) prepare(x *callExpr, s *scope) (*function, args, error) {
	v, err := r.eval(x.fn, s)
	if err != nil {
		return nil, args{}, err
	}
	fn, ok := v.(*function)
	if !ok {
		if u, isU := v.(*undefined); isU {
			return nil, args{}, at(u.err(), x.line)
		}
		return nil, args{}, at(fmt.Errorf("a value of type %s cannot be called", typeName(v)), x.line)
	}
	a, err := r.evalArgs(&x.args, s)
	return fn, a, at(err, x.line)
}

// macroCost is how much deeper one call counts than one nested expression, so
// that runaway macros stop within a few hundred calls as they do in Python.
const macroCost = 40

func (r *run) invoke(fn *function, a args) (any, error) {
	r.depth += macroCost
	defer func() { r.depth -= macroCost }()
	if r.depth > r.lim.depth {
		return nil, fmt.Errorf("%s() recurses too deeply", fn.name)
	}
	return fn.call(r, a)
}
