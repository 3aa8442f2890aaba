package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errLocked is what tryLock returns when someone else holds the lock.
var errLocked = errors.New("locked by another process")

// tryLock takes the lock on an open file or directory, unix.LOCK_SH or unix.LOCK_EX. It is freed when f is closed, and
// by the kernel when the process dies.
func tryLock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errLocked
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// lock waits until it has the lock or ctx ends. It polls, because a thread that waits in flock(2) can't be called off.
func lock(ctx context.Context, f *os.File, how int) error {
	const longest = 50 * time.Millisecond
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		if err := tryLock(f, how); !errors.Is(err, errLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// lockFile opens the lock file at path, makes it if need be, and locks it. Close the file to free the lock.
func lockFile(ctx context.Context, path string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(ctx, f, how); err != nil {
			f.Close()
			return nil, err
		}
		if isAt(f, path) {
			return f, nil
		}
		f.Close() // It was removed between the two calls: what we hold locks out nobody.
	}
}

// isAt says whether f is still what stands at path.
func isAt(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(is, there)
}
