package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// downloads bounds how many layers of an image are fetched at once.
const downloads = 3

// maker makes the layers of one image, each once: whoever else wants one meanwhile waits for it.
type maker struct {
	s        *Store
	layers   []blob
	diffIDs  []v1.Hash
	chain    []string
	made     []chan struct{} // closed when the layer is there
	fetching chan struct{}   // a semaphore
	progress *progress
}

func (s *Store) make(ctx context.Context, ref string, f *found) (*Image, error) {
	m := &maker{
		s: s, layers: f.layers, diffIDs: f.config.RootFS.DiffIDs, chain: chainIDs(f.config.RootFS.DiffIDs),
		fetching: make(chan struct{}, downloads), progress: s.newProgress(ref),
	}
	for i, l := range f.layers {
		m.made = append(m.made, make(chan struct{}))
		if !m.exists(i) {
			m.progress.expect(l)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.layers {
		group.Go(func() error { return m.layer(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := s.remember(record{Digest: f.digest, Config: f.config.Config, Chain: m.chain}); err != nil {
		return nil, fmt.Errorf("store the image's record: %w", err)
	}
	img := s.stored(ref, f.digest)
	if img == nil {
		return nil, errors.New("it vanished from the store as soon as it was there, or the store is closed")
	}
	return img, nil
}

// chainIDs names each layer together with those below it, as the image specification defines it.
func chainIDs(diffIDs []v1.Hash) []string {
	var chain []string
	for i, d := range diffIDs {
		if i == 0 {
			chain = append(chain, d.Hex)
			continue
		}
		sum := sha256.Sum256([]byte("sha256:" + chain[i-1] + " " + d.String()))
		chain = append(chain, hex.EncodeToString(sum[:]))
	}
	return chain
}

func (m *maker) exists(i int) bool {
	_, err := os.Lstat(m.s.layerPath(m.chain[i]))
	return err == nil
}

// layer sees to it that layer i exists. It can wait for others that hold the lock of a lower layer, never of a higher
// one, so that no two can wait for each other.
func (m *maker) layer(ctx context.Context, i int) error {
	if m.exists(i) {
		close(m.made[i])
		return nil
	}
	locked, err := lockFile(ctx, m.s.path("locks", m.chain[i]), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer locked.Close()
	if m.exists(i) {
		m.progress.skip(m.layers[i])
		close(m.made[i])
		return nil
	}
	tmp, err := m.s.newTempDir()
	if err != nil {
		return err
	}
	defer func() { _ = tmp.remove() }() // what stays, the next Open removes
	raw, err := m.fetch(ctx, m.layers[i], filepath.Join(tmp.path, "blob"))
	if err != nil {
		return err
	}
	defer raw.Close()
	if i > 0 {
		select {
		case <-m.made[i-1]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := m.unpack(ctx, i, raw, filepath.Join(tmp.path, "layer")); err != nil {
		return err
	}
	close(m.made[i])
	return nil
}

// unpack makes the layer's directory in dir and puts it into its place.
func (m *maker) unpack(ctx context.Context, i int, raw io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	u := unpacker{
		root:   filepath.Join(dir, "fs"),
		lower:  m.s.stack(m.chain[:i]),
		format: m.s.format(),
	}
	if err := u.unpack(ctx, m.progress.unpacking(raw), m.layers[i].digest, m.diffIDs[i]); err != nil {
		return err
	}
	data, err := json.Marshal(layerInfo{DiffID: m.diffIDs[i].String(), Bytes: u.bytes})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "layer.json"), data, 0o600); err != nil {
		return err
	}
	return os.Rename(dir, m.s.layerPath(m.chain[i]))
}

// layerInfo is a layer's layer.json, for people and for Usage.
type layerInfo struct {
	DiffID string `json:"diffID"`
	// Bytes is the sum of the sizes of its files.
	Bytes int64 `json:"bytes"`
}

func (s *Store) stack(chain []string) stack {
	st := stack{userXattr: s.userXattr}
	for _, c := range chain {
		st.layers = append(st.layers, filepath.Join(s.layerPath(c), "fs"))
	}
	return st
}

// fetch opens the blob; one from a network is first written to file.
func (m *maker) fetch(ctx context.Context, b blob, file string) (io.ReadCloser, error) {
	if b.retry == nil {
		return b.open(ctx)
	}
	select {
	case m.fetching <- struct{}{}:
		defer func() { <-m.fetching }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = b.retry(ctx, func() error { return m.download(ctx, b, f) })
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// download writes the blob to f, once. What it holds is checked when it is unpacked.
func (m *maker) download(ctx context.Context, b blob, f *os.File) (err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return local(err)
	}
	if err := f.Truncate(0); err != nil {
		return local(err)
	}
	rc, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer rc.Close()
	r := m.progress.pulling(io.LimitReader(rc, b.size+1))
	n, err := io.Copy(localWriter{f}, r)
	if err != nil {
		m.progress.pulled(-n)
		return err
	}
	if n != b.size {
		return faultf(Corrupt, "its layer %s has not %d bytes, as its manifest says, but %s", b.digest, b.size, atLeast(n, b.size))
	}
	return nil
}

func atLeast(n, limit int64) string {
	if n > limit {
		return "more"
	}
	return fmt.Sprint(n)
}

// localWriter marks the errors of writing, so that a full disk is not taken for a broken connection.
type localWriter struct{ w io.Writer }

func (l localWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	return n, local(err)
}

func local(err error) error {
	if err == nil {
		return nil
	}
	return &fault{reason: Other, err: err}
}
