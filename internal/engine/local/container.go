package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// container is one container of a slot.
type container struct {
	engine *Engine
	id     string
	bundle string // in memory
	disk   string // what the container writes
	cgroup cgroup
	image  *image.Image
	swap   int64
	seq    int64 // of the assignment that it was given last
	born   time.Time
	heard  bool   // whether its shim has said something has been looked at
	mute   bool   // it was killed because its shim hadn't
	token  string // of its first assignment
	spec   *specs.Spec

	pidfd  int
	exited chan struct{} // closed when status and oom are set
	status unix.WaitStatus
	oom    bool
	stderr *tail
}

// start makes a fresh container with the assignment of want. n is how many the slot has had with it, which tells those of one swap apart.
func (e *Engine) start(ctx context.Context, want plan.Slot, n int, img *image.Image) (*container, error) {
	name := want.Name + "." + strconv.FormatInt(want.Swap, 10) + "." + strconv.Itoa(n)
	c := &container{
		engine: e, id: e.cfg.Drive + "." + name, bundle: e.path("run", "bundles", name), disk: e.path("slots", name), cgroup: e.cgroup.child(name),
		image: img, swap: want.Swap, seq: want.Assignment.Seq, token: want.Assignment.Token, born: time.Now(),
		exited: make(chan struct{}), stderr: &tail{},
	}
	err := e.pod.inside(func() error {
		if err := c.make(want); err != nil {
			return err
		}
		return c.run(ctx)
	})
	if err != nil {
		close(c.exited)
		c.delete()
		return nil, err
	}
	return c, nil
}

// make writes the bundle and mounts its root.
func (c *container) make(want plan.Slot) error {
	if err := os.MkdirAll(c.bundle, 0o755); err != nil {
		return fmt.Errorf("make the container's folder: %w", err)
	}
	root, err := c.mountRoot()
	if err != nil {
		return err
	}
	if c.spec, err = c.engine.spec(want, c.image, root, c.cgroup); err != nil {
		return err
	}
	b, err := json.Marshal(c.spec)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.bundle, "config.json"), b, 0o600) // secrets are in it
}

func (c *container) run(ctx context.Context) error {
	// The plays' output is in their logs; of the container's own only the end is kept, for when the shim itself fails.
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	pid, err := c.engine.runtime.run(ctx, c.id, c.bundle, null, w)
	w.Close()
	if err != nil {
		r.Close()
		return err
	}
	go func() {
		_, _ = io.Copy(c.stderr, r)
		r.Close()
	}()
	if c.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		return fmt.Errorf("hold the container's first process: %w", err)
	}
	go c.wait(pid)
	return nil
}

// wait returns when the container's first process has ended. Only then it is sure to be a child of this process: crun
// leaves it to a child of its own for a moment.
func (c *container) wait(pid int) {
	fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			break
		}
	}
	for {
		if _, err := unix.Wait4(pid, &c.status, 0, nil); err != unix.EINTR {
			break
		}
	}
	c.oom = shim.OOMKills(string(c.cgroup)) > 0
	close(c.exited)
}

func (c *container) gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

func (c *container) signal(sig unix.Signal) {
	if !c.gone() {
		_ = unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
	}
}

// destroy kills and removes the container. A shim that is parked has nothing to lose by it.
func (c *container) destroy() {
	c.signal(unix.SIGKILL)
	<-c.exited
	c.delete()
}

// delete removes all that is left of a container whose process has ended or never was. What can't be removed, Remove
// finds again.
func (c *container) delete() {
	if c.pidfd > 0 {
		_ = unix.Close(c.pidfd)
		c.pidfd = 0
	}
	_ = c.cgroup.remove()
	_ = c.engine.pod.inside(func() error {
		_ = unix.Unmount(filepath.Join(c.bundle, "root"), unix.MNT_DETACH)
		_ = os.RemoveAll(filepath.Join(c.engine.runtime.root, c.id))
		_ = os.RemoveAll(c.bundle)
		return os.RemoveAll(c.disk)
	})
}

// assign gives the running container its next assignment.
func (c *container) assign(slot string, a protocol.Assignment) error {
	if err := c.engine.ctl.assign(slot, a); err != nil {
		return fmt.Errorf("hand an assignment to slot %s: %w", slot, err)
	}
	c.seq = a.Seq
	return nil
}

// obituary says how the container ended.
func (c *container) obituary() string {
	if c.mute {
		return "the container was killed, because its shim had said nothing for " + silence.String()
	}
	how := "ended with code " + strconv.Itoa(c.status.ExitStatus())
	if c.status.Signaled() {
		how = "was killed by " + unix.SignalName(c.status.Signal())
	}
	if c.oom {
		how += ", because it was out of memory"
	}
	if last := c.stderr.last(); last != "" && !c.status.Signaled() {
		how += ": " + last
	}
	return "the container " + how
}

// mountRoot mounts the image under a fresh directory for what the container writes.
func (c *container) mountRoot() (string, error) {
	root := filepath.Join(c.bundle, "root")
	upper, work := filepath.Join(c.disk, "upper"), filepath.Join(c.disk, "work")
	for _, d := range []string{root, c.disk, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", fmt.Errorf("make the container's root: %w", err)
		}
	}
	lower := make([]string, 0, len(c.image.Layers)+1)
	for i := len(c.image.Layers) - 1; i >= 0; i-- { // overlayfs wants the top first
		lower = append(lower, c.image.Layers[i])
	}
	if len(lower) == 0 {
		none := filepath.Join(c.bundle, "none")
		if err := os.Mkdir(none, 0o755); err != nil {
			return "", fmt.Errorf("make the container's root: %w", err)
		}
		lower = append(lower, none)
	}
	if err := mountOverlay(root, lower, upper, work, c.image.UserXattr); err != nil {
		return "", fmt.Errorf("mount image %s: %w", c.image.Ref, err)
	}
	return root, nil
}

// mountOverlay hands over one layer at a time: together their paths would not fit the page that mount(2) takes.
func mountOverlay(target string, lower []string, upper, work string, userXattr bool) error {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	set := func(key, val string) {
		if err == nil {
			err = unix.FsconfigSetString(fs, key, val)
		}
	}
	if unix.FsconfigSetString(fs, "lowerdir+", lower[0]) == nil {
		for _, l := range lower[1:] {
			set("lowerdir+", l)
		}
	} else { // before Linux 6.7
		set("lowerdir", strings.Join(lower, ":"))
	}
	set("upperdir", upper)
	set("workdir", work)
	if err == nil {
		err = unix.FsconfigSetFlag(fs, "volatile") // nobody reads it after a crash: nothing is synced at the end
	}
	if userXattr && err == nil {
		err = unix.FsconfigSetFlag(fs, "userxattr")
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return fmt.Errorf("overlayfs: %w%s", err, kernelLog(fs))
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mnt)
	return unix.MoveMount(mnt, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// kernelLog is what the kernel says about a failed mount.
func kernelLog(fs int) string {
	buf := make([]byte, 1024)
	n, err := unix.Read(fs, buf)
	if err != nil || n <= 0 {
		return ""
	}
	return ": " + strings.TrimSpace(strings.TrimPrefix(string(buf[:n]), "e "))
}
