package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// record is what the store knows of an image. It never changes, because the digest determines it.
type record struct {
	Digest string    `json:"digest"`
	Config v1.Config `json:"config"`
	// Chain are the chain ids of the layers, lowest first.
	Chain []string `json:"chain"`
}

// alias is what a name meant when it was last looked up.
type alias struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

func (s *Store) recordPath(digest string) string {
	return s.path("images", strings.TrimPrefix(digest, "sha256:")+".json")
}

func (s *Store) aliasPath(key string) string {
	sum := sha256.Sum256([]byte(key))
	return s.path("refs", hex.EncodeToString(sum[:])+".json")
}

// resolved is the digest that key was resolved to.
func (s *Store) resolved(key string) (string, bool) {
	if key == "" {
		return "", false
	}
	data, err := os.ReadFile(s.aliasPath(key))
	if err != nil {
		return "", false
	}
	var a alias
	if err := json.Unmarshal(data, &a); err != nil || a.Digest == "" {
		return "", false // Asked for again, it is written anew.
	}
	return a.Digest, true
}

// resolve remembers that key, for people name, is the image with this digest.
func (s *Store) resolve(key, name, digest string) error {
	if key == "" {
		return nil
	}
	return s.write(s.aliasPath(key), alias{Name: name, Digest: digest}, os.Rename)
}

// stored returns the image if the store has it whole, and leases it.
func (s *Store) stored(ref, digest string) *Image {
	f, err := s.lease(digest)
	if err != nil {
		return nil
	}
	var r record
	if err := json.NewDecoder(io.NewSectionReader(f, 0, 1<<30)).Decode(&r); err != nil || r.Digest != digest {
		s.dropBroken(digest)
		return nil
	}
	img := &Image{Ref: ref, Digest: r.Digest, Config: r.Config, UserXattr: s.userXattr}
	for _, chain := range r.Chain {
		dir := filepath.Join(s.layerPath(chain), "fs")
		if _, err := os.Lstat(dir); err != nil {
			return nil // Removed by hand, or made for another way of mounting.
		}
		img.Layers = append(img.Layers, dir)
	}
	if st, err := f.Stat(); err == nil && time.Since(st.ModTime()) > time.Minute {
		now := time.Now()
		_ = os.Chtimes(s.recordPath(digest), now, now) // At worst it is pruned too early.
	}
	return img
}

// lease returns the image's record, locked so that nobody prunes it while this store is open.
func (s *Store) lease(digest string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.recordPath(digest)
	if f := s.leases[digest]; f != nil {
		if isAt(f, path) {
			return f, nil
		}
		f.Close()
		delete(s.leases, digest)
	}
	if s.closed {
		return nil, os.ErrClosed
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f, unix.LOCK_SH); err != nil {
		f.Close()
		return nil, err // It is being pruned.
	}
	if !isAt(f, path) {
		f.Close()
		return nil, os.ErrNotExist
	}
	s.leases[digest] = f
	return f, nil
}

// dropBroken removes a record that can't be read, so that the image is made anew.
func (s *Store) dropBroken(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.leases[digest]; f != nil {
		f.Close()
		delete(s.leases, digest)
	}
	_ = os.Remove(s.recordPath(digest))
}

// remember writes the image's record. One that is there stays, because others may hold a lock on it.
func (s *Store) remember(r record) error {
	err := s.write(s.recordPath(r.Digest), r, func(from, to string) error {
		defer os.Remove(from)
		return os.Link(from, to)
	})
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// write writes v as JSON in a place where nobody looks and then puts it to path.
func (s *Store) write(path string, v any, put func(from, to string) error) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	tmp, err := s.newTempDir()
	if err != nil {
		return err
	}
	defer func() { _ = tmp.remove() }() // what stays, the next Open removes
	file := filepath.Join(tmp.path, "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	return put(file, path)
}
