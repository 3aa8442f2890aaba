// Package store owns the drives that this user has run on this machine: a folder for each with its Drive object and the
// logs of its plays. It must not know how drives run.
//
//	<dir>/drives/<name>/drive.json   the Drive, newest status
//	<dir>/drives/<name>/lock         locked (flock) by the process that runs the drive
//	<dir>/drives/<name>/logs/        one file for each attempt
//
// While a drive runs, its engine keeps the pod in the same folder.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/plan"
)

// Store is a folder of drives. Several processes may use it.
type Store struct{ dir string }

// Open opens the store in dir, which need not exist. Default of dir: nohuddle in the user's state folder
// ($XDG_STATE_HOME, ~/.local/state).
func Open(dir string) (*Store, error) {
	if dir == "" {
		state := os.Getenv("XDG_STATE_HOME")
		if state == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("find a folder for drives: %w: set XDG_STATE_HOME or HOME", err)
			}
			state = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(state, "nohuddle")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store of drives %s: %w", dir, err)
	}
	return &Store{dir: dir}, nil
}

// Dir is the folder of a drive.
func (s *Store) Dir(name string) string { return filepath.Join(s.dir, "drives", name) }

// NotFoundError says that there is no drive of this name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no drive %s: `nohuddle list` shows those that there are", e.Name)
}

// TakenError says that there is a drive of this name.
type TakenError struct{ Name string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("there is a drive %s already: choose another --name, or remove it with `nohuddle prune %s`", e.Name, e.Name)
}

// Entry is a drive that this process runs.
type Entry struct {
	// Dir is the drive's folder.
	Dir  string
	lock *os.File
}

// Create makes room for a new drive and locks it until Close. The error is a *TakenError where the name is in use.
// Nobody sees the drive before it is stored and locked.
func (s *Store) Create(drive *v1alpha1.Drive) (*Entry, error) {
	e := &Entry{Dir: s.Dir(drive.Name)}
	if _, err := os.Lstat(e.Dir); err == nil {
		return nil, &TakenError{drive.Name}
	}
	if err := e.create(drive); errors.Is(err, fs.ErrExist) {
		return nil, &TakenError{drive.Name}
	} else if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Entry) create(drive *v1alpha1.Drive) error {
	fail := func(err error) error {
		return fmt.Errorf("make the folder of drive %s, %s: %w%s", drive.Name, e.Dir, bare(err), nextStep(err))
	}
	if err := os.MkdirAll(filepath.Dir(e.Dir), 0o755); err != nil {
		return fail(err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(e.Dir), newPrefix)
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(temp) // is not there any more if all goes well
	if err := os.Chmod(temp, 0o755); err != nil {
		return fail(err)
	}
	if e.lock, err = takeLock(temp, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fail(err)
	}
	if err := save(temp, drive); err != nil {
		return errors.Join(err, e.lock.Close())
	}
	if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, e.Dir, unix.RENAME_NOREPLACE); err != nil {
		return errors.Join(fail(err), e.lock.Close())
	}
	return nil
}

// newPrefix begins the names of folders that Create is at work on.
const newPrefix = ".new-"

// Save stores the drive; if this process dies meanwhile, the one before or this one is there.
func (e *Entry) Save(drive *v1alpha1.Drive) error { return save(e.Dir, drive) }

func save(dir string, drive *v1alpha1.Drive) error {
	b, err := json.MarshalIndent(drive, "", "  ")
	if err != nil {
		return fmt.Errorf("save drive %s: %w", drive.Name, err)
	}
	path := filepath.Join(dir, "drive.json")
	err = os.WriteFile(path+".tmp", append(b, '\n'), 0o644)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		_ = os.Remove(path + ".tmp")
		return fmt.Errorf("save drive %s in %s: %w%s", drive.Name, dir, bare(err), nextStep(err))
	}
	return nil
}

// nextStep is what the user can do about an error of the file system, to be put behind it.
func nextStep(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return ": free some space there, or run `nohuddle prune`"
	}
	return ""
}

