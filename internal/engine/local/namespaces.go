package local

import (
	"errors"
	"fmt"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// namespaces are what the pod's containers share, and the mount namespace that the pod's mounts are made in. Nothing but
// this process's open files holds them between two containers, so all of it is gone when the process is, however it ends.
type namespaces struct {
	files  map[specs.LinuxNamespaceType]*os.File
	mounts *os.File
}

// newNamespaces makes them, the network's loopback up and the host name set.
func newNamespaces(hostname string, hostNetwork bool) (ns *namespaces, err error) {
	err = onThread(func() error {
		ns, err = unshareThread(hostname, hostNetwork)
		return err
	})
	return ns, err
}

func unshareThread(hostname string, hostNetwork bool) (*namespaces, error) {
	flags := unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNS
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
	// Mounts made elsewhere still appear here, ours don't appear there.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return nil, fmt.Errorf("keep the pod's mounts apart: %w", err)
	}
	ns := &namespaces{files: map[specs.LinuxNamespaceType]*os.File{}}
	var err error
	if ns.mounts, err = os.Open("/proc/thread-self/ns/mnt"); err != nil {
		return nil, fmt.Errorf("hold the pod's namespaces: %w", err)
	}
	for kind, name := range kinds {
		f, err := os.Open("/proc/thread-self/ns/" + name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hold the pod's namespaces: %w", err), ns.close())
		}
		ns.files[kind] = f
	}
	return ns, nil
}

// inside runs f where the pod's mounts are. Processes that f starts are there, too.
func (n *namespaces) inside(f func() error) error {
	return onThread(func() error {
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(int(n.mounts.Fd()), unix.CLONE_NEWNS)
		}
		if err != nil {
			return fmt.Errorf("enter the pod's mount namespace: %w", err)
		}
		return f()
	})
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
	errs := []error{n.mounts.Close()}
	for _, f := range n.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
