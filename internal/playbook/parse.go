package playbook

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// GroupVersion is the apiVersion of manifests.
const GroupVersion = "nohuddle.dev/v1alpha1"

// Parse reads one manifest, a Playbook or a Drive, in YAML or JSON, and checks it as far as that can be done before it
// runs. A Playbook becomes a Drive without params, whose generateName is the playbook's name and a dash. file is for messages only.
//
// Nothing is passed over in silence: a field that doesn't exist, or not yet, is a problem. The error is Problems, all of
// them in the order of their lines.
func Parse(file string, data []byte) (*v1alpha1.Drive, error) {
	drive, problems := parse(data)
	for i := range problems {
		problems[i].File = file
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return drive, nil
}

func parse(data []byte) (*v1alpha1.Drive, Problems) {
	root, problems := document(data)
	if root == nil {
		return nil, problems
	}
	d := newDecoder()
	kind := d.kind(root)
	drive := &v1alpha1.Drive{}
	c := &compiler{root: "spec", paramsPath: "spec.params"}
	switch kind {
	case "Playbook":
		book := &v1alpha1.Playbook{}
		d.decode(root, reflect.ValueOf(book).Elem())
		drive.ObjectMeta, drive.Spec.Playbook = book.ObjectMeta, &book.Spec
		d.name("metadata.name", book.Name)
		if drive.Name = ""; book.Name != "" {
			drive.GenerateName = book.Name + "-"
		}
	case "Drive":
		d.decode(root, reflect.ValueOf(drive).Elem())
		c.root, c.given, c.bind = "spec.playbook", drive.Spec.Params, true
	default:
		return nil, d.problems
	}
	drive.APIVersion, drive.Kind = GroupVersion, "Drive"
	d.object(kind, drive)
	if d.exhausted || drive.Spec.Playbook == nil {
		return drive, d.problems
	}
	if _, err := c.compile(drive.Spec.Playbook); err != nil {
		return nil, append(d.problems, Problem{Message: err.Error()})
	}
	return drive, d.merge(c.problems)
}

// document parses the text as one YAML document.
func document(data []byte) (*yaml.Node, Problems) {
	if len(data) > MaxFile {
		return nil, Problems{{Message: fmt.Sprintf("the file has %d bytes, at most %d are allowed", len(data), MaxFile)}}
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, Problems{{Line: 1, Column: 1, Message: "the file is empty: it must hold a Playbook or a Drive"}}
	case err != nil:
		return nil, Problems{syntax(err)}
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, Problems{{Line: next.Line, Column: max(next.Column, 1), Message: "a second document begins here: put each into a file of its own"}}
	case !errors.Is(err, io.EOF):
		return nil, Problems{syntax(err)}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, Problems{{Line: root.Line, Column: root.Column, Message: "the file holds " + kindOf(root) + ": it must hold a Playbook or a Drive"}}
	}
	return root, nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax is a YAML error as a problem.
func syntax(err error) Problem {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	p := Problem{Line: 1, Column: 1}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	p.Message = "this is not YAML: " + strings.TrimPrefix(text, "yaml: ")
	return p
}

// kind reads apiVersion and kind; "" after a problem with the kind.
func (d *decoder) kind(root *yaml.Node) string {
	var version, kind *yaml.Node
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "apiVersion":
			version = root.Content[i+1]
		case "kind":
			kind = root.Content[i+1]
		}
	}
	switch {
	case version == nil:
		d.problem(root, "apiVersion", "it is missing: write apiVersion: %s", GroupVersion)
	case version.Value != GroupVersion:
		d.problem(version, "apiVersion", "%s is not known: write %s", quoted(version.Value), GroupVersion)
	}
	switch {
	case kind == nil:
		d.problem(root, "kind", "it is missing: write kind: Playbook or kind: Drive")
		return ""
	case kind.Value != "Playbook" && kind.Value != "Drive":
		d.problem(kind, "kind", "%s is neither Playbook nor Drive", quoted(kind.Value))
		return ""
	}
	return kind.Value
}

// object checks what is not of the playbook.
func (d *decoder) object(kind string, drive *v1alpha1.Drive) {
	d.name("metadata.name", drive.Name)
	d.name("metadata.generateName", strings.TrimRight(drive.GenerateName, "-"))
	if kind != "Drive" {
		return
	}
	if drive.Spec.Playbook == nil && !d.has("spec.playbook") && !d.has("spec.playbookRef") {
		d.at("spec.playbook", "it is missing: a drive needs the playbook that it runs")
	}
	switch drive.Spec.Intent {
	case "", v1alpha1.IntentRun, v1alpha1.IntentSuspend, v1alpha1.IntentCancel:
	default:
		d.at("spec.intent", "%q is neither Run nor Suspend nor Cancel", drive.Spec.Intent)
	}
}

func (d *decoder) name(path, name string) {
	if name == "" {
		return
	}
	if message := NameProblem(name); message != "" {
		d.at(path, "%q is not a name: %s", name, message)
	}
}

// merge puts the compiler's problems where their fields are in the file. Those of fields that could not be read are only
// the consequence of that.
func (d *decoder) merge(found Problems) Problems {
	out := d.problems
	for _, p := range found {
		if slices.ContainsFunc(d.problems, func(q Problem) bool {
			return q.Path == p.Path || strings.HasPrefix(p.Path, q.Path+".") || strings.HasPrefix(p.Path, q.Path+"[")
		}) {
			continue
		}
		p.Line, p.Column = d.position(p.Path, p.within)
		out = append(out, p)
	}
	return out
}
