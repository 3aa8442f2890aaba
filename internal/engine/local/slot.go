package local

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/image"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

const (
	// maxDeaths in a row end the attempts to keep a container up.
	maxDeaths = 5
	// calm is how long a container must live for its death not to count as one in a row.
	calm = 10 * time.Second
	// firstPause before a container is made anew for the second time in a row; doubled for each one after.
	firstPause = 100 * time.Millisecond
	// silence is how long a shim may take to tell its first state, or to claim its attempt.
	silence = 30 * time.Second
)

// slot makes one slot what the plan wants.
type slot struct {
	engine *Engine
	name   string
	kick   chan struct{}

	mu      sync.Mutex
	wanted  plan.Slot
	killed  bool
	ended   bool
	answer  protocol.State // to an attempt that was taken back before its container came to be
	death   *plan.Death
	problem *plan.Problem
	doing   string
	cancel  context.CancelFunc // of the pull under way

	spec atomic.Pointer[specs.Spec] // of the present container

	// The loop's own.
	have   *container
	made   int // containers so far
	deaths int
	pause  time.Time // no container is made before
}

func newSlot(e *Engine, name string) *slot {
	return &slot{engine: e, name: name, kick: make(chan struct{}, 1)}
}

// want takes what the slot is to become.
func (s *slot) want(w plan.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Swap == s.wanted.Swap && w.Assignment.Seq == s.wanted.Assignment.Seq && w.Assignment.End == nil {
		return
	}
	if s.cancel != nil && (w.Swap != s.wanted.Swap || recalls(w.Assignment)) {
		s.cancel()
	}
	s.wanted = w
	s.wake()
}

// kill ends the slot at once and for good.
func (s *slot) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	if s.cancel != nil {
		s.cancel()
	}
	s.wake()
}

func (s *slot) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// recalls says whether an assignment has nothing to run for a container that doesn't exist yet.
func recalls(a protocol.Assignment) bool { return a.Token == "" || a.Stop || a.End != nil }

// observe tells what the slot is, and whether it has ended because it was told to.
func (s *slot) observe(state protocol.State) (plan.ObservedSlot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer.Swap > state.Swap || s.answer.Swap == state.Swap && s.answer.Seq > state.Seq {
		state = s.answer
	}
	return plan.ObservedSlot{State: state, Death: s.death, Problem: s.problem, Doing: s.doing}, s.ended
}

// set changes what observe tells.
func (s *slot) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.engine.tell()
}

// loop converges until the engine ends.
func (s *slot) loop() {
	defer func() {
		if s.have != nil {
			s.have.destroy()
		}
	}()
	for {
		s.converge()
		var exited <-chan struct{}
		var silent <-chan time.Time
		if s.have != nil {
			exited = s.have.exited
			if !s.have.heard {
				silent = time.After(time.Until(s.have.born.Add(silence)))
			}
		}
		var pause <-chan time.Time
		if d := time.Until(s.pause); d > 0 {
			pause = time.After(d)
		}
		select {
		case <-s.engine.ctx.Done():
			return
		case <-s.kick:
		case <-pause:
		case <-silent:
			s.have.heard = true // looked at once
			if !s.engine.ctl.heard(s.name, s.have) {
				s.have.mute = true
				s.have.signal(unix.SIGKILL)
			}
		case <-exited:
			s.bury()
		}
	}
}

// converge does what there is to do for the newest wish.
func (s *slot) converge() {
	s.mu.Lock()
	w, killed, problem := s.wanted, s.killed, s.problem
	s.mu.Unlock()
	a := w.Assignment
	switch {
	case killed:
		if s.have != nil {
			s.have.destroy()
			s.have = nil
		}
	case a.End != nil:
		if s.have == nil {
			s.set(func() { s.ended = true })
		} else if a.Seq > s.have.seq {
			s.assign(w)
		}
	case s.have == nil || w.Swap > s.have.swap:
		switch {
		case w.Image == "" || time.Now().Before(s.pause):
		case problem != nil && problem.Swap == w.Swap && problem.Seq == a.Seq:
		case recalls(a):
			s.set(func() { s.answer = protocol.State{Swap: w.Swap, Seq: a.Seq, Token: a.Token, Phase: protocol.Parked} })
		default:
			s.substitute(w)
		}
	case a.Seq > s.have.seq:
		s.assign(w)
	}
}

