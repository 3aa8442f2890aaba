package local

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/drive"
	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// pod is an engine with the playbook that runs on it.
type pod struct {
	*Engine
	t       *testing.T
	prog    *playbook.Program
	intents chan v1alpha1.Intent
}

// newPod makes a pod; change alters what it is made from.
func newPod(t *testing.T, plays string, change func(*Config)) *pod {
	t.Helper()
	var spec v1alpha1.PlaybookSpec
	if err := yaml.UnmarshalStrict([]byte(plays), &spec); err != nil {
		t.Fatal(err)
	}
	prog, err := playbook.Compile(&spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Drive: "test", Dir: filepath.Join(t.TempDir(), "test"), Images: images(t), Shim: shimPath, Scratch: prog.Scratch,
	}
	if change != nil {
		change(&cfg)
	}
	e, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", e.pod.files[specs.NetworkNamespace].Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, e, network)
	})
	return &pod{Engine: e, t: t, prog: prog, intents: make(chan v1alpha1.Intent, 4)}
}

// run takes the drive to its end; during is called after each step.
func (p *pod) run(during func(v1alpha1.DriveStatus, plan.Observed)) v1alpha1.DriveStatus {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	status, err := drive.Run(ctx, drive.Options{
		Name: p.cfg.Drive, Program: p.prog, Engine: p.Engine, Watch: during,
		Save: func(v1alpha1.DriveStatus) error { return nil },
	}, p.intents)
	if err != nil {
		p.t.Fatalf("the drive came to no end: %v\n%+v", err, status)
	}
	return status
}

func (p *pod) log(token string) string {
	p.t.Helper()
	f, err := p.Log(token)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// nothingLeft holds that a closed engine has left nothing on the machine but logs.
func nothingLeft(t *testing.T, e *Engine, network string) {
	t.Helper()
	if dirs := e.cgroup.dirs(); len(dirs) > 0 {
		t.Errorf("cgroups are left: %v", dirs)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), e.cfg.Dir) {
		t.Errorf("mounts are left below %s", e.cfg.Dir)
	}
	entries, err := os.ReadDir(e.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if f.Name() != "logs" {
			t.Errorf("%s is left in the drive's folder", f.Name())
		}
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == network {
			t.Errorf("the pod's network namespace is left: %s has it", l)
		}
	}
}

// firstProcess is the pid of the first process of a slot's container.
func (p *pod) firstProcess(slot string) int {
	p.t.Helper()
	pattern := cgroupMount + "/*" + string(p.cgroup) + "/" + slot + ".*/cgroup.procs"
	if files, _ := filepath.Glob(pattern); len(files) > 0 {
		b, err := os.ReadFile(files[0])
		if err != nil {
			p.t.Fatal(err)
		}
		for field := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(field)
			if comm, _ := os.ReadFile("/proc/" + field + "/comm"); strings.HasPrefix(string(comm), "nohuddle-shim") {
				return pid
			}
		}
	}
	p.t.Fatalf("slot %s has no container (%s)", slot, pattern)
	return 0
}

// waitFor returns when a file has something in it.
func waitFor(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not appear", path)
		}
	}
}

