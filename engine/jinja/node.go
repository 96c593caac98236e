// SPDX-License-Identifier: Apache-2.0

package jinja

// Expressions and statements of a parsed template. A template does not change
// once parsed: rendering keeps its state in a renderer and scopes.

// expr is an expression; line is for errors.
type expr interface {
	eval(r *renderer, s *scope) (value, error)
}

type (
	constExpr struct{ v value }
	textExpr  struct{} // what a captured body gave
	nameExpr  struct {
		name string
		line int
	}
	seqExpr struct { // [a, b] or (a, b)
		kind  seqKind
		items []expr
	}
	dictExpr struct{ keys, values []expr }
	attrExpr struct { // of.name
		of   expr
		name string
		line int
	}
	itemExpr struct { // of[key]
		of, key expr
		line    int
	}
	sliceExpr struct { // of[from:to:step], each may be nil
		of, from, to, step expr
		line               int
	}
	callExpr struct {
		fn   expr
		args callArgs
		line int
	}
	filterExpr struct { // of | name(args)
		of   expr
		name string
		fn   filterFunc
		args callArgs
		line int
	}
	testExpr struct { // of is [not] name(args)
		of     expr
		name   string
		fn     testFunc
		args   []expr
		negate bool
		line   int
	}
	condExpr struct { // then if cond else other; other may be nil
		cond, then, other expr
		line              int
	}
	logicExpr struct { // a and b, a or b
		and  bool
		a, b expr
	}
	notExpr   struct{ of expr }
	unaryExpr struct {
		neg  bool
		of   expr
		line int
	}
	binaryExpr struct {
		op   string
		a, b expr
		line int
	}
	concatExpr struct { // a ~ b ~ c
		parts []expr
		line  int
	}
	compareExpr struct { // a op b op c
		first expr
		ops   []string
		rest  []expr
		line  int
	}
)

type callArgs struct {
	pos   []expr
	names []string // keywords
	named []expr   // [len(names)]
}

// stmt is a statement.
type stmt interface {
	exec(r *renderer, s *scope) error
}

type (
	dataStmt   struct{ text string }
	outputStmt struct {
		of   expr
		line int
	}
	ifStmt struct {
		conds  []expr   // if, elif, …
		bodies [][]stmt // [len(conds)]
		other  []stmt
	}
	forStmt struct {
		target   target
		in, test expr // test may be nil
		body     []stmt
		other    []stmt
		line     int
	}
	setStmt struct {
		target target
		of     expr
		line   int
	}
	captureStmt struct { // {% set x %}…{% endset %}, {% filter f %}…{% endfilter %}
		target  *target // nil: the result is output
		body    []stmt
		through expr // filters over the body's text
		line    int
	}
	macroStmt struct {
		name   string
		params []param
		body   []stmt
	}
	withStmt struct {
		names  []target
		values []expr
		body   []stmt
		line   int
	}
	groupStmt  struct{ body []stmt } // {% generation %}…{% endgeneration %}
	escapeStmt struct{ flow flow }   // break, continue
)

// param is a parameter of a macro; def may be nil.
type param struct {
	name string
	def  expr
}

// target is what is assigned to: a name, a namespace's attribute, or some of
// them in a tuple.
type target struct {
	name  string
	attr  string // of the namespace called name
	items []target
}

// flow is how a loop body ended early; it travels as an error.
type flow uint8

const (
	flowBreak flow = iota + 1
	flowContinue
)

func (f flow) Error() string { return "break or continue outside of a loop" }
