package e2e

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// one is a playbook of one play.
func one(image, command string) string {
	return "  plays:\n  - {name: a, image: '" + image + "', command: " + command + "}\n"
}

const busybox = "examples.nohuddle.dev/busybox:1.35"

// neverBegan says that a drive could not even start: there is none.
func (p *player) neverBegan(name string) {
	p.t.Helper()
	if _, err := os.Stat(p.dir(name)); !os.IsNotExist(err) {
		p.t.Errorf("there is a folder of drive %s, which never began: %v", name, err)
	}
}

func TestNoRuntime(t *testing.T) {
	p := newPlayer(t)
	p.set("PATH", t.TempDir())
	p.run("run", "examples/hello", "--name", "d").exits(1).says("no OCI runtime is installed (runc or crun is not in PATH): install runc")
	p.run("run", "examples/hello", "--name", "d", "--runtime", "kata").exits(1).says("kata is not in PATH")
	p.neverBegan("d")
}

func TestBrokenRuntime(t *testing.T) {
	p := newPlayer(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte("#!/bin/sh\necho cannot >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.set("PATH", dir+":"+os.Getenv("PATH"))
	if r := p.run("run", "examples/hello", "--name", "d"); r.code != 1 || r.stderr == "" {
		t.Errorf("%s", r)
	} else {
		r.says("runc")
	}
}

func TestNoShim(t *testing.T) {
	p := newPlayer(t)
	p.set("NOHUDDLE_SHIM", "/nowhere/nohuddle-shim")
	p.run("run", "examples/hello", "--name", "d").exits(1).says("nohuddle-shim is not at /nowhere/nohuddle-shim: build it with `make build`, or name its path in NOHUDDLE_SHIM")
	p.neverBegan("d")
}

func TestNameTaken(t *testing.T) {
	p := newPlayer(t)
	c := p.start("run", p.playbook(sleeper), "--name", "d")
	c.sees("sleep | asleep")
	p.run("run", "examples/hello", "--name", "d").exits(2).says("there is a drive d already: choose another --name")
	c.signal(syscall.SIGINT)
	c.wait().exits(130).prints("clean | cleaned up")
}

// CASES.md 9: the drive says which play, image and registry's answer.
func TestImageThatDoesNotExist(t *testing.T) {
	registry := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" && status == http.StatusNotFound {
				return
			}
			w.Header().Set("Www-Authenticate", `Basic realm="test"`)
			w.WriteHeader(status)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	absent, locked := registry(http.StatusNotFound), registry(http.StatusUnauthorized)
	for name, c := range map[string]struct {
		image string
		want  []string
	}{
		"registry answers 404":      {absent + "/team/tool:1", []string{"404", "check the name and the tag"}},
		"registry answers 401":      {locked + "/team/tool:1", []string{"401", "docker login " + locked}},
		"registry is not there":     {"127.0.0.1:1/team/tool:1", []string{"connection refused"}},
		"layout lacks it":           {"oci:" + layout + ":nobody", []string{"holds no image of that name", "examples.nohuddle.dev/busybox:1.35"}},
		"layout is not there":       {"oci:/nowhere", []string{"there is no OCI layout at /nowhere"}},
		"archive is not there":      {"docker-archive:/nowhere.tar", []string{"/nowhere.tar"}},
		"archive is not an archive": {"oci-archive:/etc/passwd", []string{"/etc/passwd"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t)
			p.run("run", p.playbook(one(c.image, "[x]")), "--name", "d", "--view", "none").exits(1).says(
				append(c.want, "drive d: Failed: play a failed: image "+c.image)...)
			d := p.run("get", "d", "-o", "json").exits(0).drive()
			if s := play(t, d, "a"); s.Phase != v1alpha1.PlayFailed || s.Reason != v1alpha1.ReasonImage {
				t.Errorf("the play is %+v", s)
			}
		})
	}
}

func TestCorruptLayer(t *testing.T) {
	p := newPlayer(t)
	dir := filepath.Join(t.TempDir(), "layout")
	img, err := random.Image(1024, 2)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ocilayout.Write(dir, empty.Index)
	if err == nil {
		err = l.AppendImage(img, ocilayout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "example.com/a:1"}))
	}
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex)
	b, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(blob, b, 0o644); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	p.set("XDG_CACHE_HOME", cache)
	p.run("run", p.playbook(one("example.com/a:1", "[x]")), "--images", dir, "--name", "d", "--view", "none").exits(1).says(
		"drive d: Failed: play a failed: image example.com/a:1: ", "build or push the image again")
	err = filepath.WalkDir(cache, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, "layers/") && strings.Contains(path, digest.Hex) {
			t.Errorf("the corrupt layer has been stored: %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLayoutFlagThatIsWrong(t *testing.T) {
	p := newPlayer(t)
	empty := t.TempDir()
	p.run("run", p.playbook(one("example.com/a:1", "[x]")), "--images", empty, "--name", "d", "--view", "none").exits(1).says(empty + " is no OCI layout")
}

// CASES.md 12: the play has nothing to run.
func TestNoCommand(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook("  plays:\n  - {name: a, image: 'examples.nohuddle.dev/bwa:0.7.17', command: [no-such-tool]}\n"), "--name", "d", "--view", "none").
		exits(1).says("drive d: Failed: play a failed: ", "no-such-tool", "127")
}

