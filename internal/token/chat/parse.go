package chat

import (
	"fmt"
	"slices"
	"strings"

	"spate/internal/nearest"
)

const (
	maxNesting = 200  // blocks and brackets within one another
	maxChain   = 2000 // operators, subscripts or filters in one row
)

// parser turns tokens into statements. The grammar's oddities (what binds
// tighter than what, where a conditional expression may stand) follow Jinja2.
type parser struct {
	toks    []token
	lib     *library
	i       int
	nesting int
	loops   int // for loops around this point, within the current macro
	soft    int // if blocks around this point, where unknown filters wait for use
	// named collects the special names the current macro's body refers to.
	named map[string]bool
}

func (p *parser) cur() token { return p.toks[p.i] }

func (p *parser) next() token {
	t := p.toks[p.i]
	if p.i < len(p.toks)-1 {
		p.i++
	}
	return t
}

func (p *parser) look() token {
	return p.toks[min(p.i+1, len(p.toks)-1)]
}

func (p *parser) isOp(op string) bool {
	return p.cur().kind == tokOp && p.cur().text == op
}

func (p *parser) isName(names ...string) bool {
	return p.cur().kind == tokName && slices.Contains(names, p.cur().text)
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) errorf(line int, format string, a ...any) error {
	return &Error{Line: line, Msg: fmt.Sprintf(format, a...)}
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.errorf(p.cur().line, "expected %q, found %s", op, p.cur().describe())
	}
	return nil
}

func (p *parser) expect(k kind, what string) (token, error) {
	if p.cur().kind != k {
		return token{}, p.errorf(p.cur().line, "expected %s, found %s", what, p.cur().describe())
	}
	return p.next(), nil
}

func (p *parser) name() (string, error) {
	t, err := p.expect(tokName, "a name")
	return t.text, err
}

// enter counts nesting; every call is paired with leave.
func (p *parser) enter() error {
	p.nesting++
	if p.nesting > maxNesting {
		return p.errorf(p.cur().line, "nested deeper than %d levels", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.nesting-- }

func (p *parser) template() ([]stmt, error) {
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	if p.cur().kind != tokEOF {
		return nil, p.errorf(p.cur().line, "%s closes nothing", p.cur().describe())
	}
	return body, nil
}

// body parses statements until one of the end words (left as the current
// token, after its "{%") or the end of the template.
func (p *parser) body(ends ...string) ([]stmt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var out []stmt
	for {
		switch t := p.cur(); t.kind {
		case tokEOF:
			return out, nil
		case tokData:
			out = append(out, &textStmt{p.next().text})
		case tokVarBegin:
			p.next()
			x, err := p.tuple(true)
			if err != nil {
				return nil, err
			}
			if _, err := p.expect(tokVarEnd, `"}}"`); err != nil {
				return nil, err
			}
			out = append(out, &printStmt{x})
		default:
			p.next()
			if p.isName(ends...) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			if _, err := p.expect(tokBlockEnd, `"%}"`); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
}

// block parses "%} ... {% end" and leaves the end word as the current token.
func (p *parser) block(ends ...string) ([]stmt, error) {
	line := p.cur().line
	p.skipOp(":")
	if _, err := p.expect(tokBlockEnd, `"%}"`); err != nil {
		return nil, err
	}
	body, err := p.body(ends...)
	if err != nil {
		return nil, err
	}
	if p.cur().kind == tokEOF {
		return nil, p.errorf(line, "block is never closed by {%% %s %%}", strings.Join(ends, " %} or {% "))
	}
	return body, nil
}

// closed is block with a single end word, which it consumes.
func (p *parser) closed(end string) ([]stmt, error) {
	body, err := p.block(end)
	if err == nil {
		p.next()
	}
	return body, err
}

// statementNames lists the tags statement knows, for hints.
var statementNames = []string{
	"break", "call", "continue", "filter", "for", "generation", "if", "macro", "print", "raw", "set", "with",
}

func (p *parser) statement() (stmt, error) {
	t, err := p.expect(tokName, "a tag name")
	if err != nil {
		return nil, err
	}
	switch t.text {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement(t.line)
	case "set":
		return p.setStatement(t.line)
	case "macro":
		return p.macroStatement()
	case "call":
		return p.callStatement(t.line)
	case "filter":
		return p.filterStatement(t.line)
	case "with":
		return p.withStatement(t.line)
	case "generation":
		var def macroDef
		err := p.macroBody(&def, "endgeneration")
		return &scopeStmt{def.body}, err
	case "print":
		x, err := p.expression()
		return &printStmt{x}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.errorf(t.line, "{%% %s %%} outside a for loop", t.text)
		}
		if t.text == "break" {
			return &breakStmt{}, nil
		}
		return &continueStmt{}, nil
	default:
		return nil, p.errorf(t.line, "unknown tag %q%s", t.text, nearest.Hint(t.text, statementNames))
	}
}

func (p *parser) ifStatement() (stmt, error) {
	s := &ifStmt{}
	p.soft++
	defer func() { p.soft-- }()
	for {
		cond, err := p.tuple(false)
		if err != nil {
			return nil, err
		}
		body, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, branch{cond, body})
		switch p.next().text {
		case "endif":
			return s, nil
		case "else":
			body, err := p.closed("endif")
			s.branches = append(s.branches, branch{nil, body})
			return s, err
		}
	}
}

func (p *parser) forStatement(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.errorf(p.cur().line, `expected "in", found %s`, p.cur().describe())
	}
	if s.iter, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.isName("recursive") {
		return nil, p.errorf(line, "recursive loops are not supported")
	}
	p.loops++
	s.body, err = p.block("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	if p.next().text == "else" {
		s.orElse, err = p.closed("endfor")
	}
	return s, err
}

func (p *parser) setStatement(line int) (stmt, error) {
	target, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		v, err := p.tuple(true)
		return &setStmt{line, target, v}, err
	}
	s := &setBlockStmt{line: line, target: target, hole: &captured{node{line}}}
	if s.value, err = p.filters(s.hole); err != nil {
		return nil, err
	}
	s.body, err = p.closed("endset")
	return s, err
}

