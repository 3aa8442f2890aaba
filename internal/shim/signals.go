package shim

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signals are what the shim is told. Each kind has a channel of its own, because package signal drops what a full
// channel has no room for: neither a thousand children that die at once nor a flood of SIGUSR1 may hide a SIGTERM.
type signals struct {
	end   chan os.Signal // SIGTERM and SIGINT
	child chan os.Signal
	other chan os.Signal // what a play may want to know
}

// catch catches every signal that can be caught and means something to a play.
func catch() signals {
	heed()
	s := signals{end: make(chan os.Signal, 1), child: make(chan os.Signal, 1), other: make(chan os.Signal, 16)}
	signal.Notify(s.end, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(s.child, syscall.SIGCHLD)
	signal.Notify(s.other, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM)
	// Output goes to pipes whose readers may be gone; that must not kill the shim. Caught, not ignored: an ignored
	// signal would stay ignored in every play.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return s
}

// heed gives their default back to signals that were ignored by whoever started the container's runtime, as make does
// with two that are glibc's own: plays would inherit it.
func heed() {
	const (
		last       = 64 // _NSIG
		ignored    = 1  // SIG_IGN
		sigsetSize = 8  // of the kernel's sigset_t, in bytes
	)
	for sig := uintptr(1); sig <= last; sig++ {
		var old, byDefault struct{ handler, flags, restorer, mask uintptr }
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&old)), sigsetSize, 0, 0)
		if errno == 0 && old.handler == ignored {
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), 0, sigsetSize, 0, 0)
		}
	}
}

// told says whether the shim has been told to end.
func (s signals) told() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

// forget drops what came for a play that is no more.
func (s signals) forget() {
	for len(s.other) > 0 {
		<-s.other
	}
}

// settle returns when what was caught before has come to its channel. Package signal passes signals on in the order of
// their numbers, and SIGCHLD's is higher than SIGTERM's.
func (s signals) settle() {
	select {
	case <-s.child:
	default:
	}
	if syscall.Kill(os.Getpid(), syscall.SIGCHLD) == nil {
		<-s.child
		reapAll()
	}
}

// reapAll collects whatever has ended. The shim is the one owner of wait(2) in its process.
func reapAll() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && err != unix.EINTR {
			return
		}
	}
}
