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

// parkArg marks the image of the shim that is executed once an attempt has ended; the attempt's token and the number of
// its assignment follow.
const parkArg = "park"

// park replaces the process by a fresh image of itself, which publishes the staged result and waits. What an attempt
// took of memory is given back to the last page that way, and the new image catches SIGTERM before anybody can know
// that the attempt has ended and send it. It returns only when it fails.
func (s *Shim) park(token string) error {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, protocol.EnvAssignment+"=") { // up to 120 KiB that nobody needs any more
			env = append(env, kv)
		}
	}
	args := []string{os.Args[0], parkArg, token, strconv.FormatInt(s.have.Seq, 10)}
	if err := unix.Exec("/proc/self/exe", args, env); err != nil {
		return fmt.Errorf("executing the shim again: %w", err)
	}
	return nil
}

// unpark goes on after park.
func (s *Shim) unpark(args []string) error {
	if len(args) != 2 || !protocol.ValidToken(args[0]) {
		return errors.New("the arguments of " + parkArg + " are for the shim's own use")
	}
	s.have.Token = args[0]
	s.have.Seq, _ = strconv.ParseInt(args[1], 10, 64)
	if err := s.ctl.publish(args[0]); err != nil {
		return fmt.Errorf("the result of %s can't be put into place: %w", args[0], err)
	}
	return nil
}
