package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const good = `apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
spec:
  plays:
  - {name: a, image: busybox}
`

const bad = `apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
spec:
  params:
  - name: sample
  plays:
  - name: a
    image: Not/An/Image
    comand: [sh]
  - name: a
    image: busybox
    when: params.smaple == ""
    needs: [nobody]
`

// The bomb is 10^8 strings, if somebody follows its aliases.
const bomb = `apiVersion: nohuddle.dev/v1alpha1
kind: Playbook
a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
spec:
  plays:
  - {name: a, image: busybox, args: *h}
`

func TestValidateTellsEveryProblem(t *testing.T) {
	p := newPlayer(t)
	badFile, goodFile := p.file("bad.yaml", bad), p.file("good.yaml", good)
	r := p.run("validate", badFile, goodFile, "absent.yaml").exits(2).is(goodFile + " is valid\n")
	var got []string
	for line := range strings.Lines(r.stderr) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, filepath.Dir(badFile)+"/"), ": ")
		got = append(got, line)
	}
	want := []string{"bad.yaml:8:12", "bad.yaml:9:5", "bad.yaml:10:11", "bad.yaml:12:11", "bad.yaml:13:13", "nohuddle"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the problems are elsewhere: %s\n%s", diff, r)
	}
	for _, text := range []string{`spec.plays[0].comand`, `spec.plays[0].image`, `spec.plays[1].name`, `spec.plays[1].when`, `spec.plays[1].needs[0]`, "absent.yaml"} {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr lacks %s\n%s", text, r)
		}
	}
}

func TestValidate(t *testing.T) {
	p := newPlayer(t)
	p.run("validate", "examples/hello", "examples/ci", "examples/wgs/playbook.yaml").exits(0).quiet().is(
		"examples/hello/playbook.yaml is valid\nexamples/ci/playbook.yaml is valid\nexamples/wgs/playbook.yaml is valid\n")
	p.run("validate").exits(2).says("requires at least 1 arg")
	p.run("validate", t.TempDir()).exits(2).says("name a playbook's file, or a folder with a playbook.yaml")
}

// What is refused before anything runs leaves no trace.
func TestRunRefusesABadPlaybook(t *testing.T) {
	p := newPlayer(t)
	for name, text := range map[string]string{"bad.yaml": bad, "bomb.yaml": bomb, "empty.yaml": "", "binary.yaml": "\x7fELF\x00"} {
		path := p.file(name, text)
		if r := p.run("run", path).exits(2); !strings.HasPrefix(r.stderr, path+":") || r.stdout != "" {
			t.Errorf("%s", r)
		}
	}
	if _, err := os.Stat(filepath.Join(p.state, "nohuddle")); !os.IsNotExist(err) {
		t.Errorf("the state folder: %v", err)
	}
}
