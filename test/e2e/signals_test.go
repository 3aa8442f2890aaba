package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// sleeper runs until it is stopped, and then finally.
const sleeper = `
  plays:
  - name: sleep
    image: examples.nohuddle.dev/busybox:1.35
    command: [sh, -c]
    args: ["trap 'echo stopped; exit 3' TERM; echo asleep; sleep 600 & wait"]
  - name: never
    image: examples.nohuddle.dev/busybox:1.35
    command: [echo, "this must not run"]
  finally:
  - name: clean
    image: examples.nohuddle.dev/busybox:1.35
    command: [echo, "cleaned up"]
`

// stubborn neither ends on SIGTERM nor lets finally come soon.
const stubborn = `
  plays:
  - name: sleep
    image: examples.nohuddle.dev/busybox:1.35
    gracePeriodSeconds: 3600
    command: [sh, -c]
    args: ["trap '' TERM; echo asleep; while true; do sleep 1; done"]
  finally:
  - name: clean
    image: examples.nohuddle.dev/busybox:1.35
    command: [echo, "cleaned up"]
`

// CASES.md 25: after a cancel the cleanup runs, once.
func TestSignalCancels(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			p := newPlayer(t)
			c := p.start("run", p.playbook(sleeper), "--name", "d")
			c.sees("sleep | asleep")
			c.signal(sig)
			c.wait().exits(130).prints("cancelling", "sleep | stopped", "clean | cleaned up").says("drive d: Cancelled: cancelled by the user")
			if n := strings.Count(c.stdout.String(), "clean | cleaned up"); n != 1 {
				t.Errorf("finally ran %d times", n)
			}
			d := p.run("get", "d", "-o", "json").exits(0).drive()
			if d.Status.Phase != v1alpha1.DriveCancelled || d.Spec.Intent != v1alpha1.IntentCancel {
				t.Errorf("the drive is %s, its intent %s", d.Status.Phase, d.Spec.Intent)
			}
			if s := play(t, d, "sleep"); s.Phase != v1alpha1.PlayCancelled || s.ExitCode == nil || *s.ExitCode != 3 {
				t.Errorf("sleep is %+v", s)
			}
			if s := play(t, d, "never"); s.Phase != v1alpha1.PlayCancelled || s.Attempt != 0 {
				t.Errorf("never is %+v", s)
			}
		})
	}
}

func TestSecondSignalKills(t *testing.T) {
	p := newPlayer(t)
	c := p.start("run", p.playbook(stubborn), "--name", "d")
	c.sees("sleep | asleep")
	ns := netns(t, inContainers(p.state))
	c.signal(syscall.SIGINT)
	c.sees("press Ctrl-C again")
	c.signal(syscall.SIGINT)
	c.waitFor(10 * time.Second).exits(130).says("drive d: Cancelled: killed by the user")
	nothingLeft(t, p.state) // at once, not later
	if h := holders(ns); len(h) > 0 {
		t.Errorf("the network namespace is held by %q", h)
	}
	d := p.run("get", "d", "-o", "json").exits(0).drive()
	if d.Status.Phase != v1alpha1.DriveCancelled || d.Status.Reason != "Killed" {
		t.Errorf("the drive is %s, %s", d.Status.Phase, d.Status.Reason)
	}
	for _, s := range d.Status.Plays {
		if !s.Phase.Terminal() {
			t.Errorf("play %s is %s", s.Name, s.Phase)
		}
	}
	if r := p.run("logs", "d", "sleep").exits(0); r.stdout != "asleep\n" {
		t.Errorf("the log of sleep is %q", r.stdout)
	}
}

// However many signals come, and whenever: the process ends only once all is removed.
func TestManySignals(t *testing.T) {
	p := newPlayer(t)
	c := p.start("run", p.playbook(stubborn), "--name", "d")
	c.sees("sleep | asleep")
	for !c.gone() {
		c.signal(syscall.SIGINT)
		c.signal(syscall.SIGTERM)
		time.Sleep(time.Millisecond) // signals that are pending are one
	}
	c.wait().exits(130)
}

// A signal that comes while the pod is being made cancels too.
func TestSignalAtTheStart(t *testing.T) {
	p := newPlayer(t)
	path := p.playbook(sleeper)
	c := p.start("run", path, "--name", "d")
	eventually(t, "folder of the drive", func() bool {
		_, err := os.Stat(p.dir("d"))
		return err == nil || c.gone()
	})
	c.signal(syscall.SIGINT)
	c.wait().exits(130).prints("clean | cleaned up")
}

// `nohuddle run … | head` goes on to the end of the drive, and the plays keep their SIGPIPE.
func TestNobodyReadsTheOutput(t *testing.T) {
	p := newPlayer(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "nohuddle"), "run", p.playbook(`
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'yes | head -n 1']}
  - {name: b, image: 'examples.nohuddle.dev/busybox:1.35', command: [grep, SigIgn, /proc/self/status]}
`), "--name", "d")
	cmd.Stdout, cmd.Stderr = w, w
	c := p.startCommand(cmd)
	w.Close()
	r.Close()
	c.wait().exits(1)
	if d := p.run("get", "d", "-o", "json").exits(0).drive(); d.Status.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s", d.Status.Phase)
	}
	p.run("logs", "d", "b").exits(0).matches(`^SigIgn:\s+0+$`)
}

