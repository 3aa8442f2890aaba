package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with a command line gets one sentence and code 2, and leaves no trace.
func TestUsage(t *testing.T) {
	p := newPlayer(t)
	hello := "examples/hello"
	param := p.playbook("  params: [{name: sample}]\n  plays:\n  - {name: a, image: busybox, args: ['${{ params.sample }}']}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `unknown command "frobnicate"`},
		{[]string{"run"}, "accepts 1 arg(s), received 0"},
		{[]string{"run", "--frobnicate", hello}, "unknown flag: --frobnicate"},
		{[]string{"run", "-o", "xml", hello}, "-o xml: the formats are json and yaml"},
		{[]string{"list", "-o", "xml"}, "-o xml: the formats are json and yaml"},
		{[]string{"get", "d", "-o", "xml"}, "-o xml: the formats are json and yaml"},
		{[]string{"plan", hello, "-o", "xml"}, "-o xml: the formats are json and yaml"},
		{[]string{"version", "-o", "xml"}, "-o xml: the formats are json and yaml"},
		{[]string{"run", "--network", "none", hello}, "--network none: it is pod or host"},
		{[]string{"run", "--view", "fancy", hello}, "--view fancy: it is auto, live, plain or none"},
		{[]string{"run", "--name", "No_Name", hello}, "--name No_Name is not a name: "},
		{[]string{"run", "--name", "..", hello}, "--name .. is not a name: "},
		{[]string{"run", "absent.yaml"}, "there is no absent.yaml: name a playbook's file, or a folder with a playbook.yaml"},
		{[]string{"run", "-p", "novalue", hello}, "-p novalue: write name=value"},
		{[]string{"get", "nobody"}, "there is no drive nobody: `nohuddle list` shows those that there are"},
		{[]string{"logs", "nobody"}, "there is no drive nobody"},
		{[]string{"prune", "nobody"}, "there is no drive nobody"},
		{[]string{"prune", ".."}, "there is no drive .."},
		{[]string{"prune", "--older-than", "soon"}, `invalid argument "soon"`},
	} {
		if r := p.run(c.args...).exits(2).says(c.want); r.stdout != "" {
			t.Errorf("stdout is not empty\n%s", r)
		}
	}
	// Problems of params are the playbook's, whose file they name.
	for _, args := range [][]string{{"run", hello, "-p", "unknown=x"}, {"run", param}, {"plan", param}} {
		if r := p.run(args...).exits(2); strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "playbook.yaml") {
			t.Errorf("stderr is not one line about the playbook\n%s", r)
		}
	}
	if _, err := os.Stat(filepath.Join(p.state, "nohuddle", "drives")); !os.IsNotExist(err) {
		t.Errorf("the drives: %v", err)
	}
}

func TestVersion(t *testing.T) {
	p := newPlayer(t)
	p.run("version").exits(0).quiet().matches(`^nohuddle v0\.0\.0-test \(go1\.\S+, linux/\w+\)$`)
	p.run("version", "-o", "json").exits(0).quiet().prints(`"version": "v0.0.0-test"`)
	p.run("version", "-o", "yaml").exits(0).quiet().prints("version: v0.0.0-test\n")
	p.run("help").exits(0).quiet().prints("Run a playbook or a drive on this machine", "Tell every problem of playbooks")
}

func TestCompletion(t *testing.T) {
	p := newPlayer(t)
	p.run("completion", "bash").exits(0).quiet().prints("__start_nohuddle nohuddle")
	p.run("run", "examples/hello", "--name", "d", "--view", "none").exits(0).quiet().is("")
	p.run("__complete", "get", "").exits(0).matches("^d$")
	p.run("__complete", "run", "-o", "").exits(0).matches("^json$", "^yaml$")
}

func TestPlan(t *testing.T) {
	p := newPlayer(t)
	path := p.playbook(`
  plays:
  - {name: fetch, image: busybox, resources: {requests: {memory: 64Mi, cpu: 100m}}}
  - {name: align, image: busybox, resources: {requests: {memory: 1Gi, cpu: "1"}}}
  - {name: sort, image: busybox, reuse: true, resources: {requests: {memory: 512Mi}}}
  - {name: call, image: busybox, when: plays.sort.exitCode == 0}
`)
	p.run("plan", path).exits(0).quiet().is(`MOMENT  SLOT-0  SLOT-1   POD REQUESTS
1       fetch   (align)  cpu 1100m, memory 1088Mi
2       (sort)  align    cpu 1, memory 1536Mi
3       sort    (call)   memory 512Mi
4       -       call     nothing
the pod asks for at most cpu 1100m, memory 1536Mi; all plays at once would ask for cpu 1100m, memory 1600Mi
known at run time only: call (taken to run, with one item each)
`)
	p.run("plan", path, "-o", "json").exits(0).quiet().prints(`"moments": [`, `"allAtOnce": {`)
	p.run("plan", path, "-o", "yaml").exits(0).quiet().matches("^moments:$")
	p.run("plan", "examples/wgs", "-p", "sample=mine").exits(0).quiet().matches(`^\d+ +align +`)
	if entries, err := os.ReadDir(p.state); err != nil || len(entries) > 0 {
		t.Errorf("a plan leaves %v, %v", entries, err)
	}
}
