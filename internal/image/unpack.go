package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/apex/log"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	umoci "github.com/opencontainers/umoci/oci/layer"
)

// silenceUmoci keeps umoci from writing about its work to our stderr. Its logger is a global, and it is the only one
// in this program that uses it.
var silenceUmoci = sync.OnceFunc(func() { log.SetLevel(log.FatalLevel) })

// format is how umoci is to write a layer: as overlayfs wants it, whiteouts being device nodes and attributes.
func (s *Store) format() umoci.OverlayfsRootfs {
	return umoci.OverlayfsRootfs{UserXattr: s.userXattr, MapOptions: umoci.MapOptions{Rootless: s.rootless}}
}

// unpacker unpacks one layer.
type unpacker struct {
	root   string // is made
	lower  stack  // the layers below
	format umoci.OverlayfsRootfs
	bytes  int64 // of the files unpacked
}

// unpack unpacks the layer that it reads from raw, compressed or not, and fails with Corrupt unless raw has the digest
// (where there is one) and what it holds the diffID.
func (u *unpacker) unpack(ctx context.Context, raw io.Reader, digest, diffID v1.Hash) error {
	packed := &hashed{r: &cancelled{ctx, raw}, hash: sha256.New()}
	plain, err := decompress(packed)
	if err != nil {
		return u.corrupt(diffID, packed, err)
	}
	defer plain.Close()
	unpacked := &hashed{r: plain, hash: sha256.New()}
	entries, err := u.entries(unpacked)
	if err != nil && (unpacked.err != nil || errors.Is(err, errEntry)) {
		return u.corrupt(diffID, packed, err)
	} else if err != nil {
		return fmt.Errorf("unpack its layer %s: %w", diffID, err)
	}
	// Archives are padded as their makers like; the digests are over all of it.
	for _, rest := range []io.Reader{unpacked, packed} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return u.corrupt(diffID, packed, err)
		}
	}
	if got := packed.sum(); digest != (v1.Hash{}) && got != digest.String() {
		return faultf(Corrupt, "its layer %s is broken: what came has the digest %s", digest, got)
	}
	if got := unpacked.sum(); got != diffID.String() {
		return faultf(Corrupt, "its layer %s is not the one that its config names: unpacked it has the digest %s, not %s", digest, got, diffID)
	}
	if err := u.inheritImplied(entries); err != nil {
		return fmt.Errorf("unpack its layer %s: %w", diffID, err)
	}
	return nil
}

// corrupt is the error for a layer that can't be read, unless the fault is not the layer's.
func (u *unpacker) corrupt(diffID v1.Hash, packed *hashed, err error) error {
	if packed.err != nil { // The disk's, or the context's.
		return fmt.Errorf("read its layer %s: %w", diffID, packed.err)
	}
	return faultf(Corrupt, "its layer %s is broken: %w", diffID, err)
}

// errEntry is what entries wraps when an entry of the archive can't be what it says.
var errEntry = errors.New("it can't be unpacked")

// entries unpacks the archive's entries and returns the directories that they mention.
func (u *unpacker) entries(r io.Reader) (directories, error) {
	dirs := directories{}
	if err := os.Mkdir(u.root, 0o755); err != nil {
		return nil, err
	}
	te := umoci.NewTarExtractor(&umoci.UnpackOptions{OnDiskFormat: u.format})
	tr := tar.NewReader(r)
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", errEntry, err)
		}
		dirs.mention(hdr)
		u.bytes += hdr.Size
		if err := te.UnpackEntry(u.root, hdr, tr); err != nil {
			var errno syscall.Errno
			if !errors.As(err, &errno) {
				err = fmt.Errorf("%w: %w", errEntry, err)
			}
			return nil, err
		}
	}
}

// directories are those of a layer's archive by name ("." is the root): true has an entry of its own, false is only
// implied by what is in it.
type directories map[string]bool

func (d directories) mention(hdr *tar.Header) {
	name := path.Clean("/" + hdr.Name)[1:]
	if name == "" {
		name = "."
	}
	if hdr.Typeflag == tar.TypeDir {
		d[name] = true
	}
	for parent := path.Dir(name); ; parent = path.Dir(parent) {
		if _, ok := d[parent]; !ok {
			d[parent] = false
		}
		if parent == "." {
			return
		}
	}
}

// decompress looks at how the data begins, because media types are wrong in practice.
func decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	default:
		return io.NopCloser(buffered), nil
	}
}

// hashed hashes what is read through it and keeps the error that ends it.
type hashed struct {
	r    io.Reader
	hash hash.Hash
	err  error
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.hash.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		h.err = err
	}
	return n, err
}

func (h *hashed) sum() string { return "sha256:" + hex.EncodeToString(h.hash.Sum(nil)) }

// cancelled ends when the context does.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
