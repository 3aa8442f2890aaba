package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// control is the control directory, as the shim of one slot uses it.
type control struct{ dir, slot string }

func (c control) path(name string) string { return filepath.Join(c.dir, name) }

// reserve is the file that holds the room for a result until it is renamed into place. Each slot has its own, so that a
// shim that wanted to claim the token as well, and came too late, can't harm it.
func (c control) reserve(token string) string {
	return c.path(protocol.TempFile(protocol.ResultFile(token)) + "-" + c.slot)
}

func (c control) exists(name string) bool {
	_, err := os.Lstat(c.path(name))
	return err == nil
}

// readAssignment reads the assignment in a file if its number is higher than after; fs.ErrNotExist if there is none such.
func readAssignment(file string, after int64) (protocol.Assignment, error) {
	if !newer(file, after) {
		return protocol.Assignment{}, fs.ErrNotExist
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return protocol.Assignment{}, err
	}
	if len(b) == 0 { // a downward-API file of an annotation that isn't there yet
		return protocol.Assignment{}, fs.ErrNotExist
	}
	a, err := protocol.DecodeAssignment(b)
	if err == nil && a.Seq <= after {
		return protocol.Assignment{}, fs.ErrNotExist
	}
	return a, err
}

// newer says whether a file may hold an assignment of a higher number than after. It looks at its beginning only: a
// parked shim stays smaller that way.
func newer(file string, after int64) bool {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	defer unix.Close(fd)
	var head [32]byte
	n, err := unix.Read(fd, head[:])
	if err != nil {
		return true
	}
	seq, ok := protocol.PeekSeq(head[:n])
	return !ok || seq > after
}

// gate says whether all needs are met, or one of them never will be.
func (c control) gate(needs []protocol.Need) (open, shut bool) {
	open = true
	for _, n := range needs {
		b, err := os.ReadFile(c.path(protocol.ResultFile(n.Token)))
		if err != nil {
			open = false
			continue
		}
		if r, err := protocol.DecodeResult(b); !n.Any && (err != nil || !r.Succeeded()) {
			return false, true
		}
	}
	return open, false
}

// claim reads a claim; false if there is none.
func (c control) claim(token string) (protocol.Claim, bool) {
	b, err := os.ReadFile(c.path(protocol.ClaimFile(token)))
	if err != nil {
		return protocol.Claim{}, false
	}
	var claim protocol.Claim
	// A shim that died between making and filling the file leaves it empty, and its reserve beside it: the claim
	// stands, nobody may run it.
	if json.Unmarshal(b, &claim) != nil {
		if _, err := os.Lstat(c.reserve(token)); err == nil {
			claim.Slot = c.slot
		}
	}
	return claim, true
}

func trimZero(b []byte) []byte {
	for i, x := range b {
		if x == 0 {
			return b[:i]
		}
	}
	return b
}

// makeClaim claims a token. fs.ErrExist means that it has been before. Room for the result is taken first, so that a disk
// that fills up while the attempt runs can't lose its end. After an error nothing of it is left.
func (c control) makeClaim(token string, claim protocol.Claim) error {
	if c.exists(protocol.ClaimFile(token)) {
		return fs.ErrExist
	}
	b, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	if err := c.makeReserve(token); err != nil {
		_ = os.Remove(c.reserve(token))
		return err
	}
	f, err := os.OpenFile(c.path(protocol.ClaimFile(token)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		_ = os.Remove(c.reserve(token))
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		_ = os.Remove(c.reserve(token))
	}
	return err
}

func (c control) makeReserve(token string) error {
	f, err := create(c.reserve(token), os.O_TRUNC)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, protocol.ResultReserve)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return &fs.PathError{Op: "reserve", Path: f.Name(), Err: err}
	}
	return nil
}

// create opens a file for writing. One that a former container of the slot has left as another user is replaced.
func create(path string, flags int) (*os.File, error) {
	flags |= os.O_CREATE | os.O_WRONLY
	f, err := os.OpenFile(path, flags, 0o666)
	if errors.Is(err, fs.ErrPermission) {
		_ = os.Remove(path)
		f, err = os.OpenFile(path, flags, 0o666)
	}
	return f, err
}

// maxMessage bounds a result's message in bytes, so that it fits the reserve however JSON writes it.
const maxMessage = 512

// writeResult puts a result into place. Its error names the attempt.
func (c control) writeResult(r protocol.Result) error {
	if err := c.fillResult(r); err != nil {
		return fmt.Errorf("the result of %s can't be written: %w", r.Token, err)
	}
	return nil
}

// fillResult writes a result into the room that the claim has taken; where the disk has no more, outputs are left out.
func (c control) fillResult(r protocol.Result) error {
	if len(r.Message) > maxMessage {
		r.Message = strings.ToValidUTF8(r.Message[:maxMessage], "") + "…"
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = c.fill(r.Token, b)
	if err != nil && len(r.Outputs) > 0 {
		if r.Succeeded() {
			r.Reason, r.Message = protocol.BadOutput, "the outputs could not be kept: "+err.Error()
		}
		r.Outputs = nil
		if b, err = json.Marshal(r); err == nil {
			err = c.fill(r.Token, b)
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(c.reserve(r.Token), c.path(protocol.ResultFile(r.Token)))
}

func (c control) fill(token string, b []byte) error {
	f, err := create(c.reserve(token), 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	return errors.Join(err, f.Close())
}

// writeScript writes an attempt's script to where it is executed, and returns its path.
func (c control) writeScript(token, text string) (string, error) {
	path := c.path(protocol.ScriptFile(token))
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o755) // whatever the umask
}

// writeState puts the state of the slot into place.
func (c control) writeState(s protocol.State) error {
	name := protocol.StateFile(c.slot)
	f, err := create(c.path(protocol.TempFile(name)), os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(s.Encode())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path(name))
}
