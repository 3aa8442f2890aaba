package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inheritImplied gives the directories that the archive has no entry for the owner, mode, times and attributes that they
// have in the layers below. Overlayfs shows a directory as its topmost layer has it: without this an archive that holds
// just tmp/file, as many builders write it, would make /tmp unwritable for all but root.
func (u *unpacker) inheritImplied(dirs directories) error {
	if _, ok := dirs["."]; !ok {
		dirs["."] = false
	}
	var implied []string
	for name, explicit := range dirs {
		if !explicit {
			implied = append(implied, name)
		}
	}
	slices.Sort(implied) // A parent comes before what is in it.
	own := stack{layers: []string{u.root}, userXattr: u.format.UserXattr}
	for _, name := range implied {
		dir, info, err := own.lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			continue // It leads through a symbolic link of this layer, or was replaced later in the archive.
		} else if err != nil {
			return err
		}
		if err := u.inherit(own, name, dir); err != nil {
			return fmt.Errorf("set the attributes of /%s: %w", name, err)
		}
	}
	return nil
}

func (u *unpacker) inherit(own stack, name, dir string) error {
	from, info, err := u.lower.lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !info.IsDir() || hidden(own, name, u.root) {
		return os.Chmod(dir, 0o755) // Whatever our umask is.
	}
	st := info.Sys().(*syscall.Stat_t)
	if !u.format.MapOptions.Rootless {
		if err := os.Lchown(dir, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, info.Mode()); err != nil {
		return err
	}
	if err := copyXattrs(from, dir); err != nil {
		return err
	}
	return os.Chtimes(dir, info.ModTime(), info.ModTime())
}

// hidden says whether an opaque directory of this layer stands above name.
func hidden(own stack, name, root string) bool {
	for name != "." {
		name = path.Dir(name)
		if own.opaque(filepath.Join(root, name)) {
			return true
		}
	}
	return false
}

// copyXattrs copies what an image can hold: not overlayfs's own marks, not the machine's labels.
func copyXattrs(from, to string) error {
	size, err := unix.Llistxattr(from, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return nil
	} else if err != nil {
		return err
	}
	list := make([]byte, size)
	if size, err = unix.Llistxattr(from, list); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:size]), "\x00"), "\x00") {
		if strings.Contains(name, ".overlay.") || name == "security.selinux" || name == "system.nfs4_acl" {
			continue
		}
		value := make([]byte, 64<<10) // The most that the kernel lets an attribute hold.
		n, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}
