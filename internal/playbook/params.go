package playbook

// params checks the declared params and binds the given values.
func (c *compiler) params() {
	first := map[string]int{}
	path := field(c.root, "params")
	for i, p := range c.spec.Params {
		at := field(index(path, i), "name")
		switch {
		case p.Name == "":
			c.problems.add(at, "a param's name is missing")
			continue
		case !plainName.MatchString(p.Name):
			c.problems.add(at, "%q is not a param's name: it has letters, digits and underscores, and begins with no digit", p.Name)
			continue
		case keyword(p.Name):
			c.problems.add(at, "%q can't be a param's name: it is a word of CEL", p.Name)
			continue
		}
		if earlier, ok := first[p.Name]; ok {
			c.problems.add(at, "the name %q is taken by %s", p.Name, index(path, earlier))
			continue
		}
		first[p.Name] = i
		value, given := c.given[p.Name]
		switch {
		case given:
			c.prog.Params[p.Name] = value
		case p.Default != nil:
			c.prog.Params[p.Name] = *p.Default
		case c.bind:
			c.problems.add(c.paramsPath, "the param %q has no value and no default: set it", p.Name)
			c.bind = false
		}
	}
	for _, name := range sortedKeys(c.given) {
		if _, ok := first[name]; !ok {
			known := c.paramNames()
			c.problems.add(key(c.paramsPath, name), "the playbook has no param of this name; its params are %s%s", listed(known), didYouMean(name, known))
		}
	}
}

// paramNames are the names of the params in the order of their declaration.
func (c *compiler) paramNames() []string {
	var names []string
	for _, p := range c.spec.Params {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}
