package image

import (
	"context"
	"errors"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nohuddle/nohuddle/internal/image/reference"
)

// source is a place that has, or may have, one image.
type source interface {
	// key identifies what the reference means now without fetching the image, so that a stored one can be taken; "" if
	// that can't be told.
	key(ctx context.Context) (string, error)
	// find reads the image's manifest and config and checks them. What it returns can be used until close.
	find(ctx context.Context, platform v1.Platform) (*found, error)
	close() error
}

// found is an image whose layers have not been fetched.
type found struct {
	digest string
	config *v1.ConfigFile
	layers []blob // as many as the config has diff ids, lowest first
}

// blob is a layer as its source has it.
type blob struct {
	// digest of what open reads; the zero value where the source doesn't say (then only the diff id is checked).
	digest v1.Hash
	// size in bytes of what open reads.
	size int64
	open func(ctx context.Context) (io.ReadCloser, error)
	// retry is set where open reads from a network: the blob is then fetched ahead, again if that breaks off.
	retry func(ctx context.Context, fetch func() error) error
}

// source picks the place to look for ref.
func (s *Store) source(ref reference.Ref) (source, error) {
	switch ref.Transport {
	case reference.Layout:
		return openLayoutDir(ref.Path, ref)
	case reference.LayoutArchive:
		return openLayoutArchive(ref)
	case reference.DockerArchive:
		return openDockerArchive(ref)
	}
	for _, dir := range s.opts.Layouts {
		l, err := openLayoutDir(dir, ref)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return nil, err // Asking a registry instead would run something else than was meant.
		case l.has():
			return l, nil
		}
		l.close()
	}
	return s.newRegistry(ref)
}
