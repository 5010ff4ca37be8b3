package chat

import (
	"slices"
	"strconv"
)

// expression parses one expression, conditional expressions included.
func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	return p.conditional()
}

// tuple parses expressions separated by commas; a single one without a comma
// stands for itself. cond says whether a bare "x if y else z" may appear.
func (p *parser) tuple(cond bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	line := p.cur().line
	var items []expr
	isTuple := false
	for !p.tupleEnd() {
		x, err := p.part(cond)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	switch {
	case isTuple:
		return &listExpr{node{line}, items, true}, nil
	case len(items) == 0:
		return nil, p.errorf(line, "expected an expression, found %s", p.cur().describe())
	}
	return items[0], nil
}

func (p *parser) part(cond bool) (expr, error) {
	if cond {
		return p.conditional()
	}
	return p.or()
}

func (p *parser) tupleEnd() bool {
	k := p.cur().kind
	return k == tokVarEnd || k == tokBlockEnd || k == tokEOF || p.isOp(")") || p.isName("recursive")
}

func (p *parser) conditional() (expr, error) {
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	for n := 0; p.isName("if"); n++ {
		line := p.next().line
		if n > maxChain {
			return nil, p.errorf(line, "expression is too long")
		}
		c := &condExpr{node: node{line}, yes: x}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		x = c
	}
	return x, nil
}

func (p *parser) or() (expr, error)  { return p.logic("or", p.and) }
func (p *parser) and() (expr, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() (expr, error)) (expr, error) {
	x, err := operand()
	for n := 0; err == nil && p.isName(word); n++ {
		line := p.next().line
		if n > maxChain {
			return nil, p.errorf(line, "expression is too long")
		}
		var right expr
		right, err = operand()
		x = &logicExpr{node{line}, word == "or", x, right}
	}
	return x, err
}

func (p *parser) not() (expr, error) {
	if !p.isName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	line := p.next().line
	x, err := p.not()
	return &unaryExpr{node{line}, "not", x}, err
}

var compareOps = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() (expr, error) {
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{node: node{p.cur().line}, x: x}
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == tokOp && slices.Contains(compareOps, t.text), p.isName("in"):
			op = p.next().text
		case p.isName("not") && p.look().kind == tokName && p.look().text == "in":
			p.next()
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
	if len(c.ops) == 0 {
		return x, nil
	}
	return c, nil
}

func (p *parser) sum() (expr, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

// binary parses a left-associative row of operators.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	x, err := operand()
	for n := 0; err == nil && p.cur().kind == tokOp && slices.Contains(ops, p.cur().text); n++ {
		t := p.next()
		if n > maxChain {
			return nil, p.errorf(t.line, "expression is too long")
		}
		var right expr
		right, err = operand()
		x = &binExpr{node{t.line}, t.text, x, right}
	}
	return x, err
}

func (p *parser) concat() (expr, error) {
	line := p.cur().line
	x, err := p.product()
	if err != nil || !p.isOp("~") {
		return x, err
	}
	c := &concatExpr{node{line}, []expr{x}}
	for p.skipOp("~") {
		x, err := p.product()
		if err != nil {
			return nil, err
		}
		c.parts = append(c.parts, x)
	}
	return c, nil
}

// unary parses a signed operand. Filters bind to the whole of it, sign
// included, but only once the outermost sign is done.
func (p *parser) unary(withFilters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var x expr
	var err error
	if t := p.cur(); p.isOp("-") || p.isOp("+") {
		p.next()
		x, err = p.unary(false)
		x = &unaryExpr{node{t.line}, t.text, x}
	} else {
		x, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	if x, err = p.postfix(x); err != nil || !withFilters {
		return x, err
	}
	return p.filters(x)
}

// constant resolves the words that stand for values.
func constant(name string) (any, bool) {
	switch name {
	case "true", "True":
		return true, true
	case "false", "False":
		return false, true
	case "none", "None":
		return nil, true
	}
	return nil, false
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch {
	case t.kind == tokName:
		p.next()
		if v, ok := constant(t.text); ok {
			return &constExpr{node{t.line}, v}, nil
		}
		if p.named != nil {
			p.named[t.text] = true
		}
		return &nameExpr{node{t.line}, t.text}, nil
	case t.kind == tokString:
		s := ""
		for p.cur().kind == tokString {
			s += p.next().text
		}
		return &constExpr{node{t.line}, s}, nil
	case t.kind == tokInt:
		p.next()
		v, err := strconv.ParseInt(t.text, intBase(t.text), 64)
		if err != nil {
			return nil, p.errorf(t.line, "%s is not a 64-bit integer", t.text)
		}
		return &constExpr{node{t.line}, v}, nil
	case t.kind == tokFloat:
		p.next()
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.errorf(t.line, "%s is not a number", t.text)
		}
		return &constExpr{node{t.line}, v}, nil
	case p.isOp("("):
		return p.parens()
	case p.isOp("["):
		p.next()
		items, err := p.list("]")
		return &listExpr{node{t.line}, items, false}, err
	case p.isOp("{"):
		return p.dict()
	}
	return nil, p.errorf(t.line, "unexpected %s", t.describe())
}

// intBase keeps a leading zero from meaning octal.
func intBase(s string) int {
	if len(s) > 1 && s[0] == '0' && !isDigit(s[1]) {
		return 0
	}
	return 10
}

func (p *parser) parens() (expr, error) {
	line := p.next().line
	if p.skipOp(")") {
		return &listExpr{node{line}, nil, true}, nil
	}
	x, err := p.tuple(true)
	if err != nil {
		return nil, err
	}
	return x, p.expectOp(")")
}

// list parses comma-separated expressions up to and including the closer; a
// trailing comma is allowed.
func (p *parser) list(closer string) ([]expr, error) {
	var items []expr
	for !p.isOp(closer) {
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.skipOp(",") {
			break
		}
	}
	return items, p.expectOp(closer)
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{node: node{p.next().line}}
	for !p.isOp("}") {
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.vals = append(d.keys, k), append(d.vals, v)
		if !p.skipOp(",") {
			break
		}
	}
	return d, p.expectOp("}")
}

func (p *parser) postfix(x expr) (expr, error) {
	var err error
	for n := 0; err == nil; n++ {
		if n > maxChain {
			return nil, p.errorf(p.cur().line, "expression is too long")
		}
		switch {
		case p.isOp("."):
			x, err = p.attribute(x)
		case p.isOp("["):
			x, err = p.subscript(x)
		case p.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return nil, err
}

func (p *parser) attribute(x expr) (expr, error) {
	line := p.next().line
	switch t := p.next(); t.kind {
	case tokName:
		return &attrExpr{node{line}, x, t.text}, nil
	case tokInt:
		v, err := strconv.ParseInt(t.text, 10, 64)
		if err == nil {
			return &indexExpr{node{line}, x, &constExpr{node{t.line}, v}}, nil
		}
	}
	return nil, p.errorf(line, `expected a name after "."`)
}

func (p *parser) subscript(x expr) (expr, error) {
	line := p.next().line
	var lo expr
	var err error
	if !p.isOp(":") {
		if lo, err = p.expression(); err != nil {
			return nil, err
		}
		if !p.isOp(":") {
			return &indexExpr{node{line}, x, lo}, p.expectOp("]")
		}
	}
	s := &sliceExpr{node: node{line}, x: x, lo: lo}
	p.next()
	if !p.isOp(":") && !p.isOp("]") {
		if s.hi, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.skipOp(":") && !p.isOp("]") {
		if s.step, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return s, p.expectOp("]")
}

func (p *parser) call(fn expr) (expr, error) {
	c := &callExpr{node: node{p.cur().line}, fn: fn}
	var err error
	c.args, err = p.arguments()
	return c, err
}

// arguments parses "(a, b, k=v, *rest, **more)".
func (p *parser) arguments() (callArgs, error) {
	var a callArgs
	line := p.next().line
	for !p.isOp(")") {
		if err := p.argument(&a, line); err != nil {
			return a, err
		}
		if !p.skipOp(",") {
			break
		}
	}
	return a, p.expectOp(")")
}

func (p *parser) argument(a *callArgs, line int) error {
	var err error
	switch {
	case p.isOp("*") && a.star == nil && a.starred == nil:
		p.next()
		a.star, err = p.expression()
	case p.isOp("**") && a.starred == nil:
		p.next()
		a.starred, err = p.expression()
	case p.cur().kind == tokName && p.look().kind == tokOp && p.look().text == "=" && a.starred == nil:
		name := p.next().text
		p.next()
		if slices.Contains(a.names, name) {
			return p.errorf(line, "argument %q is given twice", name)
		}
		var x expr
		x, err = p.expression()
		a.names, a.named = append(a.names, name), append(a.named, x)
	case a.star == nil && a.starred == nil && len(a.names) == 0:
		var x expr
		x, err = p.expression()
		a.pos = append(a.pos, x)
	default:
		return p.errorf(line, "arguments are out of order: plain ones first, then named, then * and **")
	}
	return err
}

// filters parses any row of "| filter", "is test" and calls after x.
func (p *parser) filters(x expr) (expr, error) {
	var err error
	for n := 0; err == nil; n++ {
		if n > maxChain {
			return nil, p.errorf(p.cur().line, "expression is too long")
		}
		switch {
		case p.skipOp("|"):
			x, err = p.filter(x)
		case p.isName("is"):
			x, err = p.test(x)
		case p.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return nil, err
}

func (p *parser) filter(x expr) (expr, error) {
	t, err := p.expect(tokName, "a filter name")
	if err != nil {
		return nil, err
	}
	if p.lib.filters[t.text] == nil && p.soft == 0 {
		return nil, at(p.lib.noFilter(t.text), t.line)
	}
	f := &filterExpr{node: node{t.line}, x: x, name: t.text}
	if p.isOp("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func (p *parser) test(x expr) (expr, error) {
	line := p.next().line
	negated := p.skipName("not")
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if p.lib.tests[name] == nil && p.soft == 0 {
		return nil, at(p.lib.noTest(name), line)
	}
	t := &testExpr{node: node{line}, x: x, name: name}
	if p.isOp("(") {
		t.args, err = p.arguments()
	} else if p.testOperand() {
		if p.isName("is") {
			return nil, p.errorf(line, "tests cannot be chained with is")
		}
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &unaryExpr{node{line}, "not", t}, nil
	}
	return t, nil
}

// testOperand says whether the current token starts a test's bare argument,
// as in "x is divisibleby 3".
func (p *parser) testOperand() bool {
	switch p.cur().kind {
	case tokName:
		return !p.isName("else", "or", "and")
	case tokString, tokInt, tokFloat:
		return true
	}
	return p.isOp("[") || p.isOp("{")
}
