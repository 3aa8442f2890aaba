package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is how much a store holds, or how much was removed from it.
type Usage struct {
	Images, Layers int
	// Bytes is the sum of the sizes of the layers' files.
	Bytes int64
}

// Usage counts what the store holds.
func (s *Store) Usage() (Usage, error) {
	var u Usage
	records, err := os.ReadDir(s.path("images"))
	if err != nil {
		return u, fmt.Errorf("count the images in %s: %w", s.dir, err)
	}
	u.Images = len(records)
	layers, err := s.allLayers()
	for _, dir := range layers {
		u.Layers++
		u.Bytes += layerBytes(dir)
	}
	return u, err
}

// Prune removes the images that nobody has used for as long as unused, and every layer that belongs to no image. It
// leaves alone what an open store has given out, this one or another process's. While an image is being pulled it
// waits, until ctx ends; pulls wait for it in turn.
func (s *Store) Prune(ctx context.Context, unused time.Duration) (Usage, error) {
	removed, trash, err := s.prune(ctx, unused)
	if trash != nil {
		// Outside of the lock, because large trees take seconds.
		err = errors.Join(err, trash.remove())
	}
	if err != nil {
		err = fmt.Errorf("prune the image store %s: %w", s.dir, err)
	}
	return removed, errors.Join(err, s.sweep())
}

func (s *Store) prune(ctx context.Context, unused time.Duration) (removed Usage, trash *tempDir, err error) {
	alone, err := lockFile(ctx, s.path("locks", "prune"), unix.LOCK_EX)
	if err != nil {
		return removed, nil, err
	}
	defer alone.Close()
	if trash, err = s.newTempDir(); err != nil {
		return removed, nil, err
	}
	kept, n, err := s.pruneRecords(time.Now().Add(-unused))
	removed.Images = n
	if err != nil {
		return removed, trash, err
	}
	layers, err := s.allLayers()
	if err != nil {
		return removed, trash, err
	}
	for n, dir := range layers {
		if kept.chain[filepath.Base(dir)] {
			continue
		}
		bytes := layerBytes(dir)
		if err := os.Rename(dir, filepath.Join(trash.path, fmt.Sprint(n))); err != nil {
			return removed, trash, err
		}
		removed.Layers++
		removed.Bytes += bytes
	}
	return removed, trash, errors.Join(s.pruneAliases(kept), s.pruneLocks())
}

// keep is what the images that stay need.
type keep struct {
	digest, chain map[string]bool
}

func (s *Store) pruneRecords(before time.Time) (keep, int, error) {
	kept := keep{digest: map[string]bool{}, chain: map[string]bool{}}
	entries, err := os.ReadDir(s.path("images"))
	if err != nil {
		return kept, 0, err
	}
	removed := 0
	for _, entry := range entries {
		r, err := s.pruneRecord(s.path("images", entry.Name()), before)
		if err != nil {
			return kept, removed, err
		}
		if r == nil {
			removed++
			continue
		}
		kept.digest[r.Digest] = true
		for _, c := range r.Chain {
			kept.chain[c] = true
		}
	}
	return kept, removed, nil
}

// pruneRecord removes the record, or returns it if it stays.
func (s *Store) pruneRecord(path string, before time.Time) (*record, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := new(record)
	if json.NewDecoder(f).Decode(r) != nil {
		return nil, os.Remove(path)
	}
	if info.ModTime().After(before) {
		return r, nil
	}
	switch err := tryLock(f, unix.LOCK_EX); {
	case errors.Is(err, errLocked):
		return r, nil // In use.
	case err != nil:
		return nil, err
	}
	return nil, os.Remove(path)
}

func (s *Store) pruneAliases(kept keep) error {
	entries, err := os.ReadDir(s.path("refs"))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		path := s.path("refs", entry.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var a alias
		if json.Unmarshal(data, &a) != nil || !kept.digest[a.Digest] {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// pruneLocks removes the layers' lock files. Only makers of images take them, and there is none now.
func (s *Store) pruneLocks() error {
	entries, err := os.ReadDir(s.path("locks"))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.Name() != "prune" {
			errs = append(errs, os.Remove(s.path("locks", entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// allLayers are the directories of all layers, however they were unpacked.
func (s *Store) allLayers() ([]string, error) {
	top, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, entry := range top {
		if !strings.HasPrefix(entry.Name(), "layers") {
			continue
		}
		layers, err := os.ReadDir(s.path(entry.Name()))
		if err != nil {
			return nil, err
		}
		for _, l := range layers {
			dirs = append(dirs, s.path(entry.Name(), l.Name()))
		}
	}
	return dirs, nil
}

func layerBytes(dir string) int64 {
	var info layerInfo
	data, err := os.ReadFile(filepath.Join(dir, "layer.json"))
	if err != nil || json.Unmarshal(data, &info) != nil {
		return 0
	}
	return info.Bytes
}
