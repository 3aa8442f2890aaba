package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/go-runc"
	"golang.org/x/sys/unix"
)

// ociRuntime is the OCI runtime with the state of this pod's containers.
type ociRuntime struct {
	path string
	// copy is the program in memory, sealed; nil if it can't be had.
	copy *os.File
	// root is where it keeps its state.
	root string
}

// findRuntime looks a runtime up; "" is runc, or else crun.
func findRuntime(name, root string) (*ociRuntime, error) {
	names := []string{name}
	if name == "" {
		names = []string{"runc", "crun"}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return &ociRuntime{path: path, copy: seal(path), root: root}, nil
		}
	}
	return nil, fmt.Errorf("no OCI runtime is installed (%s is not in PATH): install runc, on Debian with `apt-get install runc`", strings.Join(names, " or "))
}

// run creates and starts a container whose first process has the two files as its output, and returns its pid.
func (r *ociRuntime) run(ctx context.Context, id, bundle string, stdout, stderr *os.File) (int, error) {
	log := filepath.Join(bundle, "runtime.log")
	pidFile := filepath.Join(bundle, "pid")
	// A process group of its own, so that Ctrl-C on a terminal reaches neither it nor the container.
	client := &runc.Runc{Command: r.command(), Root: r.root, Log: log, LogFormat: runc.JSON, Setpgid: true}
	// It runs for some milliseconds only: more than one thread at a time costs it more than it gains.
	ctx = runc.WithExtraEnv(ctx, "GOMAXPROCS=1")
	_, err := client.Run(ctx, id, bundle, &runc.CreateOpts{
		IO: output{stdout: stdout, stderr: stderr}, PidFile: pidFile, Detach: true, NoNewKeyring: true,
	})
	if err != nil {
		if text := lastError(log); text != "" {
			err = errors.New(text)
		}
		return 0, fmt.Errorf("%s: %w", filepath.Base(r.path), err)
	}
	return runc.ReadPidFile(pidFile)
}

// seal copies a program into memory that nobody can change. runc makes such a copy of itself for each container, so that
// none of them can overwrite it (CVE-2019-5736), unless it is executed from one.
func seal(path string) *os.File {
	fd, err := unix.MemfdCreate(filepath.Base(path), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	sealed := os.NewFile(uintptr(fd), path)
	program, err := os.Open(path)
	if err == nil {
		_, err = io.Copy(sealed, program)
		program.Close()
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		sealed.Close()
		return nil
	}
	return sealed
}

// command is what is executed.
func (r *ociRuntime) command() string {
	if r.copy == nil {
		return r.path
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.copy.Fd())
}

func (r *ociRuntime) close() {
	if r.copy != nil {
		r.copy.Close()
	}
}

// lastError is the last error in a runtime's log.
func lastError(log string) string {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	var last string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct{ Level, Msg string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && (line.Level == "error" || line.Level == "fatal") {
			last = line.Msg
		}
	}
	return last
}

// output is a container's standard output and error. It is a runc.IO.
type output struct {
	runc.IO
	stdout, stderr *os.File
}

// Set implements runc.IO.
func (o output) Set(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = o.stdout, o.stderr }
