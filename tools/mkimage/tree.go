package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// Tree is the content of one layer, by path without a leading slash.
type Tree struct {
	below *Tree
	nodes map[string]*node
}

type node struct {
	header *tar.Header
	data   []byte
}

// merged are the folders of / that Debian has merged into /usr, though packages still ship files under their old names.
var merged = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// dropped are the prefixes of files that no program reads.
var dropped = []string{
	"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
	"usr/share/bug/", "usr/share/doc-base/",
}

// NewTree makes an empty layer over another one; without one below, it gets what every root file system has.
func NewTree(below *Tree) *Tree {
	t := &Tree{below: below, nodes: map[string]*node{}}
	if below != nil {
		return t
	}
	for _, dir := range []string{"dev", "etc", "proc", "root", "sys", "usr", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var"} {
		t.dir(dir, 0o755)
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		t.dir(dir, 0o1777)
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		t.Link(name, "usr/"+name)
	}
	t.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
	t.file("etc/group", "root:x:0:\nnogroup:x:65534:\n")
	return t
}

func (t *Tree) dir(name string, mode int64) {
	t.nodes[name] = &node{header: &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}}
}

func (t *Tree) file(name, text string) {
	t.nodes[name] = &node{
		header: &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))},
		data:   []byte(text),
	}
}

// Link makes a symbolic link, unless something is there.
func (t *Tree) Link(name, target string) {
	if t.has(name) {
		return
	}
	t.nodes[name] = &node{header: &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

// has says whether the path is in this layer or one below.
func (t *Tree) has(name string) bool {
	for ; t != nil; t = t.below {
		if t.nodes[name] != nil {
			return true
		}
	}
	return false
}

// Unpack puts the files of a package into the tree. Folders that move are given new names, old to new.
func (t *Tree) Unpack(ctx context.Context, deb string, move map[string]string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting dpkg-deb: %w", err)
	}
	readErr := t.read(tar.NewReader(stdout), move)
	if readErr == nil {
		_, readErr = io.Copy(io.Discard, stdout) // the padding at a tar's end: dpkg-deb fails if nobody takes it
	}
	if readErr != nil {
		_ = cmd.Process.Kill()
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return fmt.Errorf("unpacking %s: %w %s; remove it so that it's fetched again", deb, err, stderr.String())
	}
	return nil
}

func (t *Tree) read(r *tar.Reader, move map[string]string) error {
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.add(header, r, move); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

// add takes one entry of a package into the tree.
func (t *Tree) add(from *tar.Header, content io.Reader, move map[string]string) error {
	name := place(from.Name, move)
	if name == "" || slices.ContainsFunc(dropped, func(p string) bool { return strings.HasPrefix(name+"/", p) }) {
		return nil
	}
	if from.Typeflag == tar.TypeDir && t.has(name) {
		return nil
	}
	n := &node{header: &tar.Header{
		Typeflag: from.Typeflag, Name: name, Linkname: from.Linkname, Mode: from.Mode, Uid: from.Uid, Gid: from.Gid, Size: from.Size,
	}}
	switch from.Typeflag {
	case tar.TypeReg:
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		n.data = data
	case tar.TypeLink:
		n.header.Linkname = place(from.Linkname, move)
	case tar.TypeDir, tar.TypeSymlink:
	default:
		return fmt.Errorf("files of the tar type %q are not known to mkimage", from.Typeflag)
	}
	t.nodes[name] = n
	return nil
}

// place is where in an image a path of a package goes; "" for the root folder itself.
func place(name string, move map[string]string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(merged, first) {
		name = "usr/" + name
	}
	for from, to := range move {
		if name == from || strings.HasPrefix(name, from+"/") {
			return to + strings.TrimPrefix(name, from)
		}
	}
	return name
}

// writeTar writes the layer as a tar whose bytes depend on nothing but the tree: sorted, without times and names of
// users. Hard links come last, after the files that they name.
func (t *Tree) writeTar(w io.Writer) error {
	names := make([]string, 0, len(t.nodes))
	for name := range t.nodes {
		names = append(names, name)
	}
	isLink := func(name string) bool { return t.nodes[name].header.Typeflag == tar.TypeLink }
	sort.Slice(names, func(i, j int) bool {
		if isLink(names[i]) != isLink(names[j]) {
			return isLink(names[j])
		}
		return names[i] < names[j]
	})
	tw := tar.NewWriter(w)
	for _, name := range names {
		n := t.nodes[name]
		header := *n.header
		header.ModTime = time.Unix(0, 0)
		header.Format = tar.FormatPAX
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if err := tw.WriteHeader(&header); err != nil {
			return fmt.Errorf("writing %s to the layer: %w", name, err)
		}
		if _, err := tw.Write(n.data); err != nil {
			return fmt.Errorf("writing %s to the layer: %w", name, err)
		}
	}
	return tw.Close()
}
