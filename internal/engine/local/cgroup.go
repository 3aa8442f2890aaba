package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is where cgroup hierarchies are mounted.
const cgroupMount = "/sys/fs/cgroup"

// cgroup is a path of a cgroup in every hierarchy: one on cgroup v2, one per controller on v1.
type cgroup string

// cgroupOf is the cgroup of a drive's pod. The folder is in it because several users' drives can have one name. Pods have
// no parent in common: to remove one while a container of another is made would break that.
func cgroupOf(drive, dir string) cgroup {
	sum := sha256.Sum256([]byte(dir))
	return cgroup("/nohuddle-" + drive + "-" + hex.EncodeToString(sum[:4]))
}

func (c cgroup) child(name string) cgroup { return c + cgroup("/"+name) }

// dirs are its directories that exist.
func (c cgroup) dirs() []string {
	var out []string
	for _, pattern := range []string{cgroupMount + string(c), cgroupMount + "/*" + string(c)} {
		found, _ := filepath.Glob(pattern)
		out = append(out, found...)
	}
	return out
}

// removeTime bounds how long killed processes may take to leave a cgroup.
const removeTime = 10 * time.Second

// remove kills whatever is in the cgroup and below, and removes it.
func (c cgroup) remove() error {
	deadline := time.Now().Add(removeTime)
	for {
		var errs []error
		for _, dir := range c.dirs() {
			errs = append(errs, removeTree(dir))
		}
		err := errors.Join(errs...)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(5 * time.Millisecond) // a cgroup tells nobody that its last process has been reaped
	}
}

func removeTree(dir string) error {
	if unix.Rmdir(dir) == nil { // mostly it is empty
		return nil
	}
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // it may vanish on the way
	})
	for i := len(dirs) - 1; i >= 0; i-- { // children first
		b, _ := os.ReadFile(dirs[i] + "/cgroup.procs")
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if e := unix.Rmdir(dirs[i]); e != nil && e != unix.ENOENT {
			err = errors.Join(err, &fs.PathError{Op: "rmdir", Path: dirs[i], Err: e})
		}
	}
	return err
}
