package chat

import (
	"errors"
	"fmt"
	"slices"
)

// run is the state of one rendering.
type run struct {
	lib   *library
	lim   limits
	left  int // steps left
	bytes int // that may still be built
	depth int
}

var (
	errTooLongRun = errors.New("template takes too many steps")
	errTooMuch    = errors.New("template builds too much text")
)

// spend charges n+1 steps, and the room of n elements.
func (r *run) spend(n int) error {
	r.left -= n + 1
	if r.left < 0 {
		return errTooLongRun
	}
	return r.build(16 * n)
}

// build charges for bytes that are built.
func (r *run) build(n int) error {
	r.bytes -= n
	if r.bytes < 0 {
		return errTooMuch
	}
	return nil
}

// deeper counts nesting of evaluation; every call is paired with r.depth--.
func (r *run) deeper() error {
	r.depth++
	if r.depth > r.lim.depth {
		return errors.New("template recurses too deeply")
	}
	return nil
}

// scope is one level of variables. Blocks that open one are loops (one per
// pass), macros, and captured bodies; if blocks do not.
type scope struct {
	parent *scope
	vars   map[string]any
	held   map[*captured]string
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = make(map[string]any, 4)
	}
	s.vars[name] = v
}

// signal says how a block of statements ended.
type signal uint8

const (
	done signal = iota
	broke
	continued
)

func (r *run) block(body []stmt, s *scope, out *output) (signal, error) {
	for _, st := range body {
		if sig, err := r.exec(st, s, out); sig != done || err != nil {
			return sig, err
		}
	}
	return done, nil
}

func (r *run) exec(st stmt, s *scope, out *output) (signal, error) {
	if err := r.spend(0); err != nil {
		return done, at(err, lineOf(st))
	}
	switch st := st.(type) {
	case *textStmt:
		return done, at(out.write(st.text), 1)
	case *printStmt:
		return done, r.print(st, s, out)
	case *ifStmt:
		return r.execIf(st, s, out)
	case *forStmt:
		return done, r.execFor(st, s, out)
	case *setStmt:
		v, err := r.eval(st.value, s)
		if err != nil {
			return done, err
		}
		return done, at(r.assign(st.target, v, s), st.line)
	case *setBlockStmt:
		v, err := r.capture(st.body, st.hole, st.value, s)
		if err != nil {
			return done, err
		}
		return done, at(r.assign(st.target, v, s), st.line)
	case *filterStmt:
		return done, r.execFilter(st, s, out)
	case *macroStmt:
		s.set(st.name, r.macro(st.name, st.macroDef, s))
		return done, nil
	case *callStmt:
		return done, r.execCall(st, s, out)
	case *withStmt:
		return r.execWith(st, s, out)
	case *scopeStmt:
		return r.block(st.body, &scope{parent: s}, out)
	case *breakStmt:
		return broke, nil
	case *continueStmt:
		return continued, nil
	}
	return done, fmt.Errorf("unknown statement %T", st)
}

// lineOf finds a line to name when a statement itself, and no expression in
// it, is where a limit was hit.
func lineOf(st stmt) int {
	switch st := st.(type) {
	case *printStmt:
		return st.x.pos()
	case *forStmt:
		return st.line
	case *setStmt:
		return st.line
	case *ifStmt:
		return st.branches[0].cond.pos()
	}
	return 1
}

func (r *run) print(st *printStmt, s *scope, out *output) error {
	v, err := r.eval(st.x, s)
	if err != nil {
		return err
	}
	text, err := r.str(v)
	if err != nil {
		return at(err, st.x.pos())
	}
	return at(out.write(text), st.x.pos())
}

func (r *run) execIf(st *ifStmt, s *scope, out *output) (signal, error) {
	for _, b := range st.branches {
		if b.cond != nil {
			v, err := r.eval(b.cond, s)
			if err != nil {
				return done, err
			}
			if !truth(v) {
				continue
			}
		}
		if err := r.deeper(); err != nil {
			return done, at(err, lineOf(st))
		}
		sig, err := r.block(b.body, s, out)
		r.depth--
		return sig, err
	}
	return done, nil
}

// loop is the variable of that name inside a for block.
type loop struct {
	items []any
	i     int
	last  []any // what changed() was last given
}

func (r *run) execFor(st *forStmt, s *scope, out *output) error {
	if err := r.deeper(); err != nil {
		return at(err, st.line)
	}
	defer func() { r.depth-- }()
	v, err := r.eval(st.iter, s)
	if err != nil {
		return err
	}
	items, err := r.iterate(v)
	if err != nil {
		return at(err, st.line)
	}
	if st.filter != nil {
		if items, err = r.filterItems(st, items, s); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		_, err := r.block(st.orElse, s, out)
		return err
	}
	lp := &loop{items: items}
	for i, item := range items {
		lp.i = i
		inner := &scope{parent: s, vars: map[string]any{"loop": lp}}
		if err := r.assign(st.target, item, inner); err != nil {
			return at(err, st.line)
		}
		sig, err := r.block(st.body, inner, out)
		if err != nil {
			return err
		}
		if sig == broke {
			break
		}
	}
	return nil
}

