package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation by which an OCI layout's images are found.
const refName = "org.opencontainers.image.ref.name"

// Keys say what a layout was made of, so that it isn't made again. They are annotations of its index.
type Keys struct {
	// Inputs stands for the spec and apt's lists: cheap to find out.
	Inputs string
	// Packages stands for the spec and the chosen packages.
	Packages string
}

const (
	inputsAnnotation   = "mkimage.inputs"
	packagesAnnotation = "mkimage.packages"
)

// ReadKeys reads the keys of the layout in a folder; they are empty if there is none.
func ReadKeys(dir string) Keys {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return Keys{}
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return Keys{}
	}
	return Keys{Inputs: manifest.Annotations[inputsAnnotation], Packages: manifest.Annotations[packagesAnnotation]}
}

// WriteKeys changes the keys of the layout in a folder.
func WriteKeys(dir string, keys Keys) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("reading the layout %s: %w", dir, err)
	}
	raw, err := keys.annotate(index).RawManifest()
	if err != nil {
		return fmt.Errorf("writing the layout %s: %w", dir, err)
	}
	tmp := filepath.Join(dir, ".index.json.tmp")
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, "index.json")); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	return nil
}

func (k Keys) annotate(index v1.ImageIndex) v1.ImageIndex {
	return mutate.Annotations(index, map[string]string{
		inputsAnnotation: k.Inputs, packagesAnnotation: k.Packages,
	}).(v1.ImageIndex)
}

// Layout is an OCI layout in the making, beside the place where it will be.
type Layout struct {
	dir, tmp string
	index    v1.ImageIndex
	layers   map[*Tree]v1.Layer
}

// NewLayout begins a layout that Commit puts at dir.
func NewLayout(dir string) (*Layout, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("making the layout: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".mkimage-")
	if err != nil {
		return nil, fmt.Errorf("making the layout: %w", err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("making the layout: %w", err)
	}
	return &Layout{
		dir: dir, tmp: tmp,
		index:  mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		layers: map[*Tree]v1.Layer{},
	}, nil
}

// Add puts an image into the layout: its tree as the topmost layer over those of the trees below.
func (l *Layout) Add(ref string, img *Image, tree *Tree) error {
	base, err := mutate.ConfigFile(mutate.MediaType(empty.Image, types.OCIManifestSchema1), img.config())
	if err != nil {
		return err
	}
	base = mutate.ConfigMediaType(base, types.OCIConfigJSON)
	layers, err := l.stack(tree)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return err
	}
	l.index = mutate.AppendManifests(l.index, mutate.IndexAddendum{
		Add: image,
		Descriptor: v1.Descriptor{
			Annotations: map[string]string{refName: ref},
			Platform:    &v1.Platform{OS: img.config().OS, Architecture: img.config().Architecture},
		},
	})
	return nil
}

// stack returns the layers of a tree, lowest first. Empty ones are left out.
func (l *Layout) stack(tree *Tree) ([]v1.Layer, error) {
	if tree == nil {
		return nil, nil
	}
	below, err := l.stack(tree.below)
	if err != nil || len(tree.nodes) == 0 {
		return below, err
	}
	layer := l.layers[tree]
	if layer == nil {
		if layer, err = newLayer(tree); err != nil {
			return nil, err
		}
		l.layers[tree] = layer
	}
	return append(below, layer), nil
}

func newLayer(tree *Tree) (v1.Layer, error) {
	var buf bytes.Buffer
	if err := tree.writeTar(&buf); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compressing the layer: %w", err)
	}
	return layer, nil
}

// Commit writes the layout and puts it in the place of the old one.
func (l *Layout) Commit(keys Keys) error {
	if _, err := layout.Write(l.tmp, keys.annotate(l.index)); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	// The library leaves layers readable to their owner only.
	blobs, err := filepath.Glob(filepath.Join(l.tmp, "blobs", "*", "*"))
	if err != nil {
		return err
	}
	for _, blob := range blobs {
		if err := os.Chmod(blob, 0o644); err != nil {
			return err
		}
	}
	old := l.tmp + ".old"
	if err := os.Rename(l.dir, old); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replacing the layout: %w", err)
	}
	if err := os.Rename(l.tmp, l.dir); err != nil {
		return fmt.Errorf("replacing the layout: %w", err)
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("removing the former layout: %w", err)
	}
	return nil
}

// Discard removes what Commit hasn't put in place.
func (l *Layout) Discard() { _ = os.RemoveAll(l.tmp) }
