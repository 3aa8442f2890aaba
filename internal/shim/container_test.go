package shim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// container says how a slot's shim is started: in PID and mount namespaces of its own, as its first process.
type container struct {
	env []string
	// first is the assignment in the container's environment.
	first *protocol.Assignment
	// before is shell text that root executes in the namespaces, before the shim takes its place.
	before string
	// user runs the shim; 0 is root.
	user int
	// stdout is a file in the test's directory unless it is set.
	stdout *os.File
	// without the namespaces, as in a pod whose containers share one PID namespace.
	shared bool
}

// running is a shim that has been started.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout string
	stderr string
	ended  chan struct{}
}

func (p *pod) start(slot string, c container) *running {
	p.t.Helper()
	dir := p.t.TempDir()
	r := &running{t: p.t, stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr"), ended: make(chan struct{})}
	argv := []string{binary(p.t)}
	if c.user != 0 {
		id := strconv.Itoa(c.user)
		argv = append([]string{"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"}, argv...)
	}
	attr := &syscall.SysProcAttr{}
	if !c.shared {
		text := "mount --make-rprivate / && mount -t proc proc /proc && "
		if c.before != "" {
			text += c.before + " && "
		}
		argv = append([]string{"/bin/sh", "-c", text + `exec "$@"`, "sh"}, argv...)
		attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	}
	r.cmd = exec.Command(argv[0], argv[1:]...)
	r.cmd.SysProcAttr = attr
	r.cmd.Dir = p.work
	r.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), protocol.EnvSlot + "=" + slot, protocol.EnvSwap + "=7", protocol.EnvControl + "=" + p.ctl,
	}, c.env...)
	if c.first != nil {
		r.cmd.Env = append(r.cmd.Env, protocol.EnvAssignment+"="+string(encode(p.t, c.first)))
	}
	r.cmd.Stderr = create(p.t, r.stderr)
	if r.cmd.Stdout = c.stdout; c.stdout == nil {
		r.cmd.Stdout = create(p.t, r.stdout)
	}
	must(p.t, r.cmd.Start())
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("stderr of %s:\n%.4000s", slot, r.errors())
		}
		r.kill()
	})
	return r
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func (r *running) pid() int { return r.cmd.Process.Pid }

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(s))
}

// kill ends the container as a node's out-of-memory killer would; in a PID namespace nothing of it is left.
func (r *running) kill() {
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
	<-r.ended
}

// exit waits for the shim's end and returns its exit code as a container runtime would.
func (r *running) exit() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("waited %s for the shim's end", patience)
	}
	if s := r.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal())
	}
	return r.cmd.ProcessState.ExitCode()
}

// exits checks the shim's exit code.
func (r *running) exits(code int) {
	r.t.Helper()
	if got := r.exit(); got != code {
		r.t.Fatalf("the shim ended with %d, want %d; stderr: %s", got, code, r.errors())
	}
}

func (r *running) output() string { return slurp(r.t, r.stdout) }
func (r *running) errors() string { return slurp(r.t, r.stderr) }

func slurp(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// process is a process of the machine, as /proc has it.
type process struct {
	pid, parent int
	state       string
}

// parked waits until the shim has executed itself again, because it has had nothing to do after an attempt for a while.
func (r *running) parked(token string) {
	r.t.Helper()
	await(r.t, "the shim being parked after "+token, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.pid()))
		return strings.Contains(string(b), "\x00park\x00") && strings.HasSuffix(string(b), "\x00"+token+"\x00") && r.polls()
	})
}

// polls says whether the shim has got as far as to wait for something; it has its signal handlers before.
func (r *running) polls() bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.pid()))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return to == "anon_inode:[eventpoll]"
	})
}

// children lists the shim's children, zombies too.
func (r *running) children() []process {
	r.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(r.t, err)
	var out []process
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var c process
		line := string(b)
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ')')+1:], &c.state, &c.parent); err != nil {
			r.t.Fatal(err)
		}
		c.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		must(r.t, err)
		if c.parent == r.pid() {
			out = append(out, c)
		}
	}
	return out
}

// child waits for the one process that the shim has started.
func (r *running) child() process {
	r.t.Helper()
	var all []process
	await(r.t, "the shim's only child", func() bool {
		all = slices.DeleteFunc(r.children(), func(c process) bool { return c.state == "Z" })
		return len(all) == 1
	})
	return all[0]
}
