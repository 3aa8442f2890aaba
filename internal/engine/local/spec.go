package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// defaultPath is the PATH of an image that sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// spec describes the container of a slot: the image's user and environment as Kubernetes honours them, the shim as its
// first process, the pod's namespaces and mounts.
func (e *Engine) spec(want plan.Slot, img *image.Image, root string, group cgroup) (*specs.Spec, error) {
	user, err := img.User("")
	if err != nil {
		return nil, err
	}
	env, err := e.environment(want, img, user)
	if err != nil {
		return nil, err
	}
	resources, err := limits(want.Resources)
	if err != nil {
		return nil, err
	}
	if e.rootless {
		if len(want.Resources.Limits) > 0 {
			return nil, errors.New("limits need cgroups, which only root has here: run as root, or leave resources.limits out")
		}
		resources, group = nil, ""
	}
	cwd := img.Config.WorkingDir
	if cwd == "" {
		cwd = "/"
	}
	caps := capabilities()
	return &specs.Spec{
		Version: "1.0.2", // of the oldest runc that is supported
		Process: &specs.Process{
			User:         specs.User{UID: user.UID, GID: user.GID, AdditionalGids: user.Groups},
			Args:         []string{protocol.ShimPath},
			Env:          env,
			Cwd:          cwd,
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Root:   &specs.Root{Path: root},
		Mounts: e.mounts(),
		Linux: &specs.Linux{
			CgroupsPath:   string(group),
			Resources:     resources,
			Namespaces:    e.pod.list(),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
		},
	}, nil
}

// environment is what the shim gets: the image's, and what is for the shim alone.
func (e *Engine) environment(want plan.Slot, img *image.Image, user image.User) ([]string, error) {
	assignment, err := json.Marshal(want.Assignment)
	if err != nil {
		return nil, err
	}
	env := []string{"PATH=" + defaultPath, "HOSTNAME=" + e.hostname()}
	if user.Home != "" {
		env = append(env, "HOME="+user.Home)
	}
	for _, kv := range img.Config.Env {
		name, _, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		if !strings.HasPrefix(name, protocol.EnvPrefix) {
			env = append(env, kv)
		}
	}
	env = append(env,
		protocol.EnvSlot+"="+want.Name,
		protocol.EnvSwap+"="+strconv.FormatInt(want.Swap, 10),
		protocol.EnvAssignment+"="+string(assignment),
	)
	for name, v := range e.cfg.Secrets {
		env = append(env, protocol.EnvSecretPrefix+name+"="+v)
	}
	return env, nil
}

func (e *Engine) mounts() []specs.Mount {
	bind := func(from, to string, opts ...string) specs.Mount {
		return specs.Mount{Source: from, Destination: to, Type: "bind", Options: append([]string{"rbind"}, opts...)}
	}
	pts := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if !e.rootless { // the group tty, where it exists
		pts = append(pts, "gid=5")
	}
	etc := func(name string) specs.Mount { return bind(e.path("etc", name), "/etc/"+name, "rw") }
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: pts},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		bind(e.path("shm"), "/dev/shm", "nosuid", "nodev", "noexec"),
		etc("hosts"), etc("hostname"), etc("resolv.conf"),
		bind(e.path("ctl"), protocol.ControlDir),
		bind(e.cfg.Shim, protocol.ShimPath, "ro"),
		bind(e.scratch, e.cfg.Scratch.MountPath),
	}
	if !e.rootless { // there it would be somebody else's
		mounts = append(mounts, specs.Mount{
			Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"},
		})
	}
	return mounts
}

// The paths that containers must not see or change: what runc and containerd have by default.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// containerCaps are the capabilities of a container by default, as Kubernetes' runtimes give them.
var containerCaps = map[int]string{
	unix.CAP_CHOWN: "CAP_CHOWN", unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE", unix.CAP_FSETID: "CAP_FSETID",
	unix.CAP_FOWNER: "CAP_FOWNER", unix.CAP_MKNOD: "CAP_MKNOD", unix.CAP_NET_RAW: "CAP_NET_RAW",
	unix.CAP_SETGID: "CAP_SETGID", unix.CAP_SETUID: "CAP_SETUID", unix.CAP_SETFCAP: "CAP_SETFCAP",
	unix.CAP_SETPCAP: "CAP_SETPCAP", unix.CAP_NET_BIND_SERVICE: "CAP_NET_BIND_SERVICE",
	unix.CAP_SYS_CHROOT: "CAP_SYS_CHROOT", unix.CAP_KILL: "CAP_KILL", unix.CAP_AUDIT_WRITE: "CAP_AUDIT_WRITE",
}

// capabilities are those of the default ones that this process may hand on.
func capabilities() []string {
	var out []string
	for number, name := range containerCaps {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0); err == nil && has == 1 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// cpuPeriod is the kernel's default period for CPU quotas, in microseconds.
const cpuPeriod = 100_000

// limits makes a play's resources the container's, as a kubelet does.
func limits(r corev1.ResourceRequirements) (*specs.LinuxResources, error) {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			switch name {
			case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			default:
				return nil, fmt.Errorf("this engine has no %s to give: run the playbook in a cluster that has, or drop it from resources", name)
			}
		}
	}
	out := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}, CPU: &specs.LinuxCPU{}}
	if q, ok := r.Limits[corev1.ResourceMemory]; ok {
		bytes := q.Value()
		out.Memory = &specs.LinuxMemory{Limit: &bytes}
		if swapIsCounted() {
			out.Memory.Swap = &bytes // memory and swap together: none of it may be swap
		}
	}
	if q, ok := r.Limits[corev1.ResourceCPU]; ok {
		quota, period := max(q.MilliValue()*cpuPeriod/1000, 1000), uint64(cpuPeriod)
		out.CPU.Quota, out.CPU.Period = &quota, &period
	}
	if q, ok := firstOf(corev1.ResourceCPU, r.Requests, r.Limits); ok {
		shares := uint64(max(q.MilliValue()*1024/1000, 2))
		out.CPU.Shares = &shares
	}
	return out, nil
}

func firstOf(name corev1.ResourceName, lists ...corev1.ResourceList) (q resource.Quantity, ok bool) {
	for _, l := range lists {
		if q, ok = l[name]; ok {
			return q, true
		}
	}
	return q, false
}

func swapIsCounted() bool {
	for _, f := range []string{"/memory/memory.memsw.limit_in_bytes", "/cgroup.controllers"} {
		if _, err := os.Stat(cgroupMount + f); err == nil {
			return true
		}
	}
	return false
}
