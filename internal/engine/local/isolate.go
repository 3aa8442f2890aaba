package local

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// isolatedEnv marks a process that has been isolated.
const isolatedEnv = "NOHUDDLE_ISOLATED"

// Isolate gives this process a mount namespace of its own, so that no mount outlives it whatever happens to it. A
// program calls it first of all: it executes itself again in the new namespace, and returns there.
func Isolate() error {
	if os.Getenv(isolatedEnv) != "" {
		return os.Unsetenv(isolatedEnv)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	runtime.LockOSThread() // the thread that leaves the namespace is the one that is executed
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w: run as root", err)
	}
	// Mounts made elsewhere still appear here, ours don't appear there.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts in this process: %w", err)
	}
	if err := unix.Exec(exe, os.Args, append(os.Environ(), isolatedEnv+"=1")); err != nil {
		return fmt.Errorf("execute %s again: %w", exe, err)
	}
	return nil
}
