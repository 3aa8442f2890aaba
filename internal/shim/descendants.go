package shim

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// killDescendants kills what a play has left running, and waits for it. Orphans become children of the shim, so killing
// children until there are none reaches all of them; what was executed in the container from outside has no parent here
// and is left alone.
func killDescendants(deadline time.Time) {
	for time.Now().Before(deadline) {
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err == unix.ECHILD {
			return // mostly so, and much faster than to look through /proc
		}
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for _, pid := range children {
			waitFor(pid, deadline)
		}
	}
}

// waitFor reaps one child that has been killed.
func waitFor(pid int, deadline time.Time) {
	for time.Now().Before(deadline) {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if got == pid || err != nil && err != unix.EINTR {
			return
		}
		// A killed process takes a moment to end; pidfds are younger than some kernels that we run on.
		time.Sleep(time.Millisecond)
	}
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var out []int
	for _, name := range names {
		child, err := strconv.Atoi(name)
		if err != nil || child == pid {
			continue
		}
		if parentOf(name) == pid {
			out = append(out, child)
		}
	}
	return out
}

// parentOf reads the parent of a process from its stat, whose second field, in brackets, may hold anything.
func parentOf(pid string) int {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return -1
	}
	b = b[bytes.LastIndexByte(b, ')')+1:]
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return -1
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}
