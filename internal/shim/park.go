package shim

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// parkArg marks the image of the shim that is executed once an attempt has ended; the inotify instance and the number and
// the token of the assignment follow.
const parkArg = "park"

// park replaces the process, whose attempt's result is in place, by a fresh image of itself: what the attempt took of
// memory is given back to the last page that way. It returns only when it fails.
//
// A SIGTERM that comes within the millisecond between the two images is lost where the shim is the first process of a PID
// namespace: it has no handler then, and the Go runtime unblocks SIGTERM before it has one, so that blocking it doesn't
// help. The container then ends when its grace period does.
func (s *Shim) park() error {
	// Closing an inotify instance takes the kernel some milliseconds, and a name that appears meanwhile would be missed.
	if _, err := unix.FcntlInt(uintptr(s.inotify), unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("keeping the inotify instance: %w", err)
	}
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, protocol.EnvAssignment+"=") { // up to 120 KiB that nobody needs any more
			env = append(env, kv)
		}
	}
	token := s.have.Token
	if !s.ctl.exists(protocol.ResultFile(token)) {
		token = "" // taken back before it ran: the new image must not take it for one to run
	}
	args := []string{os.Args[0], parkArg, strconv.Itoa(s.inotify), strconv.FormatInt(s.have.Seq, 10), token}
	s.signals.settle()
	if len(s.signals.end) > 0 {
		return nil // loop sees it
	}
	if err := unix.Exec("/proc/self/exe", args, env); err != nil {
		return fmt.Errorf("executing the shim again: %w", err)
	}
	return nil
}

// parked is what park hands to the image that it executes.
type parked struct {
	token   string
	seq     int64
	inotify int
}

// parkedFrom reads the arguments of a shim; nil if it was not executed by park.
func parkedFrom(args []string) (*parked, error) {
	if len(args) < 2 || args[1] != parkArg {
		return nil, nil
	}
	if len(args) == 5 {
		inotify, err1 := strconv.Atoi(args[2])
		seq, err2 := strconv.ParseInt(args[3], 10, 64)
		if err1 == nil && err2 == nil && (args[4] == "" || protocol.ValidToken(args[4])) {
			return &parked{token: args[4], seq: seq, inotify: inotify}, nil
		}
	}
	return nil, errors.New("the arguments of " + parkArg + " are for the shim's own use")
}