// bare is the system's error without the path of a temporary file, which helps nobody.
func bare(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

// Close gives the drive free.
func (e *Entry) Close() error { return e.lock.Close() }

// tryLock takes the lock of a drive's folder; unix.EWOULDBLOCK if another process has it.
func tryLock(dir string) (*os.File, error) { return takeLock(dir, unix.LOCK_EX|unix.LOCK_NB) }

func takeLock(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isName keeps what users type inside the store.
func isName(name string) bool {
	return name != "" && !strings.Contains(name, "/") && !strings.HasPrefix(name, ".")
}

// Get returns a drive. One whose process was killed before the end is Failed.
func (s *Store) Get(name string) (*v1alpha1.Drive, error) {
	if !isName(name) {
		return nil, &NotFoundError{name}
	}
	path := filepath.Join(s.Dir(name), "drive.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{name}
	}
	if err != nil {
		return nil, fmt.Errorf("read drive %s: %w", name, err)
	}
	var drive v1alpha1.Drive
	if err := json.Unmarshal(b, &drive); err != nil {
		return nil, fmt.Errorf("read drive %s: %s: %w: remove it with `nohuddle prune %s`", name, path, err, name)
	}
	if !drive.Status.Phase.Terminal() && !s.Running(name) {
		last := drive.CreationTimestamp.Time // the last that is known of it
		if info, err := os.Stat(path); err == nil {
			last = info.ModTime()
		}
		drive.Status = plan.Abandon(drive.Status, last, v1alpha1.DriveFailed, "Killed", "the process that ran the drive was killed")
	}
	return &drive, nil
}

// Running says whether a process runs the drive now.
func (s *Store) Running(name string) bool {
	f, err := takeLock(s.Dir(name), unix.LOCK_SH|unix.LOCK_NB) // shared: those who ask don't mistake each other for the runner
	if err == nil {
		f.Close()
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

// List returns all drives, the newest first. A drive that can't be read is left out, and is in the error.
func (s *Store) List() ([]*v1alpha1.Drive, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "drives"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list drives: %w", err)
	}
	var out []*v1alpha1.Drive
	var errs []error
	for _, e := range entries {
		if !isName(e.Name()) {
			continue
		}
		d, err := s.Get(e.Name())
		if _, gone := errors.AsType[*NotFoundError](err); gone {
			continue // it has just been removed
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b *v1alpha1.Drive) int { return begun(b).Compare(begun(a)) })
	return out, errors.Join(errs...)
}

// begun is when a drive began, to the microsecond where it has come so far: creation times are cut to the second.
func begun(d *v1alpha1.Drive) time.Time {
	if d.Status.StartedAt != nil {
		return d.Status.StartedAt.Time
	}
	return d.CreationTimestamp.Time
}

// Abandoned calls f with every drive whose process is gone, while nobody else can take it.
func (s *Store) Abandoned(f func(name, dir string) error) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "drives"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list drives: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			s.sweep(e.Name())
		}
		if !isName(e.Name()) {
			continue
		}
		dir := s.Dir(e.Name())
		lock, err := tryLock(dir)
		if err != nil {
			continue // it runs, or has just been removed
		}
		errs = append(errs, f(e.Name(), dir), lock.Close())
	}
	return errors.Join(errs...)
}

// creationTime is longer than any Create takes.
const creationTime = time.Minute

// sweep removes the folder of a Create that was killed.
func (s *Store) sweep(name string) {
	info, err := os.Stat(s.Dir(name))
	if err != nil || time.Since(info.ModTime()) < creationTime {
		return
	}
	if lock, err := tryLock(s.Dir(name)); err == nil {
		_ = os.RemoveAll(s.Dir(name)) // the next look finds it again
		lock.Close()
	}
}

// ErrRunning is what Remove returns for a drive that runs.
var ErrRunning = errors.New("it runs")

// Remove removes a drive and its logs. The error is ErrRunning for one that runs.
func (s *Store) Remove(name string) error {
	if !isName(name) {
		return &NotFoundError{name}
	}
	if _, err := os.Stat(s.Dir(name)); errors.Is(err, fs.ErrNotExist) {
		return &NotFoundError{name}
	}
	lock, err := tryLock(s.Dir(name))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("remove drive %s: %w", name, ErrRunning)
	}
	if err != nil {
		return fmt.Errorf("remove drive %s: %w", name, err)
	}
	defer lock.Close()
	if err := os.RemoveAll(s.Dir(name)); err != nil {
		return fmt.Errorf("remove drive %s: %w", name, err)
	}
	return nil
}
