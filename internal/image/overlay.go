package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stack is unpacked layers, lowest first, seen as overlayfs would show them, without a mount.
type stack struct {
	layers    []string
	userXattr bool
}

// lstat finds what is at name, a clean path without a leading slash ("." is the root), and the file that it is. No
// component but the last may be a symbolic link: fs.ErrNotExist says that there is one, or nothing at all.
func (s stack) lstat(name string) (string, fs.FileInfo, error) {
	for i := len(s.layers) - 1; i >= 0; i-- {
		file, info, below, err := s.in(s.layers[i], name)
		if err != nil || info != nil {
			return file, info, err
		}
		if !below {
			break
		}
	}
	return "", nil, fs.ErrNotExist
}

// in looks for name in one layer; below says whether the layers below it matter where it isn't there.
func (s stack) in(layer, name string) (file string, info fs.FileInfo, below bool, err error) {
	file, below = layer, true
	parts := strings.Split(name, "/")
	if name == "." {
		parts = nil
	}
	if info, err = os.Lstat(file); err != nil {
		return "", nil, false, err
	}
	for i, part := range parts {
		if s.opaque(file) {
			below = false
		}
		file = filepath.Join(file, part)
		info, err = os.Lstat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil, below, nil
		case err != nil:
			return "", nil, false, err
		case whiteout(info):
			return "", nil, false, nil
		case i < len(parts)-1 && !info.IsDir():
			return "", nil, false, nil
		}
	}
	return file, info, below, nil
}

func (s stack) opaque(dir string) bool {
	name := "trusted.overlay.opaque"
	if s.userXattr {
		name = "user.overlay.opaque"
	}
	var value [1]byte
	n, err := unix.Lgetxattr(dir, name, value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

func whiteout(info fs.FileInfo) bool {
	if info.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Rdev == 0
}

// open opens the regular file that name leads to, following symbolic links inside of the image as a process in it would.
func (s stack) open(name string) (*os.File, error) {
	const mostLinks = 40
	todo := strings.Split(path.Clean("/" + name)[1:], "/")
	at := "."
	for links := 0; len(todo) > 0; {
		next := path.Clean(path.Join("/", at, todo[0]))[1:]
		todo = todo[1:]
		if next == "" {
			at = "."
			continue
		}
		file, info, err := s.lstat(next)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: err}
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > mostLinks {
				return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: syscall.ELOOP}
			}
			target, err := os.Readlink(file)
			if err != nil {
				return nil, err
			}
			if path.IsAbs(target) {
				at = "."
			}
			todo = append(strings.Split(strings.Trim(target, "/"), "/"), todo...)
		case len(todo) == 0 && !info.Mode().IsRegular():
			return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: errors.New("not a regular file")}
		case len(todo) == 0:
			return os.Open(file)
		default:
			at = next
		}
	}
	return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: errors.New("not a regular file")}
}
