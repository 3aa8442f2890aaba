package playbook

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// NameProblem is what keeps a name from being a DNS label, or "".
func NameProblem(name string) string {
	if len(name) > validation.DNS1123LabelMaxLength {
		return fmt.Sprintf("it has %d characters, at most %d are allowed", len(name), validation.DNS1123LabelMaxLength)
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return "use a-z, 0-9 and -, with a letter or digit at both ends"
	}
	return ""
}

// play checks everything of a play but its name and needs, and compiles its expressions.
func (c *compiler) play(p *Play) {
	at, refs, textRefs := c.path(p), map[int]bool{}, map[int]bool{}
	c.when(p, at, refs)
	c.forEach(p, at, refs)
	c.text(p, at, textRefs)
	for i := range textRefs {
		refs[i] = true
	}
	p.Refs, p.TextRefs = indexes(refs), indexes(textRefs)
	c.retries(p, at)
	c.bounds(p, at)
	c.resources(field(at, "resources"), p.Spec.Resources)
	c.groups(p)
}

func (c *compiler) when(p *Play, at string, refs map[int]bool) {
	if p.Spec.When == "" {
		return
	}
	path := field(at, "when")
	if p.when = c.expression(p, path, p.Spec.When, false, refs); p.when == nil {
		return
	}
	if t := p.when.result.String(); t != "bool" && t != "dyn" {
		c.problems.add(path, "%s yields %s, but when must yield true or false", quoted(p.Spec.When), t)
	}
}

func (c *compiler) forEach(p *Play, at string, refs map[int]bool) {
	each := p.Spec.ForEach
	if each == nil {
		return
	}
	path := field(at, "forEach")
	if each.Expression == "" {
		if n := len(each.Items); n > MaxItems {
			c.problems.add(path, "the list has %d items, at most %d are allowed", n, MaxItems)
		}
		for i, item := range each.Items {
			t := c.template(p, index(path, i), item, false, refs)
			if _, ok := t.static(); !ok {
				p.ItemsWait = true
			}
			p.list = append(p.list, t)
		}
		return
	}
	p.ItemsWait = true
	if p.items = c.expression(p, path, each.Expression, false, refs); p.items == nil {
		return
	}
	switch t := p.items.result.String(); t {
	case "dyn", "list(dyn)", "list(string)", "list(int)", "list(uint)", "list(double)", "list(bool)":
	default:
		c.problems.add(path, "%s yields %s, but forEach must yield a list of strings, numbers or bools", quoted(each.Expression), t)
	}
}

// text compiles what the play runs.
func (c *compiler) text(p *Play, at string, refs map[int]bool) {
	spec, perItem := p.Spec, p.Spec.ForEach != nil
	one := func(name, s string) template { return c.template(p, field(at, name), s, perItem, refs) }
	all := func(name string, list []string) []template {
		if list == nil {
			return nil
		}
		out := make([]template, len(list))
		for i, s := range list {
			out[i] = c.template(p, index(field(at, name), i), s, perItem, refs)
		}
		return out
	}
	p.text = textTemplate{
		image: one("image", spec.Image), script: one("script", spec.Script), workingDir: one("workingDir", spec.WorkingDir),
		command: all("command", spec.Command), args: all("args", spec.Args),
	}
	c.variables(p, at, perItem, refs)
	if image, ok := p.text.image.static(); ok {
		if err := checkImage(image); err != nil {
			c.problems.add(field(at, "image"), "%s", err)
		}
	}
	if dir, ok := p.text.workingDir.static(); ok {
		if err := checkDir(dir); err != nil {
			c.problems.add(field(at, "workingDir"), "%s", err)
		}
	}
	if spec.Script != "" && (spec.Command != nil || spec.Args != nil) {
		c.problems.add(field(at, "script"), "script stands instead of command and args: leave out one or the other")
	}
	if len(spec.Command) > 0 && spec.Command[0] == "" {
		c.problems.add(index(field(at, "command"), 0), "the program's name is empty")
	}
	c.sizes(p, at)
}

// sizes checks the text as far as it is known before the drive.
func (c *compiler) sizes(p *Play, at string) {
	known, _ := p.text.fill(func(t template) (string, error) { return t.known(), nil })
	if err := checkBytes(&known); err != nil {
		c.problems.add(at, "%s", err)
	}
	if err := checkSize(p.Spec.Name, &known); err != nil {
		path := at
		if tooLarge := (*TooLargeError)(nil); errors.As(err, &tooLarge) && tooLarge.Path != "" {
			path = field(at, tooLarge.Path)
		}
		c.problems.add(path, "%s", err)
	}
}

