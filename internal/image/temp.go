package image

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/opencontainers/umoci/pkg/fseval"
	"golang.org/x/sys/unix"
)

// tempDir is a directory in the store's tmp whose lock says that its maker lives.
type tempDir struct {
	path string
	dir  *os.File
	s    *Store
}

func (s *Store) newTempDir() (*tempDir, error) {
	for {
		path, err := os.MkdirTemp(s.path("tmp"), "")
		if err != nil {
			return nil, err
		}
		dir, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // Swept before it could be locked.
		} else if err != nil {
			return nil, err
		}
		if err := tryLock(dir, unix.LOCK_EX); err == nil && isAt(dir, path) {
			return &tempDir{path: path, dir: dir, s: s}, nil
		} else if err != nil && !errors.Is(err, errLocked) {
			dir.Close()
			return nil, err
		}
		dir.Close()
	}
}

func (t *tempDir) remove() error {
	defer t.dir.Close()
	return t.s.removeAll(t.path)
}

// sweep removes what processes that are dead have left in tmp.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		path := filepath.Join(s.path("tmp"), entry.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // Another sweep was faster.
		}
		if tryLock(f, unix.LOCK_EX) == nil {
			errs = append(errs, s.removeAll(path))
		}
		f.Close()
	}
	return errors.Join(errs...)
}

// removeAll removes a tree that was unpacked from an image.
func (s *Store) removeAll(path string) error {
	if s.rootless {
		return fseval.Rootless.RemoveAll(path) // Images hold directories that their owner may not enter.
	}
	return os.RemoveAll(path)
}
