package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// write makes a layout of two images, the second over the first.
func write(t *testing.T, dir string, keys Keys) {
	t.Helper()
	l, err := NewLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Discard()
	base, tool := &Image{Name: "base"}, &Image{Name: "tool", From: "base", Entrypoint: []string{"tool"}}
	below := NewTree(nil)
	above := NewTree(below)
	above.file("usr/bin/tool", "#!/bin/sh\n")
	if err := l.Add("r.example/base:1", base, below); err != nil {
		t.Fatal(err)
	}
	if err := l.Add("r.example/tool:1", tool, above); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(keys); err != nil {
		t.Fatal(err)
	}
}

func images(t *testing.T, dir string) map[string]v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		found[m.Annotations[refName]] = img
	}
	return found
}

func TestLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "build", "images")
	write(t, dir, Keys{Inputs: "i", Packages: "p"})
	if got, want := ReadKeys(dir), (Keys{Inputs: "i", Packages: "p"}); got != want {
		t.Errorf("keys %+v, want %+v", got, want)
	}
	found := images(t, dir)
	base, tool := found["r.example/base:1"], found["r.example/tool:1"]
	if base == nil || tool == nil || len(found) != 2 {
		t.Fatalf("the layout has the images %v", found)
	}
	for ref, img := range found {
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	lower, err := base.Layers()
	if err != nil {
		t.Fatal(err)
	}
	both, err := tool.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(lower) != 1 || len(both) != 2 || digest(t, lower[0]) != digest(t, both[0]) {
		t.Errorf("%d and %d layers; want the base's one layer to lie below the tool's", len(lower), len(both))
	}
	config, err := tool.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture == "" || config.OS != "linux" || cmp.Diff([]string{"tool"}, config.Config.Entrypoint) != "" {
		t.Errorf("config %+v", config)
	}
}

func digest(t *testing.T, layer v1.Layer) v1.Hash {
	t.Helper()
	d, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLayoutIsReproducible(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	write(t, one, Keys{})
	write(t, two, Keys{})
	a, errA := os.ReadFile(filepath.Join(one, "index.json"))
	b, errB := os.ReadFile(filepath.Join(two, "index.json"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("two layouts of the same images differ: %v %v\n%s\n%s", errA, errB, a, b)
	}
}

func TestLayoutReplacesAndLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "images")
	write(t, dir, Keys{Inputs: "old"})
	stray := filepath.Join(dir, "blobs", "sha256", "stray")
	if err := os.WriteFile(stray, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, dir, Keys{Inputs: "new"})
	if _, err := os.Stat(stray); !os.IsNotExist(err) {
		t.Errorf("a blob of the former layout is still there (%v)", err)
	}
	if err := WriteKeys(dir, Keys{Inputs: "newer", Packages: "p"}); err != nil {
		t.Fatal(err)
	}
	if got, want := ReadKeys(dir), (Keys{Inputs: "newer", Packages: "p"}); got != want {
		t.Errorf("keys %+v, want %+v", got, want)
	}
	if len(images(t, dir)) != 2 {
		t.Error("writing the keys lost images")
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left beside the layout: %v", entries)
	}
}
