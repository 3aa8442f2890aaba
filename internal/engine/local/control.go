package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// maxControlFile bounds what is read of a file that plays could have written, in bytes.
const maxControlFile = 1 << 20

// control reads what shims write to the control directory. Each claim and result is read once.
type control struct {
	dir     string
	inotify *os.File

	mu      sync.Mutex
	claims  map[string]protocol.Claim
	results map[string]protocol.Result
	fresh   map[string]bool // names that have appeared and are not read yet
	events  [16 << 10]byte
}

// watchControl calls changed, from any goroutine, when a state, claim or result has appeared.
func watchControl(dir string, changed func()) (*control, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the control directory: %w: raise fs.inotify.max_user_instances", err)
	}
	c := &control{
		dir: dir, inotify: os.NewFile(uintptr(fd), "inotify"),
		claims: map[string]protocol.Claim{}, results: map[string]protocol.Result{}, fresh: map[string]bool{},
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE); err != nil {
		return nil, errors.Join(fmt.Errorf("watch the control directory %s: %w", dir, err), c.inotify.Close())
	}
	go func() {
		for c.wait(changed) == nil {
		}
	}()
	return c, nil
}

func (c *control) close() { _ = c.inotify.Close() }

// wait reads events as soon as there are some.
func (c *control) wait(changed func()) error {
	raw, err := c.inotify.SyscallConn()
	if err != nil {
		return err
	}
	var relevant bool
	err = raw.Read(func(fd uintptr) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, news := c.drain(int(fd))
		relevant = news
		return n > 0 // with no event to be had, wait for the next
	})
	if err == nil && relevant {
		changed()
	}
	return err
}

// drain notes the names of all events that there are now; it returns how many bytes of events that were. c.mu is held.
func (c *control) drain(fd int) (total int, news bool) {
	buf := c.events[:]
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return total, news
		}
		total += n
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			name := strings.TrimRight(string(buf[at:at+int(event.Len)]), "\x00")
			at += int(event.Len)
			if event.Mask&unix.IN_Q_OVERFLOW != 0 {
				c.list()
				news = true
				continue
			}
			if c.note(name) || strings.HasPrefix(name, "state-") {
				news = true
			}
		}
	}
}

// list notes every name there is: events were lost.
func (c *control) list() {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		c.note(e.Name())
	}
}

func (c *control) note(name string) bool {
	if strings.HasPrefix(name, "claim-") || strings.HasPrefix(name, "result-") {
		c.fresh[name] = true
		return true
	}
	return false
}

// state is the newest of a slot; zero before the first.
func (c *control) state(slot string) protocol.State {
	var s protocol.State
	if b, err := c.read(protocol.StateFile(slot)); err == nil && json.Unmarshal(b, &s) != nil {
		return protocol.State{}
	}
	return s
}

// heard says whether the shim of a container has told a state, or claimed the attempt that it was made for.
func (c *control) heard(slot string, of *container) bool {
	if c.state(slot).Swap == of.swap {
		return true
	}
	_, err := os.Lstat(filepath.Join(c.dir, protocol.ClaimFile(of.token)))
	return of.token != "" && err == nil
}

// attempts are all claims and results up to now.
func (c *control) attempts() (map[string]protocol.Claim, map[string]protocol.Result, error) {
	raw, err := c.inotify.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := raw.Control(func(fd uintptr) { c.drain(int(fd)) }); err != nil {
		return nil, nil, err
	}
	for name := range c.fresh {
		if c.take(name) {
			delete(c.fresh, name)
		}
	}
	return maps.Clone(c.claims), maps.Clone(c.results), nil
}

// take reads one file; false if it is to be read again.
func (c *control) take(name string) bool {
	b, err := c.read(name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if token, ok := strings.CutPrefix(name, "result-"); ok {
		// The first result of an attempt stands; one that a play has forged badly is none.
		if _, known := c.results[token]; !known {
			if r, err := protocol.DecodeResult(b); err == nil && r.Token == token {
				c.results[token] = r
			}
		}
		return true
	}
	token := strings.TrimPrefix(name, "claim-")
	var claim protocol.Claim
	if !protocol.ValidToken(token) || json.Unmarshal(b, &claim) != nil {
		return len(b) > 0 || !protocol.ValidToken(token) // an empty one is being written
	}
	c.claims[token] = claim
	return true
}

func (c *control) read(name string) ([]byte, error) {
	f, err := openLog(filepath.Join(c.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxControlFile))
}

// assign puts an assignment where the slot's shim looks for it.
func (c *control) assign(slot string, a protocol.Assignment) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	name := protocol.AssignFile(slot)
	temp := filepath.Join(c.dir, protocol.TempFile(name))
	_ = os.Remove(temp) // a play may have put something there
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(c.dir, name))
}
