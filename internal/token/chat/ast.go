package chat

// Statements and expressions, as the parser leaves them for exec.go and
// eval.go. Each expression knows its line, for errors.

type stmt interface{}

type (
	textStmt  struct{ text string }
	printStmt struct{ x expr }
	ifStmt    struct {
		branches []branch // the last has a nil cond for else
	}
	branch struct {
		cond expr
		body []stmt
	}
	forStmt struct {
		line         int
		target       expr
		iter, filter expr
		body, orElse []stmt
	}
	setStmt struct {
		line   int
		target expr
		value  expr
	}
	// setBlockStmt is {% set x | filter %}...{% endset %}: value is the
	// filter chain over a captured node.
	setBlockStmt struct {
		line   int
		target expr
		value  expr
		hole   *captured
		body   []stmt
	}
	// filterStmt is {% filter f %}...{% endfilter %}.
	filterStmt struct {
		value expr
		hole  *captured
		body  []stmt
	}
	macroStmt struct {
		name string
		macroDef
	}
	// callStmt is {% call m() %}...{% endcall %}.
	callStmt struct {
		call   *callExpr
		caller macroDef
	}
	withStmt struct {
		targets, values []expr
		body            []stmt
		line            int
	}
	scopeStmt    struct{ body []stmt } // {% generation %}
	breakStmt    struct{}
	continueStmt struct{}
)

type macroDef struct {
	params   []string
	defaults []expr // for the last len(defaults) params
	body     []stmt
	// varargs and kwargs say whether the body names them: only then may a
	// call pass more than the parameters.
	varargs, kwargs, caller bool
}

type expr interface{ pos() int }

// node carries the line of an expression.
type node struct{ line int }

func (n node) pos() int { return n.line }

type (
	constExpr struct {
		node
		v any
	}
	nameExpr struct {
		node
		name string
	}
	// captured stands for the rendered body of a set or filter block; its
	// value is bound in the scope under the node itself.
	captured struct{ node }
	// nsRef is the target of {% set ns.attr = ... %}.
	nsRef struct {
		node
		name, attr string
	}
	listExpr struct {
		node
		items []expr
		tuple bool
	}
	dictExpr struct {
		node
		keys, vals []expr
	}
	attrExpr struct {
		node
		x    expr
		name string
	}
	indexExpr struct {
		node
		x, i expr
	}
	sliceExpr struct {
		node
		x            expr
		lo, hi, step expr // any may be nil
	}
	callExpr struct {
		node
		fn   expr
		args callArgs
	}
	filterExpr struct {
		node
		x    expr
		name string
		args callArgs
	}
	testExpr struct {
		node
		x    expr
		name string
		args callArgs
	}
	binExpr struct {
		node
		op   string
		l, r expr
	}
	// concatExpr is a chain of ~.
	concatExpr struct {
		node
		parts []expr
	}
	// logicExpr is "and" or "or".
	logicExpr struct {
		node
		or   bool
		l, r expr
	}
	unaryExpr struct {
		node
		op string // "-", "+" or "not"
		x  expr
	}
	// compareExpr is a chain: x op[0] rest[0] op[1] rest[1] ...
	compareExpr struct {
		node
		x    expr
		ops  []string
		rest []expr
	}
	condExpr struct {
		node
		cond, yes, no expr // no may be nil
	}
)

// callArgs are the arguments of a call, filter or test as written.
type callArgs struct {
	pos     []expr
	names   []string
	named   []expr
	star    expr // *args
	starred expr // **kwargs
}
