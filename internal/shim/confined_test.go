package shim_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// CASES.md 17, 32: a shim without root runs commands and scripts, parks and goes on.
func TestNonRootUser(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{user: 12345, env: []string{protocol.EnvSecretPrefix + "token=s3cr3t"}})
	a := sh("command", `echo "$(id -u) $TOKEN" > command; exit 3`)
	a.Env = []protocol.EnvVar{{Name: "TOKEN", Secret: "token"}}
	want(t, p.run("one", a), 3, "", "")
	if got := p.read("command"); got != "12345 s3cr3t\n" {
		t.Errorf("the play saw %q", got)
	}
	want(t, p.run("one", protocol.Assignment{Token: "script.1", Script: "id -u; exit 4"}), 4, "", "")
	r.parked("script.1")
	want(t, p.run("one", sh("again", "id -u; exit 5")), 5, "", "")
	must(t, os.WriteFile(filepath.Join(p.work, "private"), []byte("#!/bin/sh\n"), 0o700))
	want(t, p.run("one", protocol.Assignment{Token: "private.1", Argv: []string{p.work + "/private"}}), 126, "",
		"is not executable for the user 12345: its mode is -rwx------")
	r.parked("private.1")
	r.signal(syscall.SIGTERM)
	r.exits(143)
}

// The slots of a pod may be of several users, and a slot of one after the other.
func TestUsersFollowOneAnother(t *testing.T) {
	p := newPod(t)
	root := p.start("one", container{})
	want(t, p.run("one", sh("roots", "exit 1")), 1, "", "")
	root.kill()
	user := p.start("one", container{user: 12345})
	a := sh("users", "touch running; sleep 1000")
	p.assign("one", a)
	p.appears("running")
	user.kill()
	// The attempt of another user is ended as any other.
	other := p.start("one", container{user: 23456})
	want(t, p.result(a.Token), 137, protocol.Interrupted, "container died")
	want(t, p.run("one", sh("others", "exit 2")), 2, "", "")
	other.kill()
}

// CASES.md 32: the image's root file system is read-only.
func TestReadOnlyRoot(t *testing.T) {
	p := newPod(t)
	r := p.start("one", container{
		before: "mount --bind " + p.ctl + " " + p.ctl + " && mount -o remount,bind,ro /",
	})
	want(t, p.run("one", sh("play", `touch x; echo "made=$?" >> "$NOHUDDLE_OUTPUT"; exit 3`)), 3, "", "")
	result := p.run("one", protocol.Assignment{Token: "script.1", Script: `touch x || echo made=no >> "$NOHUDDLE_OUTPUT"`})
	want(t, result, 0, "", "")
	if result.Outputs["made"] != "no" {
		t.Error("the root is not read-only")
	}
	r.parked("script.1")
	a := sh("directory", "exit 0")
	a.WorkingDir = "/made/for/this"
	want(t, p.run("one", a), 126, "", "the working directory /made/for/this can't be made: read-only file system")
}

// small puts a file system of a few pages in the place of the control directory.
func (p *pod) small(pages int) {
	p.t.Helper()
	must(p.t, unix.Mount("tmpfs", p.ctl, "tmpfs", 0, fmt.Sprintf("size=%d,mode=777", pages*os.Getpagesize())))
	p.t.Cleanup(func() { must(p.t, unix.Unmount(p.ctl, unix.MNT_DETACH)) })
}

// fill leaves a number of pages free.
func (p *pod) fill(free int) {
	p.t.Helper()
	f, err := os.Create(filepath.Join(p.ctl, "fill"))
	must(p.t, err)
	defer f.Close()
	page := make([]byte, os.Getpagesize())
	n := 0
	for ; err == nil; n++ {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		p.t.Fatal(err)
	}
	must(p.t, f.Truncate(int64((n-1-free)*len(page))))
}

// A disk that fills up while a play runs can't lose how it ended.
func TestDiskFillsUp(t *testing.T) {
	p := newPod(t)
	p.small(64)
	r := p.start("one", container{})
	p.assign("one", sh("play", "cat /dev/zero > "+p.ctl+"/fill 2>/dev/null; exit 3"))
	want(t, p.result("play.1"), 3, "", "")
	// It can't say any more that it is parked.
	r.exits(protocol.ExitControl)
	oneSentence(t, r, "the state of the slot can't be written", "no space left on device")
	// And once there is room again it goes on.
	must(t, os.Remove(filepath.Join(p.ctl, "fill")))
	p.start("one", container{})
	want(t, p.run("one", sh("next", "exit 4")), 4, "", "")
}