// variables compiles the variables.
func (c *compiler) variables(p *Play, at string, perItem bool, refs map[int]bool) {
	seen := map[string]bool{}
	for i, e := range p.Spec.Env {
		path := index(field(at, "env"), i)
		switch {
		case e.Name == "":
			c.problems.add(field(path, "name"), "a variable's name is missing")
		case len(validation.IsEnvVarName(e.Name)) > 0:
			c.problems.add(field(path, "name"), "%q is not a variable's name: use letters, digits, _, - and ., with no digit first", e.Name)
		case strings.HasPrefix(e.Name, protocol.EnvPrefix):
			c.problems.add(field(path, "name"), "%s: names that begin with %s are nohuddle's own", e.Name, protocol.EnvPrefix)
		case seen[e.Name]:
			c.problems.add(field(path, "name"), "the variable %s is set twice", e.Name)
		}
		seen[e.Name] = true
		env := envTemplate{name: e.Name}
		if e.ValueFrom == nil {
			env.value = c.template(p, field(path, "value"), e.Value, perItem, refs)
		} else {
			env.secret = c.secret(path, e)
		}
		p.text.env = append(p.text.env, env)
	}
}

// secret checks a reference to a secret and gives it its place in the program's list.
func (c *compiler) secret(path string, e v1alpha1.EnvVar) string {
	if e.Value != "" {
		c.problems.add(field(path, "value"), "a variable has a value or a valueFrom, not both")
	}
	at := field(path, "valueFrom")
	ref := e.ValueFrom.SecretKeyRef
	if ref == nil {
		c.problems.add(at, "valueFrom names no source: secretKeyRef is the one that there is")
		return ""
	}
	at = field(at, "secretKeyRef")
	if len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		c.problems.add(field(at, "name"), "%q is not the name of a Secret: use a-z, 0-9, - and .", ref.Name)
	}
	if len(validation.IsConfigMapKey(ref.Key)) > 0 {
		c.problems.add(field(at, "key"), "%q is not a key of a Secret: use letters, digits, -, _ and .", ref.Key)
	}
	optional := ref.Optional != nil && *ref.Optional
	id := SecretRef{Name: ref.Name, Key: ref.Key}
	i, ok := c.secrets[id]
	if !ok {
		i = len(c.prog.Secrets)
		c.secrets[id] = i
		c.prog.Secrets = append(c.prog.Secrets, SecretRef{Name: ref.Name, Key: ref.Key, Optional: optional})
	}
	c.prog.Secrets[i].Optional = c.prog.Secrets[i].Optional && optional
	return secretName(i)
}

func (c *compiler) retries(p *Play, at string) {
	r := p.Spec.Retries
	if r == nil {
		return
	}
	at = field(at, "retries")
	if r.Limit < 0 || r.Limit > MaxRetries {
		c.problems.add(field(at, "limit"), "%d is not a number of further attempts: 0 to %d", r.Limit, MaxRetries)
	}
	if r.Backoff.Duration < 0 {
		c.problems.add(field(at, "backoff"), "%s is below 0", r.Backoff.Duration)
	}
	seen := map[int32]bool{}
	for i, code := range r.ExitCodes {
		path := index(field(at, "exitCodes"), i)
		switch {
		case code < 1 || code > 255:
			c.problems.add(path, "%d is not the exit code of a failure: 1 to 255", code)
		case seen[code]:
			c.problems.add(path, "%d is listed twice", code)
		}
		seen[code] = true
	}
}

// bounds checks what is a number or one of a few words.
func (c *compiler) bounds(p *Play, at string) {
	if t := p.Spec.Timeout; t != nil && t.Duration <= 0 {
		c.problems.add(field(at, "timeout"), "%s is not a timeout: it must be more than 0; without one, leave it out", t.Duration)
	} else if t != nil && t.Milliseconds() == 0 {
		c.problems.add(field(at, "timeout"), "%s is less than a millisecond", t.Duration)
	}
	if g := *p.Spec.GracePeriodSeconds; g < 0 || g > MaxGrace {
		c.problems.add(field(at, "gracePeriodSeconds"), "%d is not a grace period: 0 to %d seconds", g, MaxGrace)
	}
	switch p.Spec.OnError {
	case v1alpha1.OnErrorStop, v1alpha1.OnErrorContinue:
	default:
		c.problems.add(field(at, "onError"), "%q is neither Stop nor Continue", p.Spec.OnError)
	}
}