func play(t *testing.T, s v1alpha1.DriveStatus, name string) v1alpha1.PlayStatus {
	t.Helper()
	for _, p := range s.Plays {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("the status has no play %s", name)
	return v1alpha1.PlayStatus{}
}

// TestImageIsHonoured: user, working directory, home and environment are the image's, and nothing of ours but what is
// documented is in the environment.
func TestImageIsHonoured(t *testing.T) {
	p := newPod(t, `
plays:
- {name: a, image: user, script: 'id -u; id -g; pwd; echo "$HOME $FROM"; env | grep ^NOHUDDLE_ | cut -d= -f1 | sort | tr "\n" " "'}
`, nil)
	if s := p.run(nil); s.Phase != v1alpha1.DriveSucceeded {
		t.Fatalf("the drive is %s: %s", s.Phase, s.Message)
	}
	want := "1234\n1234\n/work\n/home/worker image\nNOHUDDLE_ATTEMPT NOHUDDLE_DRIVE NOHUDDLE_OUTPUT NOHUDDLE_PLAY "
	if got := p.log("a.1"); got != want {
		t.Errorf("the play saw\n%q, want\n%q", got, want)
	}
}

// TestDeathOfTheFirstProcess: an attempt whose container is killed from outside is interrupted, never run again by
// itself, and tried again where retries say so (CASES.md 20).
func TestDeathOfTheFirstProcess(t *testing.T) {
	p := newPod(t, `
plays:
- {name: a, image: shell, retries: {limit: 1}, script: 'echo run >> /scratch/runs; [ $NOHUDDLE_ATTEMPT = 2 ] || sleep 1000'}
- {name: b, image: shell, command: [cat, /scratch/runs]}
`, nil)
	killed := false
	s := p.run(func(st v1alpha1.DriveStatus, _ plan.Observed) {
		if !killed && st.Plays[0].Phase == v1alpha1.PlayRunning {
			killed = true
			waitFor(t, filepath.Join(p.scratch, "runs"))
			if err := unix.Kill(p.firstProcess("slot-0"), unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	})
	if s.Phase != v1alpha1.DriveSucceeded {
		t.Fatalf("the drive is %s: %s", s.Phase, s.Message)
	}
	a := play(t, s, "a")
	if len(a.Attempts) != 1 || a.Attempts[0].Reason != v1alpha1.ReasonInterrupted || !strings.Contains(a.Attempts[0].Message, "SIGKILL") {
		t.Errorf("the first attempt ended as %+v", a.Attempts)
	}
	if got := p.log("b.1"); got != "run\nrun\n" {
		t.Errorf("the attempts left %q", got)
	}
}

// TestParkedContainerDies: a container that dies while it holds nothing to run harms nobody.
func TestParkedContainerDies(t *testing.T) {
	p := newPod(t, `
plays:
- {name: a, image: shell, command: ["true"]}
- {name: b, image: shell, script: 'until [ -e /scratch/go ]; do sleep 0.01; done'}
`, nil)
	killed := false
	s := p.run(func(st v1alpha1.DriveStatus, o plan.Observed) {
		switch {
		case st.Plays[1].Phase == v1alpha1.PlayRunning && !killed:
			killed = true
			if err := unix.Kill(p.firstProcess("slot-0"), unix.SIGKILL); err != nil {
				t.Error(err)
			}
		case o.Slots["slot-0"].Death != nil:
			if err := os.WriteFile(filepath.Join(p.scratch, "go"), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	if s.Phase != v1alpha1.DriveSucceeded {
		t.Errorf("the drive is %s: %s", s.Phase, s.Message)
	}
}

// TestSlotThatKeepsDying: a slot whose containers die at once is given up, with the last words of the last.
func TestSlotThatKeepsDying(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "shim")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no luck today >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := newPod(t, `plays: [{name: a, image: shell, command: ["true"]}]`, func(c *Config) { c.Shim = broken })
	s := p.run(nil)
	a := play(t, s, "a")
	if s.Phase != v1alpha1.DriveFailed || a.Reason != v1alpha1.ReasonSlot || !strings.Contains(a.Message, "code 3: no luck today") {
		t.Errorf("the drive is %s, the play failed by %s: %s", s.Phase, a.Reason, a.Message)
	}
}

// TestContainerThatCannotStart: the runtime's own words reach the play's message, and the slot is usable again.
func TestContainerThatCannotStart(t *testing.T) {
	p := newPod(t, `
plays:
- {name: a, image: badcwd, onError: Continue, command: ["true"]}
- {name: b, image: shell, command: ["true"]}
`, func(c *Config) {
		c.Images.(shelf)["badcwd"] = &image.Image{Config: c.Images.(shelf)["none"].Config, Layers: c.Images.(shelf)["none"].Layers}
		c.Images.(shelf)["badcwd"].Config.WorkingDir = "/bin/busybox/x"
	})
	s := p.run(nil)
	if a := play(t, s, "a"); a.Phase != v1alpha1.PlayFailed || a.Reason != v1alpha1.ReasonSlot || !strings.Contains(a.Message, "slot slot-0: "+filepath.Base(p.runtime.path)+": ") {
		t.Errorf("a is %s by %s: %s", a.Phase, a.Reason, a.Message)
	}
	if b := play(t, s, "b"); b.Phase != v1alpha1.PlaySucceeded {
		t.Errorf("b is %s: %s", b.Phase, b.Message)
	}
}

// TestNoCommand: an image without ENTRYPOINT and CMD needs a command.
func TestNoCommand(t *testing.T) {
	p := newPod(t, `plays: [{name: a, image: none}]`, nil)
	if a := play(t, p.run(nil), "a"); a.Reason != v1alpha1.ReasonImage || !strings.Contains(a.Message, "neither ENTRYPOINT nor CMD") {
		t.Errorf("a failed by %s: %s", a.Reason, a.Message)
	}
}

// TestExtendedResource: what this machine can't give is refused by name.
func TestExtendedResource(t *testing.T) {
	p := newPod(t, `
slots: [{name: gpu, resources: {limits: {example.com/gpu: "1"}}}]
plays: [{name: a, image: shell, command: ["true"], resources: {limits: {example.com/gpu: "1"}}}]
`, nil)
	if a := play(t, p.run(nil), "a"); a.Reason != v1alpha1.ReasonSlot || !strings.Contains(a.Message, "no example.com/gpu to give") {
		t.Errorf("a failed by %s: %s", a.Reason, a.Message)
	}
}

// slowImages never has an image.
type slowImages struct{ asked chan struct{} }

func (s slowImages) Get(ctx context.Context, _ string) (*image.Image, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCancelDuringPull: a pull that nobody wants any more is given up at once.
func TestCancelDuringPull(t *testing.T) {
	slow := slowImages{asked: make(chan struct{}, 1)}
	p := newPod(t, `plays: [{name: a, image: shell, command: ["true"]}]`, func(c *Config) { c.Images = slow })
	go func() {
		<-slow.asked
		p.intents <- v1alpha1.IntentCancel
	}()
	if s := p.run(nil); s.Phase != v1alpha1.DriveCancelled {
		t.Errorf("the drive is %s: %s", s.Phase, s.Message)
	}
}

// TestCloseInEachState: whatever the slots are about, Close leaves nothing (newPod's cleanup looks).
func TestCloseInEachState(t *testing.T) {
	phases := map[string]v1alpha1.PlayPhase{"staged": v1alpha1.PlayStaged, "running": v1alpha1.PlayRunning, "succeeded": v1alpha1.PlaySucceeded}
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, `
plays:
- {name: a, image: shell, script: 'trap "" TERM; setsid sleep 1000 & [ ! -e /scratch/never ]'}
- {name: b, image: shell, script: 'trap "" TERM; while :; do sleep 1; done'}
`, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := drive.Run(ctx, drive.Options{
				Name: "test", Program: p.prog, Engine: p.Engine, Save: func(v1alpha1.DriveStatus) error { return nil },
				Watch: func(st v1alpha1.DriveStatus, _ plan.Observed) {
					if st.Plays[0].Phase == phase {
						cancel()
					}
				},
			}, nil)
			if err == nil {
				t.Error("the drive came to an end")
			}
		})
	}
	t.Run("nothing", func(t *testing.T) { newPod(t, `plays: [{name: a, image: shell}]`, nil) })
	t.Run("twice", func(t *testing.T) {
		p := newPod(t, `plays: [{name: a, image: shell}]`, nil)
		p.run(nil)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Apply(t.Context(), plan.Pod{}); err == nil {
			t.Error("a closed pod takes wishes")
		}
	})
}

// TestManyLayers: an image has more layers than fit a mount's options.
func TestManyLayers(t *testing.T) {
	dir := t.TempDir()
	var layers []string
	for i := range 60 {
		layer := filepath.Join(dir, strings.Repeat("x", 100)+strconv.Itoa(i))
		if err := os.MkdirAll(layer, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(layer, fmt.Sprintf("layer%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	p := newPod(t, `plays: [{name: a, image: deep, script: 'ls / | grep -c ^layer'}]`, func(c *Config) {
		base := c.Images.(shelf)["none"]
		c.Images.(shelf)["deep"] = &image.Image{Config: base.Config, Layers: append(layers, base.Layers...)}
	})
	if s := p.run(nil); s.Phase != v1alpha1.DriveSucceeded {
		t.Fatalf("the drive is %s: %s", s.Phase, s.Message)
	}
	if got := p.log("a.1"); got != "60\n" {
		t.Errorf("the play saw %s layers", got)
	}
}

// TestForgedControlFiles: what a play forges in the control directory harms nobody but the drive's own outcome: links
// are not followed, nonsense is passed over (CASES.md 27).
func TestForgedControlFiles(t *testing.T) {
	p := newPod(t, `
plays:
- name: a
  image: shell
  script: |
    cd "$(dirname "$NOHUDDLE_OUTPUT")"
    ln -s /etc/passwd result-forged.1
    ln -s /etc/passwd log-link.1
    mkfifo log-pipe.1
    echo nonsense > .x && mv .x result-b.9
    echo '{"token":"z.1","exitCode":999}' > .x && mv .x result-z.1
    head -c 2000000 /dev/zero > .x && mv .x claim-huge.1
- {name: b, image: shell, command: [echo, fine]}
`, nil)
	if s := p.run(nil); s.Phase != v1alpha1.DriveSucceeded {
		t.Fatalf("the drive is %s: %s", s.Phase, s.Message)
	}
	for _, token := range []string{"link.1", "pipe.1", "../../etc/passwd"} {
		if f, err := p.Log(token); err == nil {
			f.Close()
			t.Errorf("the log of %s was opened", token)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	logs, err := os.ReadDir(filepath.Join(p.cfg.Dir, "logs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if l.Type()&fs.ModeType != 0 {
			t.Errorf("%s was kept, a %s", l.Name(), l.Type())
		}
	}
}