func (p *parser) filterStatement(line int) (stmt, error) {
	s := &filterStmt{hole: &captured{node{line}}}
	x, err := p.filter(s.hole)
	if err != nil {
		return nil, err
	}
	if s.value, err = p.filters(x); err != nil {
		return nil, err
	}
	s.body, err = p.closed("endfilter")
	return s, err
}

func (p *parser) withStatement(line int) (stmt, error) {
	s := &withStmt{line: line}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t, err := p.target(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, t), append(s.values, v)
	}
	body, err := p.closed("endwith")
	s.body = body
	return s, err
}

func (p *parser) macroStatement() (stmt, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	s := &macroStmt{name: name}
	if s.params, s.defaults, err = p.signature(); err != nil {
		return nil, err
	}
	return s, p.macroBody(&s.macroDef, "endmacro")
}

func (p *parser) callStatement(line int) (stmt, error) {
	s := &callStmt{}
	var err error
	if p.isOp("(") {
		if s.caller.params, s.caller.defaults, err = p.signature(); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := x.(*callExpr)
	if !ok {
		return nil, p.errorf(line, "{%% call %%} needs a call")
	}
	s.call = call
	return s, p.macroBody(&s.caller, "endcall")
}

// macroBody parses a body whose loops are its own (a break inside cannot leave
// a loop outside) and notes which of varargs, kwargs and caller it names.
func (p *parser) macroBody(def *macroDef, end string) error {
	loops, named := p.loops, p.named
	p.loops, p.named = 0, map[string]bool{}
	defer func() { p.loops, p.named = loops, named }()
	body, err := p.closed(end)
	def.body = body
	def.varargs, def.kwargs, def.caller = p.named["varargs"], p.named["kwargs"], p.named["caller"]
	return err
}

func (p *parser) signature() (params []string, defaults []expr, err error) {
	if err := p.expectOp("("); err != nil {
		return nil, nil, err
	}
	for !p.isOp(")") {
		if len(params) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, nil, err
			}
		}
		name, err := p.name()
		if err != nil {
			return nil, nil, err
		}
		if p.skipOp("=") {
			d, err := p.expression()
			if err != nil {
				return nil, nil, err
			}
			defaults = append(defaults, d)
		} else if len(defaults) > 0 {
			return nil, nil, p.errorf(p.cur().line, "parameter %q has no default but follows one that has", name)
		}
		params = append(params, name)
	}
	return params, defaults, p.expectOp(")")
}

// target parses what a set, for or with assigns to: a name, a tuple of them,
// or with ns a namespace attribute.
func (p *parser) target(ns bool) (expr, error) {
	line := p.cur().line
	var items []expr
	tuple := false
	for {
		x, err := p.oneTarget(ns)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.skipOp(",") {
			break
		}
		tuple = true
		if p.isName("in") || p.isOp("=") || p.isOp(")") {
			break
		}
	}
	if !tuple {
		return items[0], nil
	}
	return &listExpr{node{line}, items, true}, nil
}

func (p *parser) oneTarget(ns bool) (expr, error) {
	if p.skipOp("(") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		x, err := p.target(ns)
		if err != nil {
			return nil, err
		}
		return x, p.expectOp(")")
	}
	t, err := p.expect(tokName, "a name to assign to")
	if err != nil {
		return nil, err
	}
	if _, isConst := constant(t.text); isConst {
		return nil, p.errorf(t.line, "cannot assign to %q", t.text)
	}
	if ns && p.skipOp(".") {
		attr, err := p.name()
		return &nsRef{node{t.line}, t.text, attr}, err
	}
	return &nameExpr{node{t.line}, t.text}, nil
}
