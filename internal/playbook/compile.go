package playbook

import (
	"slices"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// Compile checks a playbook, fills in its defaults and binds params. The spec is not changed. An error that is the
// user's to correct is Problems, without positions and with paths that begin with "spec".
func Compile(spec *v1alpha1.PlaybookSpec, params map[string]string) (*Program, error) {
	c := &compiler{root: "spec", given: params, bind: true, paramsPath: "params"}
	prog, err := c.compile(spec)
	if err != nil {
		return nil, err
	}
	if err := c.problems.err(); err != nil {
		return nil, err
	}
	return prog, nil
}

// compiler makes a Program and gathers Problems on its way; it goes on after each as far as it makes sense.
type compiler struct {
	// root is the path of the spec, paramsPath that of the values of params.
	root, paramsPath string
	given            map[string]string
	// bind says that the values of params are known: a missing one is a problem, and what depends on them alone is
	// evaluated now.
	bind bool

	problems Problems
	original *v1alpha1.PlaybookSpec
	spec     *v1alpha1.PlaybookSpec // defaulted
	prog     *Program
	env      *environment
	order    *order
	secrets  map[SecretRef]int
}

// compile returns an error only where something of ours fails.
func (c *compiler) compile(spec *v1alpha1.PlaybookSpec) (*Program, error) {
	c.original, c.spec = spec, withDefaults(spec)
	c.prog = &Program{Main: len(c.spec.Plays), Scratch: *c.spec.Scratch, Params: map[string]string{}, index: map[string]int{}}
	c.secrets = map[SecretRef]int{}
	if !c.countPlays() {
		return c.prog, nil
	}
	c.params()
	c.slots()
	c.scratch()
	c.names()
	c.needs()
	plays := map[string]bool{}
	for name, i := range c.prog.index {
		plays[name] = c.prog.Plays[i].Spec.ForEach != nil
	}
	var err error
	if c.env, err = newEnvironment(plays, c.paramNames()); err != nil {
		return nil, err
	}
	for _, p := range c.prog.Plays {
		c.play(p)
	}
	return c.prog, nil
}

// countPlays holds the number of plays against its bounds; false when there is no use in looking at them.
func (c *compiler) countPlays() bool {
	n := len(c.spec.Plays) + len(c.spec.Finally)
	switch {
	case len(c.spec.Plays) == 0:
		c.problems.add(field(c.root, "plays"), "at least one play is needed")
	case n > MaxPlays:
		c.problems.add(field(c.root, "plays"), "there are %d plays, finally included; at most %d are allowed", n, MaxPlays)
		return false
	}
	return true
}

// path is where a play stands in the manifest.
func (c *compiler) path(p *Play) string {
	if p.Finally {
		return index(field(c.root, "finally"), p.Index-c.prog.Main)
	}
	return index(field(c.root, "plays"), p.Index)
}

// names makes the plays and checks their names.
func (c *compiler) names() {
	add := func(spec *v1alpha1.Play, finally bool) {
		p := &Play{Spec: spec, Index: len(c.prog.Plays), Finally: finally, program: c.prog}
		c.prog.Plays = append(c.prog.Plays, p)
		path := field(c.path(p), "name")
		if !c.label(path, "a play's name", spec.Name) {
			return
		}
		if first, ok := c.prog.index[spec.Name]; ok {
			c.problems.add(path, "the name %q is taken by %s; names are unique over plays and finally", spec.Name, c.path(c.prog.Plays[first]))
			return
		}
		c.prog.index[spec.Name] = p.Index
	}
	for i := range c.spec.Plays {
		add(&c.spec.Plays[i], false)
	}
	for i := range c.spec.Finally {
		add(&c.spec.Finally[i], true)
	}
}

// label checks that a name is a DNS label.
func (c *compiler) label(path, what, name string) bool {
	if name == "" {
		c.problems.add(path, "%s is missing", what)
		return false
	}
	if message := NameProblem(name); message != "" {
		c.problems.add(path, "%q is not %s: %s", name, what, message)
		return false
	}
	return true
}

// expression compiles an expression and notes what it refers to; nil after a problem.
func (c *compiler) expression(p *Play, path, source string, perItem bool, refs map[int]bool) *expression {
	x, err := c.env.compile(source, perItem)
	if err != nil {
		c.problems.add(path, "%s", err)
		return nil
	}
	c.refer(p, path, x, refs)
	return x
}

// refer notes the plays that an expression reads and checks that their ends are known by then.
func (c *compiler) refer(p *Play, path string, x *expression, refs map[int]bool) {
	p.ReadsDrive = p.ReadsDrive || x.refs.phase
	for _, name := range x.refs.names() {
		i := c.prog.index[name]
		refs[i] = true
		switch other := c.prog.Plays[i]; {
		case i == p.Index:
			c.problems.add(path, "the play reads itself, plays.%s; a play can read what came before it only", name)
		case p.Finally && (!other.Finally || i < p.Index):
		case p.Finally:
			c.problems.add(path, "it reads plays.%s, which runs later; a play of finally can read those before it", name)
		case other.Finally:
			c.problems.add(path, "it reads plays.%s, which runs under finally, after this play", name)
		case c.order != nil && !c.order.before(i, p.Index):
			if c.order.before(p.Index, i) {
				c.problems.add(path, "it reads plays.%s, which runs after this play", name)
			} else {
				c.problems.add(path, "it reads plays.%s, which need not have ended by then: add %q to needs", name, name)
			}
		}
	}
}

// template cuts a string and compiles its expressions. What depends on bound params alone is replaced at once.
func (c *compiler) template(p *Play, path, s string, perItem bool, refs map[int]bool) template {
	segments, at, err := scan(s)
	if err != nil {
		c.problems = append(c.problems, Problem{Path: path, Message: err.Error(), within: lineEnds(s[:at])})
	}
	var t template
	for _, seg := range segments {
		if !seg.expression {
			t = append(t, piece{text: seg.text})
			continue
		}
		first := len(c.problems)
		x := c.expression(p, path, seg.text, perItem, refs)
		var folded bool
		var text string
		if x != nil && x.constant() && c.bind {
			text, err = x.text(&activation{program: c.prog})
			if folded = err == nil; err != nil {
				c.problems.add(path, "%s", err)
			}
		}
		for i := range c.problems[first:] {
			c.problems[first+i].within = lineEnds(s[:seg.at])
		}
		switch {
		case folded:
			t = append(t, piece{text: text})
		default:
			// An expression that doesn't compile keeps its place, so that the text isn't judged without it.
			t = append(t, piece{expr: x, broken: x == nil})
		}
	}
	return t.merged()
}

func lineEnds(s string) int {
	n := 0
	for i := range len(s) {
		if s[i] == '\n' {
			n++
		}
	}
	return n
}

// indexes are the elements of a set in order.
func indexes(set map[int]bool) []int {
	out := make([]int, 0, len(set))
	for i := range set {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}
