package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// nobody is a user who isn't root.
const nobody = 65534

// rootless is a user who isn't root, with folders of their own.
func rootless(t *testing.T) *player {
	t.Helper()
	p := newPlayer(t)
	home, err := os.MkdirTemp(scratch, "home-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	p.state = home
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		p.set(name, home)
	}
	// Images and examples lie where this user can't go.
	layoutCopy := filepath.Join(home, "layout")
	for _, command := range [][]string{{"cp", "-r", layout, layoutCopy}, {"chown", "-R", "65534:65534", layoutCopy}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	p.set("NOHUDDLE_IMAGES", layoutCopy)
	t.Cleanup(func() { nothingLeft(t, home) })
	return p
}

// startAs starts the program as that user.
func (p *player) startAs(uid uint32, args ...string) *process {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "nohuddle"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return p.startCommand(cmd)
}

// TestRootless: a user who isn't root runs drives in a user namespace, with all but limits and memory figures.
func TestRootless(t *testing.T) {
	p := rootless(t)
	manifest := p.playbook(`
  plays:
  - {name: a, image: 'examples.nohuddle.dev/busybox:1.35', script: 'id -u; touch /scratch/f; ls /mark 2>/dev/null; touch /mark'}
  - {name: b, image: 'examples.nohuddle.dev/busybox:1.35', script: 'ls /scratch /mark 2>/dev/null; true'}
`)
	open(t, manifest)
	d := p.startAs(nobody, "run", manifest, "--name", "own", "-o", "json").wait().exits(0).drive()
	if d.Status.PeakMemory != nil {
		t.Errorf("the peak memory is %s, though nobody counts it", d.Status.PeakMemory)
	}
	p.startAs(nobody, "logs", "own", "a").wait().exits(0).is("0\n")
	p.startAs(nobody, "logs", "own", "b").wait().exits(0).is("/scratch:\nf\n")

	limited := p.playbook(`
  plays: [{name: a, image: 'examples.nohuddle.dev/busybox:1.35', command: ["true"], resources: {limits: {memory: 64Mi}}}]
`)
	open(t, limited)
	p.startAs(nobody, "run", limited, "--view", "none").wait().exits(1).says("limits need cgroups")
}

// TestRootlessIsKilled: what a killed run of a user has left, the user can remove.
func TestRootlessIsKilled(t *testing.T) {
	p := rootless(t)
	manifest := p.playbook(`
  plays: [{name: a, image: 'examples.nohuddle.dev/busybox:1.35', script: 'echo up; sleep 1000'}]
`)
	open(t, manifest)
	run := p.startAs(nobody, "run", manifest, "--name", "lost", "--view", "plain")
	run.sees("a | up")
	run.kill()
	<-run.ended
	p.startAs(nobody, "prune").wait().exits(0)
	d := p.startAs(nobody, "get", "lost", "-o", "json").wait().exits(0).drive()
	if d.Status.Phase != v1alpha1.DriveFailed || d.Status.Reason != "Killed" {
		t.Errorf("the drive is %s by %s", d.Status.Phase, d.Status.Reason)
	}
}

// open lets every user read a file of the test's.
func open(t *testing.T, path string) {
	t.Helper()
	for dir := filepath.Dir(path); dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
