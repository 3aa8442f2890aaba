package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// shimPath is the shim that the tests build.
var shimPath string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		// Nothing here can be shown without it; a green run must not say otherwise.
		fmt.Fprintln(os.Stderr, "the local engine's tests start containers: run them as root")
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nohuddle-local-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shimPath = filepath.Join(dir, "nohuddle-shim")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", shimPath, "github.com/nohuddle/nohuddle/cmd/nohuddle-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the shim: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
