package shim

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// control is the control directory.
type control string

func (c control) path(name string) string { return filepath.Join(string(c), name) }

func (c control) exists(name string) bool {
	_, err := os.Lstat(c.path(name))
	return err == nil
}

// readAssignment reads the assignment in a file if its number is higher than after; fs.ErrNotExist if there is none such.
func (c control) readAssignment(file string, after int64) (protocol.Assignment, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return protocol.Assignment{}, err
	}
	if len(b) == 0 { // a downward-API file of an annotation that isn't there yet
		return protocol.Assignment{}, fs.ErrNotExist
	}
	if seq, ok := protocol.PeekSeq(b); ok && seq <= after { // a parked shim stays smaller if it decodes nothing
		return protocol.Assignment{}, fs.ErrNotExist
	}
	a, err := protocol.DecodeAssignment(b)
	if err == nil && a.Seq <= after {
		return protocol.Assignment{}, fs.ErrNotExist
	}
	return a, err
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

func (c control) claim(token string) (protocol.Claim, bool) {
	b, err := os.ReadFile(c.path(protocol.ClaimFile(token)))
	if err != nil {
		return protocol.Claim{}, false
	}
	var claim protocol.Claim
	// A shim that died between making and filling the file leaves it empty: the claim stands, nobody may run it.
	if json.Unmarshal(b, &claim) != nil {
		claim.Slot = c.owner(token)
	}
	return claim, true
}

// owner is the slot that a claim's reserve was made by: the reserve is made before the claim and names the slot.
func (c control) owner(token string) string {
	b, _ := os.ReadFile(c.path(protocol.TempFile(protocol.ResultFile(token))))
	var r protocol.Claim
	_ = json.Unmarshal(trimZero(b), &r)
	return r.Slot
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
// that fills up while the attempt runs can't lose its end.
func (c control) makeClaim(token string, claim protocol.Claim) error {
	if c.exists(protocol.ClaimFile(token)) {
		return fs.ErrExist
	}
	b, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	reserve, err := os.OpenFile(c.path(protocol.TempFile(protocol.ResultFile(token))), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	defer reserve.Close()
	if err := unix.Fallocate(int(reserve.Fd()), 0, 0, protocol.ResultReserve); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return &fs.PathError{Op: "reserve", Path: reserve.Name(), Err: err}
	}
	if _, err := reserve.WriteAt(b, 0); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path(protocol.ClaimFile(token)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// writeResult puts a result into place. Where the disk has no room for all of it, its outputs are left out.
func (c control) writeResult(r protocol.Result) error {
	if err := c.stageResult(r); err != nil {
		return err
	}
	return c.publish(r.Token)
}

// stageResult writes the result beside its place, into the room that the claim has taken.
func (c control) stageResult(r protocol.Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = c.fill(r.Token, b)
	if err != nil && len(b) > protocol.ResultReserve {
		r.Outputs, r.Reason = nil, protocol.BadOutput
		r.Message = "the outputs could not be kept: " + err.Error()
		if b, err = json.Marshal(r); err == nil {
			err = c.fill(r.Token, b)
		}
	}
	return err
}

func (c control) publish(token string) error {
	name := protocol.ResultFile(token)
	return os.Rename(c.path(protocol.TempFile(name)), c.path(name))
}

func (c control) fill(token string, b []byte) error {
	f, err := os.OpenFile(c.path(protocol.TempFile(protocol.ResultFile(token))), os.O_CREATE|os.O_WRONLY, 0o666)
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

// writeState puts the state of a slot into place.
func (c control) writeState(slot string, s protocol.State) error {
	name := protocol.StateFile(slot)
	temp := c.path(protocol.TempFile(name))
	err := os.WriteFile(temp, s.Encode(), 0o666)
	if errors.Is(err, fs.ErrPermission) { // what a former container of another user has left
		_ = os.Remove(temp)
		err = os.WriteFile(temp, s.Encode(), 0o666)
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, c.path(name))
}
