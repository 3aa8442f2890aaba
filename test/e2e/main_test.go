package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// What TestMain prepares.
var (
	root    string // of the module
	bin     string // folder of nohuddle and nohuddle-shim
	layout  string // OCI layout of the example images
	scratch string // folder that is removed at the end; every user can read it
)

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		// Nothing here can be shown without it; a green run must not say otherwise.
		fmt.Fprintln(os.Stderr, "the end-to-end tests start containers: run them as root")
		os.Exit(1)
	}
	// The tests mount file systems too: those are gone with this process, however it ends.
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) { // what starts the tests may ignore them; the program must not, in the tests
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if root, err = filepath.Abs("../.."); err != nil {
		return 1, err
	}
	layout = filepath.Join(root, "build", "images")
	if _, err := os.Stat(filepath.Join(layout, "index.json")); err != nil {
		return 1, fmt.Errorf("the example images are not in %s: run `make images` first", layout)
	}
	if scratch, err = os.MkdirTemp("", "nohuddle-e2e-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.Chmod(scratch, 0o755); err != nil {
		return 1, err
	}
	bin = filepath.Join(scratch, "bin")
	for _, name := range []string{"nohuddle", "nohuddle-shim"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v0.0.0-test", "-o", filepath.Join(bin, name), "./cmd/"+name)
		build.Dir = root
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return m.Run(), nil
}
