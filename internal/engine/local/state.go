package local

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// killStates kills the first processes of the containers that a runtime knows of, where there was no cgroup to find
// them by. Their start times keep another process with the same number from harm.
func killStates(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "*", "state.json"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		var state struct {
			Pid   int    `json:"init_process_pid"`
			Start uint64 `json:"init_process_start"`
		}
		if json.Unmarshal(b, &state) != nil || state.Pid <= 1 {
			continue
		}
		if start, ok := startTime(state.Pid); ok && start == state.Start {
			_ = unix.Kill(state.Pid, unix.SIGKILL)
		}
	}
	return nil
}

// startTime is when a process was started, in clock ticks since boot (proc_pid_stat(5), field 22).
func startTime(pid int) (uint64, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return n, err == nil
}
