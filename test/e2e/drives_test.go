package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

const two = `
  plays:
  - name: a
    image: examples.nohuddle.dev/busybox:1.35
    command: [printf, 'a\377b\r\nno end']
  - name: each
    image: examples.nohuddle.dev/busybox:1.35
    forEach: [x, y]
    args: [echo, "item ${{ item }}"]
`

const failing = `
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', args: ["true"]}
  - {name: b, image: 'examples.nohuddle.dev/busybox:1.35', args: [sh, -c, exit 3]}
  - {name: c, image: 'examples.nohuddle.dev/busybox:1.35', args: ["true"]}
`

func TestDrivesAreKept(t *testing.T) {
	p := newPlayer(t)
	if r := p.run("list").exits(0).is(""); !strings.Contains(r.stderr, "no drives yet") {
		t.Errorf("%s", r)
	}
	p.run("list", "-o", "json").exits(0).prints(`"items": []`)
	p.run("run", p.playbook(two), "--name", "first").exits(0).quiet()
	p.run("run", p.playbook(failing), "--name", "second").exits(1).says("drive second: Failed: ", "play b", "exit code 3")

	p.run("list").exits(0).quiet().matches(`^NAME +PHASE +PLAYS +AGE +DURATION$`, `^second +Failed +3/3 .*\n^first +Succeeded +3/3 `)
	var list struct{ Items []v1alpha1.Drive }
	if err := json.Unmarshal([]byte(p.run("ls", "-o", "json").exits(0).stdout), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	p.run("get", "second").exits(0).quiet().matches(`^PLAY +PHASE `, `^b +Failed +slot-[01] +1 +3 `, `^c +Skipped `, `^drive second: Failed: `)
	if d := p.run("get", "second", "-o", "json").exits(0).quiet().drive(); d.Status.Phase != v1alpha1.DriveFailed || d.Kind != "Drive" || d.APIVersion != "nohuddle.dev/v1alpha1" {
		t.Errorf("%+v", d)
	}
	p.run("get", "second", "-o", "yaml").exits(0).quiet().matches("^  phase: Failed$")
	p.run("run", p.playbook(two), "--name", "first").exits(2).says(
		"there is a drive first already: choose another --name, or remove it with `nohuddle prune first`")
	if r := p.run("prune").exits(0); r.stdout != "" {
		t.Errorf("young drives are pruned\n%s", r)
	}
	p.run("prune", "--older-than", "0s").exits(0).quiet().prints("removed drive first\n", "removed drive second\n")
	p.run("list").exits(0).is("")
}

// All logs have headers; one log is what the play has written, byte for byte (CASES.md 27).
func TestLogs(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook(two), "--name", "d").exits(0).prints("a | a�b\n", "a | no end\n")
	p.run("logs", "d", "a").exits(0).quiet().is("a\xffb\r\nno end")
	p.run("logs", "d", "each.1").exits(0).quiet().is("item y\n")
	p.run("logs", "d", "each").exits(0).quiet().is("==> each.0, attempt 1 <==\nitem x\n\n==> each.1, attempt 1 <==\nitem y\n")
	p.run("logs", "d").exits(0).quiet().is("==> a, attempt 1 <==\na\xffb\r\nno end\n\n==> each.0, attempt 1 <==\nitem x\n\n==> each.1, attempt 1 <==\nitem y\n")
	p.run("logs", "d", "nobody").exits(2).says("drive d has no play nobody: `nohuddle get d` shows its plays")
	p.run("logs", "d", "a", "--attempt", "7").exits(2).says("there is no attempt 7: `nohuddle get d` shows how many there were")
}

func TestOutputIsTheObjectAlone(t *testing.T) {
	p := newPlayer(t)
	path := p.playbook(two)
	d := p.run("run", path, "-o", "json").exits(0).drive()
	if d.Status.Phase != v1alpha1.DriveSucceeded || d.Status.FinishedAt == nil {
		t.Errorf("the drive is %+v", d.Status)
	}
	d = &v1alpha1.Drive{}
	r := p.run("run", path, "-o", "yaml", "--name", "d").exits(0)
	if err := yaml.UnmarshalStrict([]byte(r.stdout), d); err != nil || d.Name != "d" || d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("%v\n%s", err, r)
	}
	// The progress is on stderr, unless it is not wanted.
	if !strings.Contains(r.stderr, "each.1 | item y") {
		t.Errorf("stderr has no progress\n%s", r)
	}
	p.run("run", path, "-o", "json", "--view", "none").exits(0).quiet()
	if d := p.run("run", p.playbook(failing), "-o", "json").exits(1).drive(); d.Status.Phase != v1alpha1.DriveFailed {
		t.Errorf("the drive is %+v", d.Status)
	}
}

// What was printed can be run again, under its own name once that is free.
func TestPrintedDriveRunsAgain(t *testing.T) {
	p := newPlayer(t)
	path := p.file("again.yaml", p.run("run", p.playbook(two), "--name", "d", "-o", "yaml", "--view", "none").exits(0).stdout)
	p.run("run", path).exits(2).says("there is a drive d already")
	p.run("prune", "d").exits(0).is("removed drive d\n")
	p.run("run", path).exits(0).matches("^drive d: Succeeded")
}

func TestUnreadableDriveIsToldOfAndRemoved(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook(two), "--name", "d", "--view", "none").exits(0)
	if err := os.WriteFile(filepath.Join(p.dir("d"), "drive.json"), []byte(`{"metadata": `), 0o644); err != nil {
		t.Fatal(err)
	}
	p.run("list").exits(0).says("read drive d: ", "remove it with `nohuddle prune d`")
	p.run("get", "d").exits(1).says("read drive d: ")
	p.run("prune", "d").exits(0).quiet()
	p.run("get", "d").exits(2)
}

// The name of an anonymous drive is its playbook's or its folder's, and is never used twice.
func TestNames(t *testing.T) {
	p := newPlayer(t)
	p.run("run", "examples/hello").exits(0).matches("^drive hello-[a-z0-9]{5}: Succeeded")
	p.run("run", "examples/hello").exits(0).matches("^drive hello-[a-z0-9]{5}: Succeeded")
	named := p.file("drive.yaml", "apiVersion: nohuddle.dev/v1alpha1\nkind: Drive\nmetadata: {name: name}\nspec:\n  playbook:\n    plays:\n"+
		"    - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', args: [hostname]}\n")
	p.run("run", named).exits(0).matches("^a | name$", "^drive name: Succeeded")
}
