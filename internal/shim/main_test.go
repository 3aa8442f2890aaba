package shim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// builds is where the test builds binaries; it lives as long as the test process.
var builds string

func TestMain(m *testing.M) {
	code := func() int {
		var err error
		if builds, err = os.MkdirTemp("", "nohuddle-shim-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(builds)
		// Plays of another user must reach the binary.
		if err := os.Chmod(builds, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

// built builds the shim once, as the Makefile does. Fuzzing doesn't need it, so it isn't built before it is asked for.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(builds, "nohuddle-shim")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/nohuddle/nohuddle/cmd/nohuddle-shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	// Pages of a file that is not on the disk yet are dirty, and would be counted as the shim's own.
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return path, f.Sync()
})

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
