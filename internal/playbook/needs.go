package playbook

import (
	"slices"
	"strings"
)

// order knows of each play before finally which plays have ended when it starts.
type order struct {
	words int
	bits  []uint64 // a row of words for each play
}

// before says whether play a is among the needs of play b, or theirs.
func (o *order) before(a, b int) bool {
	return o.bits[b*o.words+a/64]&(1<<(a%64)) != 0
}

// needs resolves the names in needs and refuses cycles.
func (c *compiler) needs() {
	for _, p := range c.prog.Plays {
		path := field(c.path(p), "needs")
		if p.Finally {
			if p.Spec.Needs != nil {
				c.problems.add(path, "plays of finally run one after the other in the order of the list: leave needs out")
			}
			continue
		}
		seen := map[string]bool{}
		for k, name := range *p.Spec.Needs {
			if c.need(p, index(path, k), name, seen) {
				i, _ := c.prog.Index(name)
				p.Needs = append(p.Needs, i)
			}
		}
	}
	if c.cycles() {
		return
	}
	c.order = c.closure()
}

// need checks one name; false if there is no play to wait for.
func (c *compiler) need(p *Play, path, name string, seen map[string]bool) bool {
	i, ok := c.prog.Index(name)
	switch {
	case name == p.Spec.Name:
		c.problems.add(path, "play %s needs itself", name)
	case !ok && p.Index > 0 && !c.written(p) && name == c.spec.Plays[p.Index-1].Name:
		// The default, and the name of the play before is refused already.
	case !ok:
		c.problems.add(path, "there is no play %q%s", name, didYouMean(name, c.mainNames()))
	case c.prog.Plays[i].Finally:
		c.problems.add(path, "play %s is under finally and runs after this one", name)
	case seen[name]:
		c.problems.add(path, "%q is listed twice", name)
	default:
		seen[name] = true
		return true
	}
	return false
}

// written says whether the play's needs stand in the manifest, rather than being the default.
func (c *compiler) written(p *Play) bool { return c.original.Plays[p.Index].Needs != nil }

func (c *compiler) mainNames() []string {
	var names []string
	for _, p := range c.prog.Plays[:c.prog.Main] {
		names = append(names, p.Spec.Name)
	}
	return names
}

// The states of a play in the search for cycles.
const (
	unseen = iota
	open
	done
)

// cycles reports a problem for every need that closes a cycle and says whether there are any.
func (c *compiler) cycles() bool {
	state := make([]int, c.prog.Main)
	found := false
	var path []int
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		path = append(path, i)
		for _, need := range c.prog.Plays[i].Needs {
			switch state[need] {
			case unseen:
				visit(need)
			case open:
				found = true
				c.cycle(path[slices.Index(path, need):])
			}
		}
		path = path[:len(path)-1]
		state[i] = done
	}
	for i := range state {
		if state[i] == unseen {
			visit(i)
		}
	}
	return found
}

// cycle reports plays of which each needs the next, and the last the first.
func (c *compiler) cycle(plays []int) {
	names := make([]string, 0, len(plays)+1)
	for _, i := range plays {
		names = append(names, c.prog.Plays[i].Spec.Name)
	}
	if len(names) > 8 {
		names = append(append(names[:4:4], "…"), names[len(names)-3:]...)
	}
	names = append(names, names[0])
	last := c.prog.Plays[plays[len(plays)-1]]
	c.problems.add(field(c.path(last), "needs"), "the needs make a cycle, so none of its plays could ever start: %s", strings.Join(names, " → "))
}

// closure computes the order of a playbook without cycles.
func (c *compiler) closure() *order {
	n := c.prog.Main
	o := &order{words: (n + 63) / 64}
	o.bits = make([]uint64, n*o.words)
	finished := make([]bool, n)
	var visit func(i int)
	visit = func(i int) {
		finished[i] = true
		row := o.bits[i*o.words : (i+1)*o.words]
		for _, need := range c.prog.Plays[i].Needs {
			if !finished[need] {
				visit(need)
			}
			for w, bits := range o.bits[need*o.words : (need+1)*o.words] {
				row[w] |= bits
			}
			row[need/64] |= 1 << (need % 64)
		}
	}
	for i := range n {
		if !finished[i] {
			visit(i)
		}
	}
	return o
}
