package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deb builds a package with these files (path to content; "-> target" makes a symbolic link, "= path" a hard one).
func deb(t *testing.T, files map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	control := "Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: thing\n"
	write := func(name, content string) {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, full)
		} else if target, ok := strings.CutPrefix(content, "= "); ok {
			err = os.Link(filepath.Join(root, target), full)
		} else {
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("DEBIAN/control", control)
	for name, content := range files {
		if !strings.HasPrefix(content, "= ") {
			write(name, content)
		}
	}
	for name, content := range files {
		if strings.HasPrefix(content, "= ") {
			write(name, content)
		}
	}
	out := filepath.Join(t.TempDir(), "thing.deb")
	if msg, err := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-b", root, out).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, msg)
	}
	return out
}

// listing tells a layer's entries in their order.
func listing(t *testing.T, tree *Tree) []string {
	t.Helper()
	var buf bytes.Buffer
	if err := tree.writeTar(&buf); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for r := tar.NewReader(&buf); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uname != "" {
			t.Errorf("%s: has a time or an owner's name, which differ from machine to machine", header.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		line := header.Name
		switch header.Typeflag {
		case tar.TypeSymlink:
			line += " -> " + header.Linkname
		case tar.TypeLink:
			line += " = " + header.Linkname
		case tar.TypeReg:
			line += ": " + string(content)
		}
		lines = append(lines, line)
	}
}

func TestUnpack(t *testing.T) {
	below := NewTree(nil)
	tree := NewTree(below)
	file := deb(t, map[string]string{
		"bin/thing":                        "one",
		"usr/bin/other":                    "two",
		"bin/a-hard-link":                  "= bin/thing",
		"lib/libthing.so":                  "-> libthing.so.1",
		"usr/share/doc/thing/copyright":    "dropped",
		"usr/share/doc/thing/examples/one": "kept",
		"usr/share/man/man1/thing.1":       "dropped",
	})
	if err := tree.Unpack(t.Context(), file, map[string]string{"usr/share/doc/thing/examples": "data"}); err != nil {
		t.Fatal(err)
	}
	got := listing(t, tree)
	want := []string{
		"data/",
		"data/one: kept",
		"usr/bin/other: two",
		"usr/lib/libthing.so -> libthing.so.1",
		"usr/share/",
		"usr/bin/thing: one",
		"usr/bin/a-hard-link = usr/bin/thing",
	}
	// Which of two hard links is the file depends on the order in dpkg-deb's tar.
	alternative := append(append([]string{}, want[:5]...), "usr/bin/a-hard-link: one", "usr/bin/thing = usr/bin/a-hard-link")
	sortFree := func(in []string) map[string]bool {
		set := map[string]bool{}
		for _, s := range in {
			set[s] = true
		}
		return set
	}
	if cmp.Diff(sortFree(want), sortFree(got)) != "" && cmp.Diff(sortFree(alternative), sortFree(got)) != "" {
		t.Errorf("layer:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if last := got[len(got)-1]; !strings.Contains(last, " = ") {
		t.Errorf("the last entry is %q; a hard link must come after the file that it names", last)
	}
}

func TestNewTreeHasWhatProgramsExpect(t *testing.T) {
	got := strings.Join(listing(t, NewTree(nil)), "\n")
	for _, want := range []string{"bin -> usr/bin", "lib64 -> usr/lib64", "tmp/", "etc/passwd: root:x:0:0:"} {
		if !strings.Contains(got, want) {
			t.Errorf("a root file system without %q:\n%s", want, got)
		}
	}
}

func TestLinkNeverReplaces(t *testing.T) {
	below := NewTree(nil)
	below.file("usr/bin/awk", "real")
	tree := NewTree(below)
	tree.Link("usr/bin/awk", "mawk")
	tree.Link("usr/bin/vi", "nano")
	if diff := cmp.Diff([]string{"usr/bin/vi -> nano"}, listing(t, tree)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func TestUnpackNamesTheBrokenPackage(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.deb")
	if err := os.WriteFile(broken, []byte("not a package"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := NewTree(nil).Unpack(t.Context(), broken, nil)
	if err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("error for a file that is no package: %v", err)
	}
}
