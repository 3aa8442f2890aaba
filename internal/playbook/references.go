package playbook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// references is what an expression reads besides params and the drive's name.
type references struct {
	plays map[string]bool
	// phase and name say that drive.phase and drive.name are read, item that item may be.
	phase, name, item bool
}

func (r *references) names() []string { return sortedKeys(r.plays) }

var (
	// playPath is plays.<name> as a user may write it who forgets that CEL reads a dash as minus.
	playPath = regexp.MustCompile(`\bplays\.([A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*)`)
	// plainName is a name that can follow the dot.
	plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// celString is a string literal, roughly: enough to not find names in it.
	celString = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)
)

// misspelt finds plays.<name> where the name needs plays["<name>"].
func (e *environment) misspelt(source string) error {
	for _, m := range playPath.FindAllStringSubmatch(celString.ReplaceAllString(source, `""`), -1) {
		name := m[1]
		if plainName.MatchString(name) && !keyword(name) {
			continue
		}
		if _, ok := e.plays[name]; ok {
			return fmt.Errorf("plays.%s can't be read: a name with a dash, a leading digit or a word of CEL is written plays[%q]", name, name)
		}
	}
	return nil
}

// keyword says whether CEL's grammar takes a word for itself.
func keyword(word string) bool {
	switch word {
	case "true", "false", "null", "in":
		return true
	}
	return false
}

// resolver walks a parsed expression, checks what it says of plays, params and the drive, and rewrites each reference to
// one identifier, which is how a play's name can be checked and typed.
type resolver struct {
	env    *environment
	refs   *references
	fac    ast.ExprFactory
	hidden map[string]int // names that a macro's own variable hides here
	err    error
}

// resolve does it and returns the first error.
func (e *environment) resolve(tree *ast.AST) (*references, error) {
	r := &resolver{env: e, refs: &references{plays: map[string]bool{}}, fac: ast.NewExprFactory(), hidden: map[string]int{}}
	r.walk(tree.Expr())
	return r.refs, r.err
}

func (r *resolver) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// walk visits an expression from the outside in, so that plays.<name> is seen before the bare plays in it.
func (r *resolver) walk(x ast.Expr) {
	switch x.Kind() {
	case ast.IdentKind:
		r.ident(x.AsIdent())
	case ast.SelectKind:
		r.selection(x)
	case ast.CallKind:
		r.call(x)
	case ast.ListKind:
		for _, elem := range x.AsList().Elements() {
			r.walk(elem)
		}
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			r.walk(entry.AsMapEntry().Key())
			r.walk(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		r.fail("%s{} can't be made here; maps are written {\"key\": value}", x.AsStruct().TypeName())
	case ast.ComprehensionKind:
		r.comprehension(x.AsComprehension())
	}
}

// ident is a variable that stands alone.
func (r *resolver) ident(name string) {
	name = strings.TrimPrefix(name, ".")
	if r.hidden[name] > 0 {
		return
	}
	switch name {
	case varPlays:
		r.fail(`plays must be followed by the name of a play: plays.<name> or plays["<name>"]`)
	case varDrive:
		r.fail("drive must be followed by a field: drive.name or drive.phase")
	case varItem:
		r.refs.item = true
	}
}

// selection is operand.field.
func (r *resolver) selection(x ast.Expr) {
	sel := x.AsSelect()
	if !r.member(x, sel.Operand(), sel.FieldName()) {
		r.walk(sel.Operand())
		r.playField(sel.Operand(), sel.FieldName())
	}
}

// call is a function or operator; operand["key"] is one.
func (r *resolver) call(x ast.Expr) {
	call := x.AsCall()
	args := call.Args()
	if call.FunctionName() == operators.Index && len(args) == 2 && args[1].Kind() == ast.LiteralKind {
		if s, ok := args[1].AsLiteral().(types.String); ok && r.member(x, args[0], string(s)) {
			return
		}
	}
	if call.IsMemberFunction() {
		r.walk(call.Target())
	}
	for _, arg := range args {
		r.walk(arg)
	}
}

func (r *resolver) comprehension(c ast.ComprehensionExpr) {
	r.walk(c.IterRange())
	r.walk(c.AccuInit())
	own := []string{c.IterVar(), c.IterVar2(), c.AccuVar()}
	for _, name := range own {
		r.hidden[name]++
	}
	r.walk(c.LoopCondition())
	r.walk(c.LoopStep())
	r.walk(c.Result())
	for _, name := range own {
		r.hidden[name]--
	}
}

// member handles <operand>.<name> where the operand is plays, params or drive; false if it is none of them.
func (r *resolver) member(x, operand ast.Expr, name string) bool {
	if operand.Kind() != ast.IdentKind || r.hidden[strings.TrimPrefix(operand.AsIdent(), ".")] > 0 {
		return false
	}
	test := x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly()
	switch strings.TrimPrefix(operand.AsIdent(), ".") {
	case varPlays:
		return r.play(x, name, test)
	case varDrive:
		if test || name != "name" && name != "phase" {
			r.fail("drive.%s does not exist; drive has name and phase", name)
			return true
		}
		r.refs.phase = r.refs.phase || name == "phase"
		r.refs.name = r.refs.name || name == "name"
		x.SetKindCase(r.fac.NewIdent(x.ID(), varDrive+"."+name))
		return true
	case varParams:
		if !r.env.params[name] {
			r.fail("params.%s is not declared; the params are %s%s", name, listed(r.env.paramNames), didYouMean(name, r.env.paramNames))
		}
		return true
	}
	return false
}

func (r *resolver) play(x ast.Expr, name string, test bool) bool {
	_, known := r.env.plays[name]
	switch {
	case test:
		r.fail("has(plays.%s) asks nothing: that a play exists is known; ask for its phase, or has(plays.%s.outputs.<key>)", name, name)
	case !known:
		r.fail("plays.%s: there is no such play%s", name, didYouMean(name, sortedKeys(r.env.plays)))
	default:
		r.refs.plays[name] = true
		x.SetKindCase(r.fac.NewIdent(x.ID(), playPrefix+name))
	}
	return true
}

// playField checks the field of a play, for a better answer than the checker's.
func (r *resolver) playField(operand ast.Expr, name string) {
	if operand.Kind() != ast.IdentKind {
		return
	}
	play, ok := strings.CutPrefix(operand.AsIdent(), playPrefix)
	if !ok {
		return
	}
	fields := []string{"phase", "exitCode", "outputs", "items"}
	switch {
	case !slices.Contains(fields, name):
		r.fail("plays.%s.%s does not exist; a play has %s%s", play, name, listed(fields), didYouMean(name, fields))
	case name == "items" && !r.env.plays[play]:
		r.fail("plays.%s.items does not exist: the play has no forEach", play)
	}
}
