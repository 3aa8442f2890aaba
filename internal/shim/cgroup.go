package shim

import (
	"os"
	"strconv"
	"strings"
)

// cgroupRoot is where cgroup hierarchies are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// PeakMemory is the most memory that a cgroup has held, in bytes; 0 where the kernel doesn't tell. The cgroup is its path
// in the hierarchy, on v1 that of the memory controller; a container sees its own as "".
func PeakMemory(cgroup string) int64 {
	for _, f := range counters(cgroup, "memory.peak", "memory.max_usage_in_bytes") {
		if b, err := os.ReadFile(f); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			return n
		}
	}
	return 0
}

// OOMKills is how many processes of a cgroup the kernel has killed for want of memory; 0 where it doesn't tell.
func OOMKills(cgroup string) int64 {
	for _, f := range counters(cgroup, "memory.events", "memory.oom_control") {
		b, err := os.ReadFile(f)
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

// counters are the places of a counter, on cgroup v2 and on v1.
func counters(cgroup, v2, v1 string) [2]string {
	return [2]string{cgroupRoot + cgroup + "/" + v2, cgroupRoot + "/memory" + cgroup + "/" + v1}
}
