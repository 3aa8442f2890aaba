package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// tree makes the image's own layer from the packages that the layers below don't hold.
func (img *Image) tree(ctx context.Context, apt *Apt, debs []Deb, below *Tree) (*Tree, error) {
	t := NewTree(below)
	for _, deb := range debs {
		if err := t.Unpack(ctx, apt.Path(deb), img.Move); err != nil {
			return nil, err
		}
	}
	for name, target := range img.Links {
		t.Link(name, target)
	}
	if img.Applets != "" {
		if err := t.linkApplets(ctx, img.Applets); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// linkApplets asks the busybox at a path of the tree for its applets, and makes a link for each.
func (t *Tree) linkApplets(ctx context.Context, busybox string) error {
	n := t.nodes[place(busybox, nil)]
	if n == nil {
		return fmt.Errorf("applets: the image has no file %s", busybox)
	}
	dir, err := os.MkdirTemp("", "mkimage-")
	if err != nil {
		return fmt.Errorf("applets: %w", err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "busybox")
	if err := os.WriteFile(binary, n.data, 0o700); err != nil {
		return fmt.Errorf("applets: %w", err)
	}
	out, err := exec.CommandContext(ctx, binary, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("applets: %s --list-full: %w; it must be a static busybox for this machine", busybox, err)
	}
	for _, applet := range strings.Fields(string(bytes.ToValidUTF8(out, nil))) {
		t.Link(place(applet, nil), "/"+busybox)
	}
	return nil
}

// config is the image's config, but for its layers.
func (img *Image) config() *v1.ConfigFile {
	return &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config: v1.Config{
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: img.Entrypoint,
			Cmd:        img.Cmd,
			WorkingDir: "/",
		},
		RootFS: v1.RootFS{Type: "layers"},
	}
}
