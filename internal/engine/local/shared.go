package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shmSize is the size of /dev/shm, as containerd makes it.
const shmSize = "64m"

// mountShared mounts the pod's /dev/shm, its scratch where that is in memory, and a small file system in memory for
// bundles and the runtime's state: a disk would spend more time on their many files than on the plays'.
func (e *Engine) mountShared() error {
	// Without cgroups, what a killed engine has left is found by the runtime's state: that must be on the disk.
	if !e.rootless {
		if err := unix.Mount("run", e.path("run"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64m"); err != nil {
			return fmt.Errorf("mount a file system in memory: %w: run as root", err)
		}
	}
	if err := unix.Mount("shm", e.path("shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size="+shmSize); err != nil {
		return fmt.Errorf("mount the pod's /dev/shm: %w: run as root", err)
	}
	if err := e.hideUnified(); err != nil {
		return err
	}
	if !e.scratchInMemory() {
		return nil
	}
	opts := "mode=0777"
	if limit := e.cfg.Scratch.SizeLimit; limit != nil {
		opts += fmt.Sprintf(",size=%d", limit.Value())
	}
	if err := unix.Mount("scratch", e.scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("mount the scratch in memory: %w", err)
	}
	return nil
}

// hideUnified hides the v2 hierarchy that systemd keeps beside those of cgroup v1, in the pod's mount namespace alone.
// It controls nothing, and crun refuses to work where it sees it.
func (e *Engine) hideUnified() error {
	const dir = cgroupMount + "/unified"
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); errors.Is(err, unix.ENOENT) || err == nil && fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if e.rootless { // what root has mounted, only root can unmount
		err = unix.Mount("none", dir, "tmpfs", 0, "")
	}
	if err != nil {
		return fmt.Errorf("hide %s from the runtime: %w", dir, err)
	}
	return nil
}

func (e *Engine) scratchInMemory() bool {
	return e.cfg.Scratch.Medium == corev1.StorageMediumMemory && e.cfg.ScratchDir == ""
}

// writeEtc writes the files that a pod's containers share in /etc.
func (e *Engine) writeEtc() error {
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t" + e.hostname() + "\n"
	resolv := []byte("# The pod has a network of its own, without name servers.\n")
	if e.cfg.HostNetwork {
		if b, err := os.ReadFile("/etc/hosts"); err == nil {
			hosts = string(b)
		}
		if b, err := os.ReadFile("/etc/resolv.conf"); err == nil {
			resolv = b
		}
	}
	for name, content := range map[string][]byte{
		"hosts": []byte(hosts), "hostname": []byte(e.hostname() + "\n"), "resolv.conf": resolv,
	} {
		if err := os.WriteFile(e.path("etc", name), content, 0o644); err != nil {
			return fmt.Errorf("write the pod's /etc/%s: %w", name, err)
		}
	}
	return nil
}

// scratchInterval is the pause between two looks at the size of the scratch.
const scratchInterval = time.Second

// guardScratch loses the pod when the scratch holds more than it may, as a kubelet evicts it then.
func (e *Engine) guardScratch(limit *resource.Quantity) {
	tick := time.NewTicker(scratchInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		if used := diskUsage(e.scratch); used > limit.Value() {
			e.lose("Evicted", fmt.Sprintf("the scratch volume holds %s, its sizeLimit is %s: raise scratch.sizeLimit, or have the plays remove what they don't need any more",
				resource.NewQuantity(used, resource.BinarySI), limit))
			return
		}
	}
}

// diskUsage is what a tree takes on the disk, in bytes.
func diskUsage(dir string) int64 {
	var total int64
	// Files come and go meanwhile: what can't be looked at counts as nothing.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				if st, ok := info.Sys().(*syscall.Stat_t); ok {
					total += st.Blocks * 512
				}
			}
		}
		return nil
	})
	return total
}
