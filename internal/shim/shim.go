// Package shim owns PID 1 of a slot: it takes up assignments, waits at their gates, runs each attempt at most once, and
// parks until its container is substituted.
//
// It is linked into a binary that waits in every container of a pod, so it imports nothing but the standard library,
// golang.org/x/sys and package protocol, and of these only what is small. It decides nothing about the drive.
package shim

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Shim is a slot's first process.
type Shim struct {
	ctl     control
	swap    int64
	file    string // where later assignments appear
	have    protocol.Assignment
	secrets map[string]string
	signals signals
	changes chan struct{} // an assignment may have appeared
	results chan struct{} // a result has appeared
	inotify int
	large   bool           // this image has decoded or run something
	last    protocol.State // that has been told
}

// Main is the whole life of a shim; it returns its exit code.
func Main(args, environ []string) int {
	runtime.GOMAXPROCS(1) // each further one has caches of its own
	env := split(environ)
	s := &Shim{
		ctl:     control{dir: value(env, protocol.EnvControl, protocol.ControlDir), slot: env[protocol.EnvSlot]},
		secrets: secrets(env),
	}
	s.swap, _ = strconv.ParseInt(env[protocol.EnvSwap], 10, 64)
	s.file = value(env, protocol.EnvAssignmentFile, s.ctl.path(protocol.AssignFile(s.ctl.slot)))
	if s.ctl.slot == "" {
		return complain(protocol.ExitConfig, protocol.EnvSlot+" is not set: the shim is started by nohuddle, not by hand")
	}
	// A play runs as the same user as the shim; it must not read other plays' secrets from /proc/1/environ.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	// Orphans of a play become the shim's children also where it is not PID 1, as in tests.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	s.signals = catch()
	before, err := parkedFrom(args)
	if err != nil {
		return complain(protocol.ExitConfig, err.Error())
	}
	inotify := -1
	if before != nil {
		inotify = before.inotify
	}
	if err := s.watch(inotify); err != nil {
		return complain(protocol.ExitControl, err.Error())
	}
	if before != nil {
		s.have.Token, s.have.Seq = before.token, before.seq
		reapAll() // what ended while there was no handler for SIGCHLD
	}
	if text := env[protocol.EnvAssignment]; text != "" {
		a, err := protocol.DecodeAssignment([]byte(text))
		if err != nil {
			return complain(protocol.ExitConfig, protocol.EnvAssignment+": "+err.Error())
		}
		if a.Seq > s.have.Seq {
			s.have, s.large = a, true
		}
	}
	return s.loop()
}

// loop takes up one assignment after the other until it is told to end.
func (s *Shim) loop() int {
	var phase protocol.Phase
	for {
		if s.signals.told() {
			return protocol.ExitTerm
		}
		// A parked shim has nothing to look at but new assignments: it stays small in a pod of a thousand plays.
		if s.reload() || phase != protocol.Parked {
			var code int
			var exit bool
			if phase, code, exit = s.advance(); exit {
				return code
			}
		}
		if phase == running {
			continue
		}
		if code, exit := s.rest(phase); exit {
			return code
		}
	}
}

// running is the phase of a shim that has just run an attempt, or was about to.
const running protocol.Phase = ""

// advance does what there is to do, and returns what the shim is about then. exit says that it is to end with code.
func (s *Shim) advance() (phase protocol.Phase, code int, exit bool) {
	phase, err := s.phase()
	if err != nil {
		return phase, complain(protocol.ExitControl, err.Error()), true
	}
	if phase == protocol.Waiting {
		open, shut := s.ctl.gate(s.have.Gate)
		switch {
		case open:
			code, exit = s.attempt()
			return running, code, exit
		case shut:
			phase = protocol.Closed
		}
	}
	err = s.tell(phase)
	if s.have.End != nil { // the pod's phase tells more than the state of a slot that is no more
		return phase, *s.have.End, true
	}
	if err != nil {
		return phase, complain(protocol.ExitControl, "the state of the slot can't be written: "+err.Error()), true
	}
	return phase, 0, false
}

// phase says what the present assignment asks for: to wait at its gate, or nothing (any more).
func (s *Shim) phase() (protocol.Phase, error) {
	t := s.have.Token
	if t == "" || s.have.End != nil || s.ctl.exists(protocol.ResultFile(t)) {
		return protocol.Parked, nil
	}
	if c, ok := s.ctl.claim(t); ok {
		if c.Slot == s.ctl.slot {
			return protocol.Parked, s.interrupted(c)
		}
		return protocol.Parked, nil
	}
	if s.have.Stop {
		return protocol.Parked, nil
	}
	return protocol.Waiting, nil
}

// interrupted writes the result of an attempt that this slot began and whose container died.
func (s *Shim) interrupted(c protocol.Claim) error {
	return s.ctl.writeResult(protocol.Result{
		Token: s.have.Token, ExitCode: 128 + int(syscall.SIGKILL), Reason: protocol.Interrupted,
		Message: "the container died while the attempt ran", StartedAt: c.StartedAt, FinishedAt: time.Now(),
	})
}

// restless is how long a shim that is large waits for what comes next before it makes itself small: to do so takes some
// milliseconds of a CPU, and mostly the slot is substituted soon.
const restless = 300 * time.Millisecond

// rest waits until there may be something new to do. exit says that the shim is to end with code.
func (s *Shim) rest(phase protocol.Phase) (code int, exit bool) {
	var long <-chan time.Time
	results := s.results
	if phase == protocol.Parked {
		results = nil
		if s.large {
			long = time.After(restless)
		}
	}
	select {
	case <-long:
		s.large = false // also if it stays large: to try again would not help
		if err := s.park(); err != nil {
			warn(err.Error())
		}
	case <-s.signals.end:
		return protocol.ExitTerm, true
	case <-s.signals.child:
		reapAll()
	case <-s.signals.other:
	case <-s.changes:
	case <-results:
	}
	return 0, false
}

// reload takes the newest assignment from the file, and says whether there was one; one that is not newer, or can't be
// read, is left.
func (s *Shim) reload() bool {
	a, err := readAssignment(s.file, s.have.Seq)
	switch {
	case err == nil:
		s.have, s.large = a, true
	case !errors.Is(err, fs.ErrNotExist):
		warn("ignoring " + s.file + ": " + err.Error())
	}
	return err == nil
}

// tell puts the shim's state into place, unless it is there.
func (s *Shim) tell(p protocol.Phase) error {
	now := protocol.State{Swap: s.swap, Seq: s.have.Seq, Token: s.have.Token, Phase: p}
	if now == s.last {
		return nil
	}
	s.last = now
	return s.ctl.writeState(now)
}

func complain(code int, message string) int {
	warn(message)
	return code
}

func warn(message string) {
	_, _ = os.Stderr.WriteString("nohuddle-shim: " + message + "\n")
}

func split(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

func value(env map[string]string, name, fallback string) string {
	if v := env[name]; v != "" {
		return v
	}
	return fallback
}

func secrets(env map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		if name, ok := strings.CutPrefix(k, protocol.EnvSecretPrefix); ok {
			out[name] = v
		}
	}
	return out
}
