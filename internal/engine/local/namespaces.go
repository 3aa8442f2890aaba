package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// namespaces are what the pod's containers share. Nothing but this process's open files holds them between two
// containers, so they are gone when the process is.
type namespaces struct {
	files map[specs.LinuxNamespaceType]*os.File
}

// newNamespaces makes them, the network's loopback up and the host name set.
func newNamespaces(hostname string, hostNetwork bool) (*namespaces, error) {
	type made struct {
		ns  *namespaces
		err error
	}
	done := make(chan made)
	go func() {
		// The thread's namespaces are changed for good: it is not unlocked and so ends with the goroutine.
		runtime.LockOSThread()
		ns, err := unshareThread(hostname, hostNetwork)
		done <- made{ns, err}
	}()
	m := <-done
	return m.ns, m.err
}

func unshareThread(hostname string, hostNetwork bool) (*namespaces, error) {
	flags := unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	kinds := map[specs.LinuxNamespaceType]string{specs.IPCNamespace: "ipc", specs.UTSNamespace: "uts"}
	if !hostNetwork {
		flags |= unix.CLONE_NEWNET
		kinds[specs.NetworkNamespace] = "net"
	}
	if err := unix.Unshare(flags); err != nil {
		return nil, fmt.Errorf("make the pod's namespaces: %w: run as root, or where user namespaces are allowed", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return nil, fmt.Errorf("set the pod's host name: %w", err)
	}
	if !hostNetwork {
		if err := loopbackUp(); err != nil {
			return nil, fmt.Errorf("bring the pod's loopback up: %w", err)
		}
	}
	ns := &namespaces{files: map[specs.LinuxNamespaceType]*os.File{}}
	for kind, name := range kinds {
		f, err := os.Open("/proc/thread-self/ns/" + name)
		if err != nil {
			ns.close()
			return nil, fmt.Errorf("hold the pod's namespaces: %w", err)
		}
		ns.files[kind] = f
	}
	return ns, nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// list is the namespaces as a container's spec names them, with a pid and mount namespace of its own.
func (n *namespaces) list() []specs.LinuxNamespace {
	out := []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}}
	for kind, f := range n.files {
		out = append(out, specs.LinuxNamespace{Type: kind, Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())})
	}
	return out
}

func (n *namespaces) close() error {
	if n == nil {
		return nil
	}
	var errs []error
	for _, f := range n.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