// nohup makes a run go on when its terminal is gone; the plays have their SIGHUP.
func TestNohup(t *testing.T) {
	p := newPlayer(t)
	c := p.startCommand(exec.Command("nohup", filepath.Join(bin, "nohuddle"), "run", p.playbook(`
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', command: [sh, -c, 'grep SigIgn /proc/self/status; while [ ! -e /scratch/go ]; do sleep 0.1; done']}
`), "--name", "d"))
	c.sees("a | SigIgn: 0000000000000000")
	c.signal(syscall.SIGHUP)
	c.signal(syscall.SIGHUP)
	if err := os.WriteFile(filepath.Join(p.dir("d"), "scratch", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.wait().exits(0)
}

func TestKilledRunIsPruned(t *testing.T) {
	p := newPlayer(t)
	ns := killed(t, p)
	p.run("list").exits(0).prints("d     Failed")
	if s := play(t, p.run("get", "d", "-o", "json").exits(0).drive(), "sleep"); s.Phase != v1alpha1.PlayFailed || s.Reason != v1alpha1.ReasonInterrupted {
		t.Errorf("sleep is %+v", s)
	}
	if r := p.run("prune").exits(0); !strings.Contains(r.stderr, "removed what drive d had left") {
		t.Errorf("prune tells nothing of it\n%s", r)
	}
	nothingLeft(t, p.state)
	if h := holders(ns); len(h) > 0 {
		t.Errorf("the network namespace is held by %q", h)
	}
	if r := p.run("prune").exits(0); r.stderr != "" {
		t.Errorf("there was something left to prune\n%s", r)
	}
	// The drive itself is kept until it is old, or asked for.
	if r := p.run("logs", "d", "sleep").exits(0); r.stdout != "asleep\n" {
		t.Errorf("the log of sleep is %q", r.stdout)
	}
	p.run("prune", "d").exits(0).prints("removed drive d")
	if _, err := os.Stat(p.dir("d")); !os.IsNotExist(err) {
		t.Errorf("the folder of the drive: %v", err)
	}
}

func TestKilledRunIsRemovedByTheNext(t *testing.T) {
	p := newPlayer(t)
	ns := killed(t, p)
	p.run("run", "examples/hello", "--name", "drive").exits(0)
	nothingLeft(t, p.state)
	if h := holders(ns); len(h) > 0 {
		t.Errorf("the network namespace is held by %q", h)
	}
}

// killed kills a run in its middle, and returns the network namespace of its pod.
func killed(t *testing.T, p *player) string {
	t.Helper()
	c := p.start("run", p.playbook(stubborn), "--name", "d")
	c.sees("sleep | asleep")
	pids := inContainers(p.state)
	if len(pids) == 0 || len(processes(p.state)) == 0 || len(mounts(p.state)) == 0 || len(cgroups(p.state)) == 0 {
		t.Fatalf("a drive that runs has processes %q, mounts %q, cgroups %q: what looks for leftovers is blind",
			processes(p.state), mounts(p.state), cgroups(p.state))
	}
	ns := netns(t, pids)
	p.run("list").exits(0).prints("d     Running")
	if r := p.run("logs", "d", "sleep").exits(0); r.stdout != "asleep\n" {
		t.Errorf("the log of a play that runs is %q", r.stdout)
	}
	if r := p.run("prune", "d"); r.code == 0 || !strings.Contains(r.stderr, "drive d runs: cancel it first") {
		t.Errorf("a drive that runs is pruned\n%s", r)
	}
	c.kill()
	c.wait()
	if len(inContainers(p.state)) == 0 {
		t.Log("the containers ended with the process that ran them")
	}
	return ns
}

// CASES.md 21 to 23, as users see them: the grace period is honoured, what ignores SIGTERM is killed after it.
func TestGracePeriod(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	c := p.start("run", p.playbook(`
  plays:
  - name: checkpoint
    image: examples.nohuddle.dev/busybox:1.35
    needs: []
    command: [sh, -c]
    args: ["trap 'sleep 1; echo saved > /scratch/saved; exit 0' TERM; echo ready; sleep 600 & wait"]
  - name: deaf
    image: examples.nohuddle.dev/busybox:1.35
    needs: []
    gracePeriodSeconds: 1
    command: [sh, -c]
    args: ["trap '' TERM; (sleep 2; echo late > /scratch/late) & echo ready; while true; do sleep 1; done"]
`), "--name", "d", "--scratch", dir)
	c.sees("checkpoint | ready")
	c.sees("deaf | ready")
	c.signal(syscall.SIGINT)
	c.wait().exits(130)
	if b, err := os.ReadFile(filepath.Join(dir, "saved")); err != nil || string(b) != "saved\n" {
		t.Errorf("the checkpoint is %q, %v", b, err)
	}
	d := p.run("get", "d", "-o", "json").exits(0).drive()
	if s := play(t, d, "deaf"); s.ExitCode == nil || *s.ExitCode != 137 {
		t.Errorf("deaf is %+v", s)
	}
}
