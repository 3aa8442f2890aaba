package playbook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nohuddle/nohuddle/internal/image/reference"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// envelope is the room of an assignment that is kept for what the planner adds to a play's text: the token, the names
// and the gates, of which there are at most as many as slots.
const envelope = 4 << 10

// TooLargeError says that a play's text is larger than an assignment can carry.
type TooLargeError struct {
	// What is too large: an argument, a variable, or the assignment as a whole.
	What string
	// Path of the field below the play; "" where it is none alone.
	Path string
	// Actual and Allowed are in bytes.
	Actual, Allowed int
}

// Error is one sentence with both sizes and a way out.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, at most %d are allowed: put the data into a file of the scratch volume and pass its name",
		e.What, e.Actual, e.Allowed)
}

// textTemplate is a play's text before its expressions are replaced.
type textTemplate struct {
	image, script, workingDir template
	command, args             []template // nil where absent
	env                       []envTemplate
}

type envTemplate struct {
	name, secret string
	value        template
}

// fill makes the text, with render for each template.
func (t *textTemplate) fill(render func(template) (string, error)) (Text, error) {
	var first error
	one := func(field string, tpl template) string {
		s, err := render(tpl)
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", field, err)
		}
		return s
	}
	all := func(field string, list []template) []string {
		if list == nil {
			return nil
		}
		out := make([]string, len(list))
		for i, tpl := range list {
			out[i] = one(index(field, i), tpl)
		}
		return out
	}
	out := Text{
		Image: one("image", t.image), Command: all("command", t.command), Args: all("args", t.args),
		Script: one("script", t.script), WorkingDir: one("workingDir", t.workingDir),
	}
	for _, e := range t.env {
		out.Env = append(out.Env, protocol.EnvVar{Name: e.name, Secret: e.secret, Value: one("env "+e.name, e.value)})
	}
	return out, first
}

// Render replaces the expressions in a play's text. item is nil for a play without forEach. Its errors are those of the
// expressions, *TooLargeError, or say which field became something illegal.
func (p *Play) Render(s Scope, item *string) (Text, error) {
	a := &activation{program: p.program, scope: s, item: item}
	text, err := p.text.fill(func(t template) (string, error) { return t.render(a) })
	if err != nil {
		return Text{}, err
	}
	if err := errors.Join(checkImage(text.Image), checkDir(text.WorkingDir), checkBytes(&text)); err != nil {
		return Text{}, err
	}
	if err := checkSize(p.Spec.Name, &text); err != nil {
		return Text{}, err
	}
	return text, nil
}

// When says whether the play is to run: true when it has no when.
func (p *Play) When(s Scope) (bool, error) {
	if p.when == nil {
		return true, nil
	}
	ok, err := p.when.bool(&activation{program: p.program, scope: s})
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	return ok, nil
}

// Items is the list of the play's forEach, at most MaxItems; nil without one.
func (p *Play) Items(s Scope) ([]string, error) {
	if p.Spec.ForEach == nil {
		return nil, nil
	}
	a := &activation{program: p.program, scope: s}
	if p.items == nil {
		items := make([]string, len(p.list))
		for i, t := range p.list {
			var err error
			if items[i], err = t.render(a); err != nil {
				return nil, fmt.Errorf("forEach[%d]: %w", i, err)
			}
		}
		return items, nil
	}
	val, err := p.items.eval(a)
	if err != nil {
		return nil, fmt.Errorf("forEach: %w", err)
	}
	items, err := toItems(val)
	if err != nil {
		return nil, fmt.Errorf("forEach: expression %s: %w", quoted(p.items.source), err)
	}
	return items, nil
}

// checkImage checks an image's syntax.
func checkImage(image string) error {
	if strings.TrimSpace(image) == "" {
		return errors.New("the image is empty")
	}
	_, err := reference.Parse(image)
	return err
}

// checkDir checks a working directory; "" is the image's.
func checkDir(dir string) error {
	if dir != "" && !strings.HasPrefix(dir, "/") {
		return fmt.Errorf("workingDir %q must be absolute, such as /scratch", dir)
	}
	return nil
}

// checkBytes refuses what the kernel can't take in a string: the byte 0.
func checkBytes(t *Text) error {
	check := func(field, s string) error {
		if i := strings.IndexByte(s, 0); i >= 0 {
			return fmt.Errorf("%s has the byte 0 at offset %d, which no program can be given", field, i)
		}
		return nil
	}
	errs := []error{check("script", t.Script), check("workingDir", t.WorkingDir)}
	for i, s := range t.Command {
		errs = append(errs, check(index("command", i), s))
	}
	for i, s := range t.Args {
		errs = append(errs, check(index("args", i), s))
	}
	for _, e := range t.Env {
		errs = append(errs, check("env "+e.Name, e.Value))
	}
	return errors.Join(errs...)
}

// checkSize holds a text against what the kernel takes in one string and what an assignment carries.
func checkSize(play string, t *Text) error {
	argument := func(what, path string, n int) error {
		if n > protocol.MaxArgument {
			return &TooLargeError{What: what, Path: path, Actual: n, Allowed: protocol.MaxArgument}
		}
		return nil
	}
	for i, s := range t.Command {
		if err := argument(index("command", i), index("command", i), len(s)); err != nil {
			return err
		}
	}
	for i, s := range t.Args {
		if err := argument(index("args", i), index("args", i), len(s)); err != nil {
			return err
		}
	}
	for i, e := range t.Env {
		if err := argument("env "+e.Name, index("env", i), len(e.Name)+1+len(e.Value)); err != nil {
			return err
		}
	}
	assignment := protocol.Assignment{
		Play: play, Argv: append(append([]string{}, t.Command...), t.Args...), Script: t.Script, Env: t.Env, WorkingDir: t.WorkingDir,
	}
	data, err := json.Marshal(assignment)
	if err != nil {
		return fmt.Errorf("play %s: its assignment has no JSON: %w", play, err)
	}
	if len(data) > protocol.MaxAssignment-envelope {
		return &TooLargeError{
			What:   "the assignment (command, args, script, env as JSON)",
			Actual: len(data), Allowed: protocol.MaxAssignment - envelope,
		}
	}
	return nil
}

// secretName is how an assignment names a secret of the program.
func secretName(i int) string { return strconv.Itoa(i) }
