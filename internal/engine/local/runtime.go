package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/go-runc"
)

// ociRuntime is the OCI runtime with the state of this pod's containers.
type ociRuntime struct {
	path string
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
			return &ociRuntime{path: path, root: root}, nil
		}
	}
	return nil, fmt.Errorf("no OCI runtime is installed (%s is not in PATH): install runc, on Debian with `apt-get install runc`", strings.Join(names, " or "))
}

// run creates and starts a container whose first process has the two files as its output, and returns its pid.
func (r *ociRuntime) run(ctx context.Context, id, bundle string, stdout, stderr *os.File) (int, error) {
	log := filepath.Join(bundle, "runtime.log")
	pidFile := filepath.Join(bundle, "pid")
	// A process group of its own, so that Ctrl-C on a terminal reaches neither it nor the container.
	client := &runc.Runc{Command: r.path, Root: r.root, Log: log, LogFormat: runc.JSON, Setpgid: true}
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