// substitute puts a fresh container into the slot. The image comes first, so that a pull leaves the present one alone.
func (s *slot) substitute(w plan.Slot) {
	img, err := s.pull(w)
	if img == nil && err == nil {
		return // it is not wanted any more; what is has woken the loop
	}
	if err != nil {
		s.refuse(w, v1alpha1.ReasonImage, err)
		return
	}
	s.mu.Lock()
	if s.wanted.Swap == w.Swap { // a newer assignment for the same container
		w = s.wanted
	}
	s.mu.Unlock()
	if recalls(w.Assignment) {
		s.wake()
		return
	}
	if !s.ready(&w, img) {
		return
	}
	if s.have != nil {
		s.engine.working.Go(s.have.destroy)
		s.have = nil
	}
	s.made++
	c, err := s.engine.start(s.engine.ctx, w, s.made, img)
	if err != nil {
		if s.engine.ctx.Err() == nil {
			s.refuse(w, v1alpha1.ReasonSlot, fmt.Errorf("slot %s: %w", s.name, err))
		}
		return
	}
	s.have = c
	s.spec.Store(c.spec)
	s.set(func() { s.doing, s.problem = "", nil })
}

// pull gets the image. Without an image or an error it was given up.
func (s *slot) pull(w plan.Slot) (*image.Image, error) {
	ctx, cancel := context.WithCancel(s.engine.ctx)
	defer cancel()
	s.mu.Lock()
	if s.killed || s.wanted.Swap != w.Swap || recalls(s.wanted.Assignment) {
		s.mu.Unlock()
		return nil, nil
	}
	s.cancel, s.doing = cancel, "getting "+w.Image
	s.mu.Unlock()
	img, err := s.engine.cfg.Images.Get(ctx, w.Image)
	s.mu.Lock()
	s.cancel, s.doing = nil, ""
	s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil
	}
	return img, err
}

// assign gives the present container a newer assignment.
func (s *slot) assign(w plan.Slot) {
	if !s.ready(&w, s.have.image) {
		return
	}
	if err := s.have.assign(s.name, w.Assignment); err != nil {
		s.refuse(w, v1alpha1.ReasonSlot, err)
	}
}

// ready completes the assignment of a wish that its image is there for; false if that can't be run, which it tells.
func (s *slot) ready(w *plan.Slot, img *image.Image) bool {
	a, err := complete(*w, img)
	if err != nil {
		s.refuse(*w, v1alpha1.ReasonImage, err)
		return false
	}
	if err := fits(a); err != nil {
		s.refuse(*w, v1alpha1.ReasonTooLarge, err)
		return false
	}
	w.Assignment = a
	return true
}

// complete fills in what the image knows.
func complete(w plan.Slot, img *image.Image) (protocol.Assignment, error) {
	a := w.Assignment
	if a.Token == "" || a.Script != "" || a.End != nil {
		return a, nil
	}
	argv, err := img.Argv(w.Command, w.Args)
	if err != nil {
		return a, fmt.Errorf("image %s: play %s has nothing to run: %w", w.Image, a.Play, err)
	}
	a.Argv = argv
	return a, nil
}

// fits holds an assignment against what an environment variable can carry.
func fits(a protocol.Assignment) error {
	b, err := json.Marshal(a)
	if err == nil && len(b) > protocol.MaxAssignment {
		err = fmt.Errorf("play %s has %d bytes of command, script and environment, at most %d are allowed: pass what is large in a file on the scratch volume",
			a.Play, len(b), protocol.MaxAssignment)
	}
	return err
}

// refuse says that the wish can't be had.
func (s *slot) refuse(w plan.Slot, reason string, err error) {
	s.set(func() {
		s.doing = ""
		s.problem = &plan.Problem{Swap: w.Swap, Seq: w.Assignment.Seq, Reason: reason, Message: err.Error()}
	})
}

// bury notes how the container ended, and decides whether there will be another.
func (s *slot) bury() {
	c := s.have
	s.have = nil
	s.engine.working.Go(c.delete)
	s.mu.Lock()
	w := s.wanted
	s.mu.Unlock()
	if w.Assignment.End != nil && slices.Contains([]int{protocol.ExitDone, protocol.ExitFailed}, c.status.ExitStatus()) {
		return // as it was told; converge says so
	}
	if time.Since(c.born) > calm {
		s.deaths = 0
	}
	s.deaths++
	if s.deaths > 1 {
		s.pause = time.Now().Add(firstPause << (s.deaths - 2))
	}
	s.set(func() {
		s.death = &plan.Death{Swap: c.swap, OOM: c.oom, Message: c.obituary()}
		if s.deaths >= maxDeaths {
			s.problem = &plan.Problem{
				Swap: w.Swap, Seq: w.Assignment.Seq, Reason: v1alpha1.ReasonSlot,
				Message: fmt.Sprintf("slot %s died %d times in a row; the last time %s", s.name, s.deaths, c.obituary()),
			}
			s.deaths = 0
		}
	})
}
