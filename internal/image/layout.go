package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/nohuddle/nohuddle/internal/image/reference"
)

// files is a directory, or a tar file that is read like one. Names are relative, with slashes.
type files interface {
	open(name string) (io.ReadCloser, error)
	close() error
}

type dirFiles string

func (d dirFiles) open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(d), filepath.FromSlash(name)))
}
func (d dirFiles) close() error { return nil }

// The annotations that name an image in a layout: the specification's, and the one that containerd and docker write
// when the former holds the tag alone.
var nameAnnotations = []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

// layout is an OCI layout, as the source of one image.
type layout struct {
	files
	where string
	index []byte
	match []v1.Descriptor // the index's entries that the reference names
	names []string        // of all entries, for messages
}

// openLayoutDir opens the layout in dir. An error is fs.ErrNotExist only if dir itself isn't there.
func openLayoutDir(dir string, ref reference.Ref) (*layout, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, notFound(err, "there is no OCI layout at %s", dir)
	}
	return openLayout(dirFiles(dir), dir, ref)
}

func openLayoutArchive(ref reference.Ref) (*layout, error) {
	t, err := openTar(ref.Path)
	if err != nil {
		return nil, err
	}
	l, err := openLayout(t, ref.Path, ref)
	if err != nil {
		t.close()
		return nil, err
	}
	return l, nil
}

func openLayout(fs files, where string, ref reference.Ref) (*layout, error) {
	l := &layout{files: fs, where: where}
	var err error
	if l.index, err = readDocument(fs, "index.json"); err != nil {
		return nil, faultf(Malformed, "%s is no OCI layout: %v", where, err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(l.index, &index); err != nil {
		return nil, faultf(Malformed, "%s is no OCI layout: its index.json: %v", where, err)
	}
	for _, d := range index.Manifests {
		if name := d.Annotations[nameAnnotations[1]]; name != "" {
			l.names = append(l.names, name)
		}
		if names(ref, d) {
			l.match = append(l.match, d)
		}
	}
	return l, nil
}

// names says whether ref means the entry d of a layout's index.
func names(ref reference.Ref, d v1.Descriptor) bool {
	if ref.Transport != reference.Registry && ref.Tag == "" {
		return true
	}
	for _, key := range nameAnnotations {
		name := d.Annotations[key]
		if name == "" {
			continue
		}
		if ref.Transport != reference.Registry {
			if name == ref.Tag || sameName(name, ref.Tag) {
				return true
			}
			continue
		}
		// A bare tag, which layouts may hold as a name, must not pass for docker.io/library/TAG.
		if !strings.ContainsAny(name, "/:") {
			continue
		}
		full, err := reference.Parse(name)
		if err != nil {
			continue
		}
		if full.Name == ref.Name || ref.Digest != "" && full.Repository == ref.Repository && d.Digest.String() == ref.Digest {
			return true
		}
	}
	return false
}

func sameName(a, b string) bool {
	ra, erra := reference.Parse(a)
	rb, errb := reference.Parse(b)
	return erra == nil && errb == nil && ra == rb
}

func (l *layout) has() bool { return len(l.match) > 0 }

// key holds the digest of the index, because a layout may be written anew under the same name.
func (l *layout) key(context.Context) (string, error) {
	if err := l.check(); err != nil {
		return "", err
	}
	return fmt.Sprintf("layout %x %s", sha256.Sum256(l.index), l.digests()), nil
}

func (l *layout) digests() string {
	var all []string
	for _, d := range l.match {
		all = append(all, d.Digest.String())
	}
	return strings.Join(all, " ")
}

func (l *layout) check() error {
	if l.has() {
		return nil
	}
	what := "no image at all"
	if len(l.names) > 0 {
		what = "only " + strings.Join(l.names, ", ")
	}
	return faultf(NotFound, "%s holds no image of that name, %s", l.where, what)
}

func (l *layout) find(ctx context.Context, platform v1.Platform) (*found, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	top := l.match[0]
	if len(l.match) > 1 {
		// Entries of one name can be for several platforms; entries without a name in common are a question.
		var err error
		if top, err = choose(&v1.IndexManifest{Manifests: l.match}, platform); err != nil {
			return nil, err
		}
		for _, d := range l.match {
			if d.Annotations[nameAnnotations[1]] != top.Annotations[nameAnnotations[1]] {
				return nil, faultf(NotFound, "%s holds several images (%s) and the reference names none", l.where, strings.Join(l.names, ", "))
			}
		}
	}
	return findManifest(ctx, l, top, platform)
}

func (l *layout) manifest(_ context.Context, d v1.Descriptor) ([]byte, error) {
	name, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	raw, err := readDocument(l, name)
	if err != nil {
		return nil, faultf(Corrupt, "%s lacks a part: %v", l.where, err)
	}
	return raw, verified(raw, d)
}

func (l *layout) config(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return l.manifest(ctx, d)
}

func (l *layout) layer(d v1.Descriptor) blob {
	return blob{digest: d.Digest, size: d.Size, open: func(context.Context) (io.ReadCloser, error) {
		name, err := blobName(d.Digest)
		if err != nil {
			return nil, err
		}
		r, err := l.open(name)
		if errors.Is(err, os.ErrNotExist) {
			return nil, faultf(Corrupt, "%s lacks the layer %s", l.where, d.Digest)
		}
		return r, err
	}}
}

// blobName is a blob's file in a layout. Decoding has checked that the digest is hexadecimal, but not that there is one.
func blobName(h v1.Hash) (string, error) {
	if h.Algorithm != "sha256" || len(h.Hex) != sha256.Size*2 {
		return "", faultf(Malformed, "it names the digest %q, and only sha256 is known", h)
	}
	return "blobs/" + h.Algorithm + "/" + h.Hex, nil
}

func readDocument(fs files, name string) ([]byte, error) {
	r, err := fs.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxDocument)
	}
	return raw, err
}

// notFound makes a NotFound of an error that says so, keeps what can be done of others.
func notFound(err error, format string, args ...any) error {
	text := fmt.Errorf(format, args...)
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", text, bare(err))
	}
	return &fault{reason: NotFound, err: fmt.Errorf("%w: %w", text, os.ErrNotExist), next: "check the path"}
}
