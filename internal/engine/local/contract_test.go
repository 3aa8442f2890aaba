package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nohuddle/nohuddle/internal/engine"
	"github.com/nohuddle/nohuddle/internal/engine/enginetest"
	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// shelf is a set of images that are directories.
type shelf map[string]*image.Image

func (s shelf) Get(_ context.Context, ref string) (*image.Image, error) {
	if img, ok := s[ref]; ok {
		return img, nil
	}
	return nil, &image.Error{Ref: ref, Reason: image.NotFound, Err: os.ErrNotExist}
}

// busybox is a root file system with busybox's applets, as a layer.
var busybox = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(shimPath), "busybox-")
	if err != nil {
		return "", err
	}
	for _, d := range []string{"bin", "tmp", "etc", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "tmp"), 0o1777),
		os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\nworker:x:1234:1234::/home/worker:/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "etc/group"), []byte("root:x:0:\nworker:x:1234:\n"), 0o644)); err != nil {
		return "", err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/busybox"), b, 0o755); err != nil {
		return "", err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return "", err
	}
	for applet := range strings.FieldsSeq(string(list)) {
		if applet != "busybox" {
			if err := os.Symlink("busybox", filepath.Join(dir, "bin", applet)); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
})

func images(t testing.TB) shelf {
	t.Helper()
	layer, err := busybox()
	if err != nil {
		t.Fatalf("a static busybox is needed (apt-get install busybox-static): %v", err)
	}
	of := func(c v1.Config) *image.Image { return &image.Image{Config: c, Layers: []string{layer}} }
	return shelf{
		"shell": of(v1.Config{Cmd: []string{"echo", "the command of the image"}}),
		"other": of(v1.Config{Env: []string{"PATH=/bin"}}),
		"user":  of(v1.Config{User: "worker", WorkingDir: "/work", Env: []string{"FROM=image", "NOHUDDLE_SLOT=forged"}}),
		"none":  of(v1.Config{}),
	}
}

// TestContract holds the engines' contract on both runtimes.
func TestContract(t *testing.T) {
	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			enginetest.Suite{
				Start: func(t *testing.T, drive string, prog *playbook.Program) engine.Engine {
					e, err := New(context.Background(), Config{
						Drive: drive, Dir: filepath.Join(t.TempDir(), drive), Images: images(t), Shim: shimPath, Scratch: prog.Scratch,
						Runtime: runtime,
					})
					if err != nil {
						t.Fatal(err)
					}
					return e
				},
				Shell: "shell", Other: "other", Missing: "missing",
			}.Run(t)
		})
	}
}
