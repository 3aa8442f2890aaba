package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nothingLeft fails the test if anything is left of drives in a state folder but their objects and logs. Others may run
// drives on this machine, so it looks for what belongs to the folder.
func nothingLeft(t *testing.T, state string) {
	t.Helper()
	for _, line := range mounts(state) {
		t.Errorf("a mount is left: %s", line)
	}
	for _, line := range processes(state) {
		t.Errorf("a process is left: %s", line)
	}
	for _, dir := range cgroups(state) {
		t.Errorf("a cgroup is left: %s", dir)
	}
	drives := filepath.Join(state, "nohuddle", "drives")
	_ = filepath.WalkDir(drives, func(path string, d fs.DirEntry, _ error) error {
		rel, _ := filepath.Rel(drives, path)
		parts := strings.Split(rel, string(filepath.Separator))
		switch {
		case d == nil || rel == "." || len(parts) == 1 && d.IsDir() && !strings.HasPrefix(rel, "."):
		case len(parts) == 2 && slices.Contains([]string{"drive.json", "lock", "logs"}, parts[1]):
		case len(parts) == 3 && parts[1] == "logs" && strings.HasSuffix(rel, ".log"):
		default:
			t.Errorf("a file is left: %s", path)
		}
		return nil
	})
}

// mounts are the mounts, in the mount namespace of any process, that a state folder is part of. A container has some as
// long as it lives.
func mounts(state string) []string {
	var out []string
	seen := map[string]bool{}
	files, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, file := range append(files, "/proc/self/mountinfo") {
		ns, err := os.Readlink(filepath.Dir(file) + "/ns/mnt")
		if err != nil || seen[ns] {
			continue
		}
		seen[ns] = true
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); len(fields) > 4 && fields[4] == state {
				continue // the test's own
			}
			if strings.Contains(line, state) {
				out = append(out, filepath.Base(filepath.Dir(file))+": "+strings.TrimSpace(line))
			}
		}
	}
	return out
}

// processes are those alive that a state folder appears in the command line of, or the name of a drive in its cgroup.
func processes(state string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	groups := cgroupNames(state)
	for _, dir := range dirs {
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		if len(cmdline) == 0 {
			continue // it has ended, and waits for this machine's init to take note
		}
		cgroup, _ := os.ReadFile(dir + "/cgroup")
		ours := strings.Contains(string(cmdline), state)
		for _, g := range groups {
			ours = ours || strings.Contains(string(cgroup), g)
		}
		if ours {
			out = append(out, filepath.Base(dir)+": "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// cgroupNames are the ends of the names of the cgroups that drives in a state folder have: they hold a sum of the
// drive's folder.
func cgroupNames(state string) []string {
	var out []string
	for _, dir := range driveDirs(state) {
		sum := sha256.Sum256([]byte(dir))
		out = append(out, filepath.Base(dir)+"-"+hex.EncodeToString(sum[:4]))
	}
	return out
}

func driveDirs(state string) []string {
	dirs, _ := filepath.Glob(filepath.Join(state, "nohuddle", "drives", "*"))
	// Drives that could not start have no folder any more; their names are the tests'.
	for _, name := range []string{"d", "drive", "name"} {
		dirs = append(dirs, filepath.Join(state, "nohuddle", "drives", name))
	}
	return dirs
}

// cgroups are the directories of the drives' cgroups in all hierarchies.
func cgroups(state string) []string {
	var out []string
	for _, name := range cgroupNames(state) {
		for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/sys/fs/cgroup/*/*/*"} {
			found, _ := filepath.Glob(pattern + name)
			out = append(out, found...)
		}
	}
	return out
}

// inContainers are the pids of the processes in the containers of the drives in a state folder.
func inContainers(state string) []string {
	pids := map[string]bool{}
	for _, dir := range cgroups(state) {
		files, _ := filepath.Glob(dir + "/*/cgroup.procs")
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for pid := range strings.FieldsSeq(string(b)) {
				pids[pid] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(pids))
}

// netns names the network namespace of the first of these processes.
func netns(t *testing.T, pids []string) string {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("no process runs in a container")
	}
	ns, err := os.Readlink("/proc/" + pids[0] + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// holders are the processes, open files and mounts that keep a namespace alive.
func holders(ns string) []string {
	var out []string
	for _, pattern := range []string{"/proc/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"} {
		links, _ := filepath.Glob(pattern)
		for _, l := range links {
			if target, err := os.Readlink(l); err == nil && target == ns {
				out = append(out, l)
			}
		}
	}
	b, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(b), ns) {
		out = append(out, "a mount")
	}
	return out
}