func TestScratchInMemoryFillsUp(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook("  scratch: {medium: Memory, sizeLimit: 4Mi}\n"+
		one(busybox, "[dd, if=/dev/zero, of=/scratch/f, bs=1M, count=8]")), "--name", "d", "--view", "none").exits(1).says(
		"drive d: Failed: play a failed: exit code 1")
	p.run("logs", "d", "a").exits(0).prints("No space left on device")
}

func TestScratchOnDiskFillsUp(t *testing.T) {
	p := newPlayer(t)
	p.run("run", p.playbook("  scratch: {sizeLimit: 4Mi}\n"+
		one(busybox, "[sh, -c, 'dd if=/dev/zero of=/scratch/f bs=1M count=8; sleep 600']")), "--name", "d", "--view", "none").exits(1).says(
		"drive d: Failed: the pod was lost (Evicted): the scratch volume holds ", "its sizeLimit is 4Mi: raise scratch.sizeLimit")
	if s := play(t, p.run("get", "d", "-o", "json").exits(0).drive(), "a"); s.Phase != v1alpha1.PlayFailed {
		t.Errorf("the play is %+v", s)
	}
}

// CASES.md 20: what is killed for want of memory fails promptly, with the reason.
func TestOutOfMemory(t *testing.T) {
	p := newPlayer(t)
	hungry := "\n    resources: {limits: {memory: 64Mi}}\n    command: "
	for name, command := range map[string]string{
		"the process itself": "[dd, if=/dev/zero, of=/dev/null, bs=200M, count=1]",
		"a child of it":      "[sh, -c, 'dd if=/dev/zero of=/dev/null bs=200M count=1; exit $?']",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer(t)
			p.run("run", p.playbook("  plays:\n  - name: a\n    image: "+busybox+hungry+command+"\n"), "--name", "d", "--view", "none").exits(1).says(
				"drive d: Failed: play a failed: ", "out of memory")
			s := play(t, p.run("get", "d", "-o", "json").exits(0).drive(), "a")
			if s.Reason != v1alpha1.ReasonOOMKilled || s.ExitCode == nil || *s.ExitCode != 137 {
				t.Errorf("the play is %+v", s)
			}
		})
	}
	p.run("run", p.playbook("  plays:\n  - name: a\n    image: "+busybox+hungry+"[dd, if=/dev/zero, of=/dev/null, bs=20M, count=1]\n"), "--name", "d").exits(0)
}

// A user who may neither mount nor make user namespaces gets one sentence.
func TestNotRoot(t *testing.T) {
	p := newPlayer(t)
	home := t.TempDir()
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir := home; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.set("HOME", home)
	p.set("XDG_STATE_HOME", home)
	p.set("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	playbook := filepath.Join(home, "playbook.yaml")
	if err := os.WriteFile(playbook, []byte("apiVersion: nohuddle.dev/v1alpha1\nkind: Playbook\nspec:\n"+one(busybox, "['true']")), 0o644); err != nil {
		t.Fatal(err)
	}
	// The limit is that of a user namespace, not of the machine.
	cmd := exec.Command("sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`,
		"sh", filepath.Join(bin, "nohuddle"), "run", playbook, "--name", "d")
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	p.startCommand(cmd).wait().exits(1).says("run as root")
	nothingLeft(t, home)
}

// The state folder's file system is full before there is a drive, or gets full while one runs.
func TestFullDisk(t *testing.T) {
	t.Run("from the start", func(t *testing.T) {
		p := newPlayer(t)
		p.full(t, "64k", "4")
		p.run("run", "examples/hello", "--name", "d", "--view", "none").exits(1).says("no space left on device", "free some space")
		p.neverBegan("d")
	})
	t.Run("by the play", func(t *testing.T) {
		p := newPlayer(t)
		p.full(t, "8m", "10k")
		r := p.run("run", p.playbook(one(busybox, "[dd, if=/dev/zero, of=/scratch/f, bs=1M, count=20]")), "--name", "d", "--view", "none").exits(1)
		r.says("drive d: Failed: ", "no space left on device", "free some space there")
	})
}

// full makes the state folder a small file system.
func (p *player) full(t *testing.T, size, inodes string) {
	t.Helper()
	if err := unix.Mount("small", p.state, "tmpfs", 0, "size="+size+",nr_inodes="+inodes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nothingLeft(t, p.state)
		if err := unix.Unmount(p.state, 0); err != nil {
			t.Errorf("the file system is in use: %v", err)
		}
	})
}
