package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nohuddle/nohuddle/internal/image/reference"
)

// tarFiles is a tar file, read by name through an index of where its entries lie.
type tarFiles struct {
	f       *os.File
	where   string
	entries map[string]tarEntry
}

type tarEntry struct {
	offset, size int64
	link         string
}

func openTar(file string) (*tarFiles, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, notFound(err, "the archive %s can't be opened", file)
	}
	t := &tarFiles{f: f, where: file, entries: map[string]tarEntry{}}
	if err := t.scan(); err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

func (t *tarFiles) scan() error {
	tr := tar.NewReader(t.f) // It reads no further than the header, and seeks over contents.
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return faultf(Malformed, "%s is no uncompressed tar file: %w", t.where, err)
		}
		offset, err := t.f.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("read %s: %w", t.where, err)
		}
		name := path.Clean("/" + hdr.Name)[1:]
		switch hdr.Typeflag {
		case tar.TypeReg:
			t.entries[name] = tarEntry{offset: offset, size: hdr.Size}
		case tar.TypeSymlink: // Old versions of Docker write a layer once and link to it.
			t.entries[name] = tarEntry{link: path.Join("/", path.Dir(name), hdr.Linkname)[1:]}
		case tar.TypeLink:
			t.entries[name] = tarEntry{link: path.Clean("/" + hdr.Linkname)[1:]}
		}
	}
}

func (t *tarFiles) lookup(name string) (tarEntry, error) {
	const mostLinks = 10
	for range mostLinks {
		e, ok := t.entries[path.Clean("/" + name)[1:]]
		if !ok {
			return e, fmt.Errorf("%s in %s: %w", name, t.where, os.ErrNotExist)
		}
		if e.link == "" {
			return e, nil
		}
		name = e.link
	}
	return tarEntry{}, fmt.Errorf("%s in %s: %w", name, t.where, syscall.ELOOP)
}

func (t *tarFiles) open(name string) (io.ReadCloser, error) {
	e, err := t.lookup(name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(t.f, e.offset, e.size)), nil
}

func (t *tarFiles) close() error { return t.f.Close() }

// dockerArchive is what docker save writes, as the source of one image.
type dockerArchive struct {
	*tarFiles
	ref reference.Ref
}

func openDockerArchive(ref reference.Ref) (*dockerArchive, error) {
	t, err := openTar(ref.Path)
	if err != nil {
		return nil, err
	}
	return &dockerArchive{tarFiles: t, ref: ref}, nil
}

// key is what tells one state of a file from another without reading it.
func (a *dockerArchive) key(context.Context) (string, error) {
	info, err := a.f.Stat()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", a.where, err)
	}
	st := info.Sys().(*syscall.Stat_t)
	abs, err := filepath.Abs(a.where)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("archive %q %q %d %d %d %v", abs, a.ref.Tag, st.Dev, st.Ino, st.Size, st.Ctim), nil
}

// saved is an entry of a docker archive's manifest.json.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *dockerArchive) find(_ context.Context, platform v1.Platform) (*found, error) {
	image, err := a.pick()
	if err != nil {
		return nil, err
	}
	raw, err := readDocument(a, image.Config)
	if err != nil {
		return nil, faultf(Corrupt, "%s lacks a part: %v", a.where, err)
	}
	config, err := parseConfig(raw, len(image.Layers), platform)
	if err != nil {
		return nil, err
	}
	id, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	f := &found{digest: id.String(), config: config}
	for _, name := range image.Layers {
		e, err := a.lookup(name)
		if err != nil {
			return nil, faultf(Corrupt, "%s lacks a part: %v", a.where, err)
		}
		f.layers = append(f.layers, blob{size: e.size, open: func(context.Context) (io.ReadCloser, error) { return a.open(name) }})
	}
	return f, nil
}

func (a *dockerArchive) pick() (saved, error) {
	raw, err := readDocument(a, "manifest.json")
	if err != nil {
		return saved{}, faultf(Malformed, "%s is no docker archive: %v", a.where, err)
	}
	var images []saved
	if err := json.Unmarshal(raw, &images); err != nil {
		return saved{}, faultf(Malformed, "%s is no docker archive: its manifest.json: %v", a.where, err)
	}
	var names []string
	for _, image := range images {
		names = append(names, image.RepoTags...)
		for _, tag := range image.RepoTags {
			if a.ref.Tag != "" && sameName(tag, a.ref.Tag) {
				return image, nil
			}
		}
	}
	switch {
	case a.ref.Tag != "":
		return saved{}, faultf(NotFound, "%s holds no image of that name, only %s", a.where, strings.Join(names, ", "))
	case len(images) != 1:
		return saved{}, faultf(NotFound, "%s holds %d images (%s) and the reference names none", a.where, len(images), strings.Join(names, ", "))
	}
	return images[0], nil
}
