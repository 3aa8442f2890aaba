package shim

import (
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// relayArg marks the image of the shim that executes a play's command in its place. A shim that has been parked was
// started with SIGTERM blocked, and the runtime hands that on to every process it starts: the relay unblocks it.
const relayArg = "relay"

// relayError is the descriptor on which a relay tells why the command could not be executed; nothing if it could.
const relayError = 3

// relay executes what the arguments after relayArg say: the program's path, then its argv.
func relay(args []string) int {
	runtime.LockOSThread()
	set := termSet()
	err := unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	if err == nil {
		unix.CloseOnExec(relayError)
		err = unix.Exec(args[0], args[1:], os.Environ())
	}
	errno, ok := err.(unix.Errno) //nolint:errorlint // the kernel's own
	if !ok {
		errno = unix.EINVAL
	}
	_, _ = unix.Write(relayError, strconv.AppendInt(nil, int64(errno), 10))
	return protocol.ExitConfig
}

// relayed starts the command through a relay.
func (c *command) relayed(attr *syscall.ProcAttr) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	attr.Files = append(attr.Files, w.Fd())
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{os.Args[0], relayArg, c.path}, c.argv...), attr)
	w.Close()
	if err != nil {
		return 0, err
	}
	var buf [8]byte
	n, _ := r.Read(buf[:])
	if n == 0 {
		return pid, nil
	}
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			break
		}
	}
	errno, _ := strconv.Atoi(string(buf[:n]))
	return 0, unix.Errno(errno)
}
