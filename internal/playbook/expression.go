package playbook

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
)

// expression is a compiled piece of CEL and what it refers to.
type expression struct {
	source  string
	program cel.Program
	result  *cel.Type
	refs    references
}

// constant says whether the value depends on the params alone.
func (x *expression) constant() bool {
	return len(x.refs.plays) == 0 && !x.refs.phase && !x.refs.name && !x.refs.item
}

// build compiles an expression.
func (e *environment) build(source string, perItem bool) (*expression, error) {
	trimmed := strings.TrimSpace(source)
	switch {
	case trimmed == "":
		return nil, errors.New("the expression is empty")
	case len(source) > MaxExpression:
		return nil, fmt.Errorf("the expression has %d bytes, at most %d are allowed", len(source), MaxExpression)
	case strings.HasPrefix(trimmed, opening):
		return nil, errors.New("this field is an expression already: leave out the ${{ }} around it")
	}
	if err := e.misspelt(source); err != nil {
		return nil, err
	}
	env := e.plain
	if perItem {
		env = e.perItem
	}
	parsed, issues := env.Parse(source)
	if err := e.explain(source, issues); err != nil {
		return nil, err
	}
	refs, err := e.resolve(parsed.NativeRep())
	if err != nil {
		return nil, fmt.Errorf("%w, in %s", err, quoted(source))
	}
	checked, issues := env.Check(parsed)
	if err := e.explain(source, issues); err != nil {
		return nil, err
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quoted(source), err)
	}
	return &expression{source: trimmed, program: program, result: checked.OutputType(), refs: *refs}, nil
}

// explain turns the first of cel's issues into a sentence; the others usually follow from it.
func (e *environment) explain(source string, issues *cel.Issues) error {
	if issues == nil || issues.Err() == nil {
		return nil
	}
	first := issues.Errors()[0]
	message := strings.TrimPrefix(first.Message, "Syntax error: ")
	message, _, _ = strings.Cut(message, " expecting ")
	message = strings.ReplaceAll(message, " (in container '')", "")
	message = strings.ReplaceAll(message, "'<EOF>'", "at its end")
	switch {
	case message == "undeclared reference to 'item'":
		message = "item is known only in image, command, args, script, env and workingDir of a play with forEach"
	case strings.HasPrefix(message, "undeclared reference to '"):
		name := strings.Trim(strings.TrimPrefix(message, "undeclared reference to "), "'")
		message = fmt.Sprintf("%q is neither a variable nor a function; there are params, plays, item and drive%s", name,
			didYouMean(name, []string{varParams, varPlays, varItem, varDrive}))
	}
	message = strings.NewReplacer("playbook.playView", "a play", "playbook.eachView", "a play with forEach",
		"playbook.itemView", "an item").Replace(message)
	return fmt.Errorf("%s, at character %d of %s", message, first.Location.Column()+1, quoted(source))
}

// quoted shows an expression in a message, shortened.
func quoted(source string) string {
	const most = 80
	s := strings.Join(strings.Fields(source), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return "`" + s + "`"
}

// eval computes the value. The error names the expression and, for a missing output, those that there are.
func (x *expression) eval(a *activation) (ref.Val, error) {
	val, _, err := x.program.Eval(a)
	if err == nil {
		return val, nil
	}
	message := strings.ReplaceAll(err.Error(), " (in container '')", "")
	switch {
	case strings.Contains(message, "no such key"):
		message += x.outputs(a)
	case strings.Contains(message, "cost limit exceeded"):
		message = "it takes too long: its cost exceeds the limit"
	}
	return nil, fmt.Errorf("expression %s: %s", quoted(x.source), message)
}

// outputs says which outputs there are of the plays that the expression refers to.
func (x *expression) outputs(a *activation) string {
	var b strings.Builder
	for _, name := range x.refs.names() {
		v := a.value(name)
		var keys []string
		if v.Items != nil {
			keys = sortedKeys(eachOutputs(v.Items))
		} else {
			keys = sortedKeys(v.Outputs)
		}
		fmt.Fprintf(&b, "; play %s (%s) has these outputs: %s", name, v.Phase, listed(keys))
	}
	return b.String()
}

// text is the value as it stands in a string.
func (x *expression) text(a *activation) (string, error) {
	val, err := x.eval(a)
	if err != nil {
		return "", err
	}
	s, err := toText(val)
	if err != nil {
		return "", fmt.Errorf("expression %s: %w", quoted(x.source), err)
	}
	return s, nil
}

// bool is the value of a when.
func (x *expression) bool(a *activation) (bool, error) {
	val, err := x.eval(a)
	if err != nil {
		return false, err
	}
	b, ok := val.Value().(bool)
	if !ok {
		return false, fmt.Errorf("expression %s must yield true or false, not a value of type %s", quoted(x.source), val.Type().TypeName())
	}
	return b, nil
}
