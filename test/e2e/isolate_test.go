package e2e

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// isolatedEnv marks a process that has been isolated.
const isolatedEnv = "E2E_ISOLATED"

// isolate executes the tests again in a mount namespace of their own.
func isolate() error {
	if os.Getenv(isolatedEnv) != "" {
		return os.Unsetenv(isolatedEnv)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the thread that leaves the namespace is the one that is executed
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Exec(exe, os.Args, append(os.Environ(), isolatedEnv+"=1"))
}
