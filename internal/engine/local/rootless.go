package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/userns"
)

// Rootless says whether this process is root in a user namespace only: all files belong to one user, and nobody counts
// or limits what containers take.
func Rootless() bool { return userns.RunningInUserNS() }

// BecomeRoot does nothing for root. For another user it runs the program again, as root of a user namespace, and hands
// signals on to it; again says that it has, and code how that ended. The error is one sentence that says what this
// machine lacks.
func BecomeRoot() (code int, again bool, err error) {
	if os.Geteuid() == 0 {
		return 0, false, nil
	}
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err == nil && strings.TrimSpace(string(b)) == "0" {
		return 0, false, errors.New("containers need root or user namespaces, and this machine allows none (user.max_user_namespaces is 0): run as root, or raise it with sysctl")
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, false, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(exe)
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Setpgid:     true, // signals of the terminal come here, once, and are handed on
		Pdeathsig:   syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	runtime.LockOSThread() // the death signal is about the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, false, fmt.Errorf("containers need root or user namespaces, and this machine refuses user %s one: %w: run as root, or allow them (kernel.apparmor_restrict_unprivileged_userns, kernel.unprivileged_userns_clone)",
			strconv.Itoa(os.Getuid()), err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case sig := <-signals:
				_ = cmd.Process.Signal(sig)
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		if exited.ExitCode() < 0 {
			return 1, true, nil
		}
		return exited.ExitCode(), true, nil
	}
	return 0, true, err
}
