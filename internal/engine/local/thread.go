package local

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that ends with it, so that f can change what belongs to its thread for good.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		// The main thread never ends, and stands for the process in /proc. While it is locked, another one is taken.
		done <- onThread(f)
		runtime.UnlockOSThread()
	}()
	return <-done
}