func oneSentence(t *testing.T, r *running, parts ...string) {
	t.Helper()
	text := r.errors()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("stderr is not one sentence: %q", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing from %q", part, text)
		}
	}
}

// The room that is kept is enough for the end itself; outputs that don't fit are given up, and that is no success.
func TestDiskFillsUpWithOutputs(t *testing.T) {
	for _, code := range []int{0, 9} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			p := newPod(t)
			p.small(64)
			p.start("one", container{})
			p.assign("one", sh("play", fmt.Sprintf(
				`printf a= > "$NOHUDDLE_OUTPUT"; head -c 20000 /dev/zero | tr '\0' x >> "$NOHUDDLE_OUTPUT"; cat /dev/zero > %s/fill 2>/dev/null; exit %d`, p.ctl, code)))
			r := p.result("play.1")
			if code == 0 {
				want(t, r, 0, protocol.BadOutput, "the outputs could not be kept: ")
			} else {
				want(t, r, code, "", "")
			}
			if len(r.Outputs) != 0 {
				t.Error("it has outputs")
			}
		})
	}
}

// With whatever room is left, an attempt is claimed and has an end, or is not claimed at all.
func TestClaimOnFullDisk(t *testing.T) {
	refused := 0
	for free := range 8 {
		p := newPod(t)
		p.small(32)
		p.fill(free)
		a := p.next(sh("play", "exit 3"))
		r := p.start("one", container{first: &a})
		await(t, "an end", func() bool {
			select {
			case <-r.ended:
				return true
			default:
				return p.has(protocol.ResultFile(a.Token))
			}
		})
		if p.claimed(a.Token) {
			want(t, p.result(a.Token), 3, "", "")
			continue
		}
		refused++
		r.exits(protocol.ExitControl)
		oneSentence(t, r, "play.1 can't be claimed: ", "no space left on device")
		if left, _ := filepath.Glob(filepath.Join(p.ctl, ".tmp-*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if refused == 0 || refused == 8 {
		t.Errorf("%d of 8 were refused", refused)
	}
}

func TestReadOnlyControlDirectory(t *testing.T) {
	p := newPod(t)
	a := p.next(sh("play", "exit 3"))
	r := p.start("one", container{
		first: &a, before: "mount --bind " + p.ctl + " " + p.ctl + " && mount -o remount,bind,ro " + p.ctl,
	})
	r.exits(protocol.ExitControl)
	oneSentence(t, r, "play.1 can't be claimed: ", "read-only file system")
}

// CASES.md 20: what the kernel kills for want of memory is told from what somebody else kills.
func TestOutOfMemory(t *testing.T) {
	group, mount := memoryGroup(t, 64<<20)
	hog := `perl -e '$x = "x" x 200_000_000; sleep 1000'`
	for name, text := range map[string]string{"the play itself": "exec " + hog, "a child of it": hog + "; exit $?"} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t)
			p.start("one", container{before: "echo $$ > " + group + "/cgroup.procs && mount --bind " + group + " " + mount})
			r := p.run("one", sh("play", text))
			want(t, r, 137, protocol.OOMKilled, "out of memory")
			if r.PeakMemory < 32<<20 || r.PeakMemory > 64<<20 {
				t.Errorf("the peak is %d bytes", r.PeakMemory)
			}
			want(t, p.run("one", sh("killed", "kill -9 $$")), 137, "", "")
		})
	}
}

// memoryGroup makes a cgroup with a memory limit, and says where a container would see it.
func memoryGroup(t *testing.T, limit int) (group, mount string) {
	t.Helper()
	name := fmt.Sprintf("nohuddle-shim-test-%d", os.Getpid())
	group, mount, file := "/sys/fs/cgroup/memory/"+name, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group, mount, file = "/sys/fs/cgroup/"+name, "/sys/fs/cgroup", "memory.max"
	}
	must(t, os.Mkdir(group, 0o755))
	t.Cleanup(func() {
		await(t, "the cgroup being empty", func() bool {
			err := os.Remove(group)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	})
	must(t, os.WriteFile(filepath.Join(group, file), []byte(fmt.Sprint(limit)), 0o644))
	return group, mount
}
