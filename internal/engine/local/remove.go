package local

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Remove removes a pod that has lost its engine, because that was closed or killed: processes, cgroups, mounts and
// files. The attempts' logs are kept, in logs/. left says that there was something to remove. It must not be called while
// an engine lives in dir.
func Remove(drive, dir string) (left bool, err error) {
	parts := []string{"run", "slots", "etc", "shm", "ctl", "scratch"}
	for _, sub := range parts {
		if _, err := os.Lstat(filepath.Join(dir, sub)); err == nil {
			left = true
		}
	}
	if !left {
		return false, nil
	}
	errs := []error{cgroupOf(drive, dir).remove(), killStates(filepath.Join(dir, "run", "state")), unmountBelow(dir), keepLogs(dir)}
	for _, sub := range parts {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, sub)))
	}
	if err := errors.Join(errs...); err != nil {
		return true, fmt.Errorf("remove the pod of drive %s: %w", drive, err)
	}
	return true, nil
}

// unmountBelow unmounts whatever is mounted in a directory.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			point := unescape(fields[4])
			if strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points))) // what is mounted in another first
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil {
			errs = append(errs, &fs.PathError{Op: "unmount", Path: p, Err: err})
		}
	}
	return errors.Join(errs...)
}

// unescape undoes what the kernel writes for blanks and backslashes (proc_pid_mountinfo(5)).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// keepLogs moves the attempts' logs out of the control directory.
func keepLogs(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "ctl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		token, ok := strings.CutPrefix(e.Name(), "log-")
		if !ok || !protocol.ValidToken(token) || !e.Type().IsRegular() {
			continue
		}
		errs = append(errs, os.Rename(filepath.Join(dir, "ctl", protocol.LogFile(token)), filepath.Join(dir, "logs", token+".log")))
	}
	return errors.Join(errs...)
}