// filterItems keeps the items for which the loop's condition holds.
func (r *run) filterItems(st *forStmt, items []any, s *scope) ([]any, error) {
	var kept []any
	for _, item := range items {
		inner := &scope{parent: s}
		if err := r.assign(st.target, item, inner); err != nil {
			return nil, at(err, st.line)
		}
		v, err := r.eval(st.filter, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

func (r *run) assign(target expr, v any, s *scope) error {
	switch t := target.(type) {
	case *nameExpr:
		s.set(t.name, v)
		return nil
	case *nsRef:
		x, _ := s.get(t.name)
		ns, ok := x.(*namespace)
		if !ok {
			return fmt.Errorf("cannot set %s.%s: %s is not a namespace", t.name, t.attr, t.name)
		}
		ns.d.Set(t.attr, v)
		return nil
	case *listExpr:
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.items) {
			return fmt.Errorf("cannot unpack %d values into %d names", len(items), len(t.items))
		}
		for i, x := range t.items {
			if err := r.assign(x, items[i], s); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("cannot assign to %T", target)
}

// capture renders body into a string and runs it through the filters of
// value, in which hole stands for it.
func (r *run) capture(body []stmt, hole *captured, value expr, s *scope) (any, error) {
	if err := r.deeper(); err != nil {
		return nil, at(err, hole.line)
	}
	defer func() { r.depth-- }()
	out := &output{run: r}
	if _, err := r.block(body, &scope{parent: s}, out); err != nil {
		return nil, err
	}
	inner := &scope{parent: s, held: map[*captured]string{hole: out.b.String()}}
	return r.eval(value, inner)
}

func (r *run) execFilter(st *filterStmt, s *scope, out *output) error {
	v, err := r.capture(st.body, st.hole, st.value, s)
	if err != nil {
		return err
	}
	text, err := r.str(v)
	if err != nil {
		return at(err, st.hole.line)
	}
	return at(out.write(text), st.hole.line)
}

func (r *run) execCall(st *callStmt, s *scope, out *output) error {
	caller := r.macro("caller", st.caller, s)
	fn, a, err := r.prepare(st.call, s)
	if err != nil {
		return err
	}
	a.named = append(a.named, namedArg{"caller", caller})
	v, err := r.invoke(fn, a)
	if err != nil {
		return at(err, st.call.line)
	}
	text, err := r.str(v)
	if err != nil {
		return at(err, st.call.line)
	}
	return at(out.write(text), st.call.line)
}

func (r *run) execWith(st *withStmt, s *scope, out *output) (signal, error) {
	inner := &scope{parent: s}
	for i, t := range st.targets {
		v, err := r.eval(st.values[i], s)
		if err != nil {
			return done, err
		}
		if err := r.assign(t, v, inner); err != nil {
			return done, at(err, st.line)
		}
	}
	return r.block(st.body, inner, out)
}

// macro makes a callable of def, closed over the scope it stands in.
func (r *run) macro(name string, def macroDef, s *scope) *function {
	return &function{name: name, call: func(r *run, a args) (any, error) {
		inner := &scope{parent: s}
		if err := r.bindMacro(name, def, a, inner); err != nil {
			return nil, err
		}
		out := &output{run: r}
		if _, err := r.block(def.body, inner, out); err != nil {
			return nil, err
		}
		return out.b.String(), nil
	}}
}

// bindMacro sets a macro's parameters, and varargs, kwargs and caller for
// what else it was given. A missing argument is undefined.
func (r *run) bindMacro(name string, def macroDef, a args, s *scope) error {
	given, rest, free := map[string]any{}, []any{}, NewDict()
	for i, v := range a.pos {
		if i < len(def.params) {
			given[def.params[i]] = v
		} else {
			rest = append(rest, v)
		}
	}
	for _, n := range a.named {
		switch _, twice := given[n.name]; {
		case n.name == "caller" && def.caller:
			s.set("caller", n.v)
		case !slices.Contains(def.params, n.name):
			free.Set(n.name, n.v)
		case twice:
			return fmt.Errorf("macro %q: argument %q is given twice", name, n.name)
		default:
			given[n.name] = n.v
		}
	}
	if len(rest) > 0 && !def.varargs {
		return fmt.Errorf("macro %q takes no more than %d arguments", name, len(def.params))
	}
	if free.Len() > 0 && !def.kwargs {
		return fmt.Errorf("macro %q has no parameter %q", name, free.keys[0])
	}
	if def.varargs {
		s.set("varargs", tuple(rest))
	}
	if def.kwargs {
		s.set("kwargs", free)
	}
	return r.bindParams(def, given, s)
}

func (r *run) bindParams(def macroDef, given map[string]any, s *scope) error {
	firstDefault := len(def.params) - len(def.defaults)
	for i, p := range def.params {
		v, ok := given[p]
		if !ok && i >= firstDefault {
			var err error
			if v, err = r.eval(def.defaults[i-firstDefault], s); err != nil {
				return err
			}
		} else if !ok {
			v = missing(p)
		}
		s.set(p, v)
	}
	return nil
}
