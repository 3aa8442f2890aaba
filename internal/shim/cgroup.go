package shim

import (
	"os"
	"strconv"
	"strings"
)

// cgroupRoot is where a container sees its own cgroup.
const cgroupRoot = "/sys/fs/cgroup/"

// peakMemory is the most memory that the container has held, in bytes; 0 where the kernel doesn't tell.
func peakMemory() int64 {
	for _, f := range []string{"memory.peak", "memory/memory.max_usage_in_bytes"} {
		if b, err := os.ReadFile(cgroupRoot + f); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			return n
		}
	}
	return 0
}

// oomKills is how many processes of the container the kernel has killed for want of memory; 0 where it doesn't tell.
func oomKills() int64 {
	for _, f := range []string{"memory.events", "memory/memory.oom_control"} {
		b, err := os.ReadFile(cgroupRoot + f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				return n
			}
		}
	}
	return 0
}
