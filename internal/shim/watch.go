package shim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch has changes and results receive a value whenever an assignment or a result may have appeared. It is in force when
// it returns, so whoever looks afterwards misses nothing. fd is the inotify instance of the image before this one, or
// negative.
func (s *Shim) watch(fd int) error {
	var err error
	if fd < 0 {
		fd, err = s.newInotify()
	} else {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		return err
	}
	s.inotify = fd
	s.changes, s.results = make(chan struct{}, 1), make(chan struct{}, 1)
	// Waiting in the runtime's poller, not in read(2): whoever is told goes on at once, without waiting for the runtime
	// to find out that this goroutine is in a system call.
	events := os.NewFile(uintptr(fd), "inotify")
	go func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := events.Read(buf)
			if err != nil {
				warn("reading inotify: " + err.Error())
				return
			}
			assigned, ended := s.news(buf[:n])
			if assigned {
				wake(s.changes)
			}
			if ended {
				wake(s.results)
			}
		}
	}()
	return nil
}

func (s *Shim) newInotify() (int, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("inotify can't be had (fs.inotify.max_user_instances?): %w", err)
	}
	// The kubelet swaps a downward-API volume's ..data link by rename, and shims and engines rename into place: writes
	// don't count.
	dirs := []string{s.ctl.dir}
	if d := filepath.Dir(s.file); d != s.ctl.dir {
		dirs = append(dirs, d)
	}
	for _, d := range dirs {
		if _, err := unix.InotifyAddWatch(fd, d, unix.IN_MOVED_TO); err != nil {
			return -1, fmt.Errorf("the directory %s can't be watched: %w", d, err)
		}
	}
	return fd, nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// news says what the names mean that were renamed into place, here or by a kubelet.
func (s *Shim) news(events []byte) (assigned, ended bool) {
	const header = unix.SizeofInotifyEvent
	own := filepath.Base(s.file)
	for len(events) >= header {
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		if mask&unix.IN_Q_OVERFLOW != 0 || header+size > len(events) {
			return true, true
		}
		name := trimZero(events[header : header+size])
		switch {
		case mask&unix.IN_MOVED_TO == 0, bytes.HasPrefix(name, []byte("state-")):
		case bytes.HasPrefix(name, []byte("result-")):
			ended = true
		case bytes.HasPrefix(name, []byte("assign-")) && string(name) != own:
		default:
			assigned = true
		}
		events = events[header+size:]
	}
	return assigned, ended
}
