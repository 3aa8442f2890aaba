package shim

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watch has changes receive a value whenever a result or an assignment may have appeared. It is in force when it
// returns, so whoever looks afterwards misses nothing. fd is the inotify instance of the image before this one, or
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
	s.changes = make(chan struct{}, 1)
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
			if relevant(buf[:n]) {
				select {
				case s.changes <- struct{}{}:
				default:
				}
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

// relevant says whether among the events is a name that is renamed into place, here or by a kubelet.
func relevant(events []byte) bool {
	const header = unix.SizeofInotifyEvent
	for len(events) >= header {
		size := int(uint32(events[12]) | uint32(events[13])<<8 | uint32(events[14])<<16 | uint32(events[15])<<24)
		if header+size > len(events) {
			return true
		}
		name := string(trimZero(events[header : header+size]))
		mask := uint32(events[4]) | uint32(events[5])<<8 | uint32(events[6])<<16 | uint32(events[7])<<24
		if mask&unix.IN_Q_OVERFLOW != 0 || mask&unix.IN_MOVED_TO != 0 && name != "" && !isState(name) {
			return true
		}
		events = events[header+size:]
	}
	return false
}

func isState(name string) bool {
	const prefix = "state-"
	return len(name) > len(prefix) && name[:len(prefix)] == prefix
}
