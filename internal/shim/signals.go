package shim

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// catch catches every signal that can be caught and means something to a play.
func catch() chan os.Signal {
	c := make(chan os.Signal, 64)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM)
	// Output goes to pipes whose readers may be gone; that must not kill the shim. Caught, not ignored: an ignored
	// signal would stay ignored in every play.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c
}

// reapAll collects whatever has ended. The shim is the one owner of wait(2) in its process.
func reapAll() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}
