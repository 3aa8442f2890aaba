// Package fake owns a simulated pod: slots whose shims keep the protocol, without processes, files or time of their own.
// Whoever holds it decides what happens next, move by move, so that tests can walk through every order of events, and
// `nohuddle plan` through one.
//
// It stands beside the real engines in tests, never instead of them.
package fake

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Pod is the simulated pod.
type Pod struct {
	// Violations lists every breach of the protocol by what was applied, such as a swap of a slot whose play runs.
	Violations []string
	// Started lists the tokens of all attempts in the order in which they were executed.
	Started []string

	slots   []*slot
	claims  map[string]protocol.Claim
	results map[string]protocol.Result
	lost    bool
}

type slot struct {
	want plan.Slot
	have container
	// refused is the problem of the wanted container, if it can't be had.
	refused *plan.Problem
	death   *plan.Death
}

// container is what runs in a slot; the zero value is none.
type container struct {
	swap  int64
	seq   int64
	task  protocol.Assignment
	phase phase
}

type phase int

const (
	none phase = iota
	waiting
	closed
	parked
	running
	stopping
	ended
)

// New makes a pod without slots.
func New() *Pod {
	return &Pod{claims: map[string]protocol.Claim{}, results: map[string]protocol.Result{}}
}

// Apply takes the pod that a step wants.
func (p *Pod) Apply(want plan.Pod) {
	for i, w := range want.Slots {
		if i == len(p.slots) {
			p.slots = append(p.slots, &slot{})
		}
		s := p.slots[i]
		if w.Swap < s.want.Swap || w.Assignment.Seq < s.want.Assignment.Seq {
			p.violate("slot %s went back from %d/%d to %d/%d", w.Name, s.want.Swap, s.want.Assignment.Seq, w.Swap, w.Assignment.Seq)
		}
		if w.Swap > s.want.Swap && (s.have.phase == running || s.have.phase == stopping) {
			p.violate("slot %s is to be swapped while %s runs in it", w.Name, s.have.task.Token)
		}
		if s.refused != nil && (w.Swap != s.refused.Swap || w.Assignment.Seq != s.refused.Seq) && w.Swap != s.want.Swap {
			s.refused = nil
		}
		s.want = w
	}
}

func (p *Pod) violate(format string, args ...any) {
	p.Violations = append(p.Violations, fmt.Sprintf(format, args...))
}

// Observe tells what an engine would see.
func (p *Pod) Observe() plan.Observed {
	o := plan.Observed{Slots: map[string]plan.ObservedSlot{}, Claims: maps.Clone(p.claims), Results: maps.Clone(p.results)}
	if len(p.slots) == 0 {
		return o
	}
	o.Phase = plan.PodEnded
	for _, s := range p.slots {
		if s.have.phase != ended && (s.have.phase != none || s.want.Assignment.End == nil) {
			o.Phase = plan.PodUp
		}
		o.Slots[s.want.Name] = plan.ObservedSlot{State: s.state(), Problem: s.refused, Death: s.death}
	}
	if p.lost {
		o.Phase, o.Reason, o.Message = plan.PodLost, "Deleted", "somebody deleted it"
	}
	return o
}

func (s *slot) state() protocol.State {
	st := protocol.State{Swap: s.have.swap, Seq: s.have.seq, Token: s.have.task.Token}
	switch s.have.phase {
	case none:
		return protocol.State{}
	case closed:
		st.Phase = protocol.Closed
	case parked, ended:
		st.Phase = protocol.Parked
	default:
		st.Phase = protocol.Waiting
	}
	return st
}

// Move is something that can happen next.
type Move struct {
	Kind Kind
	// Slot is the index of the slot that it happens to.
	Slot int
	// Token of the attempt that starts or ends.
	Token string
}

// Kind is a kind of move.
type Kind string

// The kinds of moves.
const (
	// Up: the wanted container comes up.
	Up Kind = "Up"
	// Refuse: the wanted container can't be had.
	Refuse Kind = "Refuse"
	// Take: the shim takes up a new assignment.
	Take Kind = "Take"
	// Shut: the shim finds that its gate can't open any more.
	Shut Kind = "Shut"
	// Start: the shim claims and starts its attempt.
	Start Kind = "Start"
	// End: the attempt's process ends.
	End Kind = "End"
	// Die: the container dies; it comes up again with the same swap.
	Die Kind = "Die"
	// Lose: the pod vanishes.
	Lose Kind = "Lose"
)

// Moves lists what can happen next, in a fixed order. Refuse, Die and Lose are among it: leave them out at will.
func (p *Pod) Moves() []Move {
	if p.lost {
		return nil
	}
	var out []Move
	for i, s := range p.slots {
		add := func(k Kind) { out = append(out, Move{Kind: k, Slot: i, Token: s.have.task.Token}) }
		switch {
		case s.want.Swap > s.have.swap && s.refused == nil && s.want.Assignment.End == nil:
			if s.have.phase != running && s.have.phase != stopping {
				out = append(out, Move{Kind: Up, Slot: i, Token: s.want.Assignment.Token},
					Move{Kind: Refuse, Slot: i, Token: s.want.Assignment.Token})
			}
		case s.takes():
			add(Take)
		}
		switch s.have.phase {
		case waiting:
			if open, shut := p.gate(s.have.task.Gate); shut {
				add(Shut)
			} else if _, taken := p.claims[s.have.task.Token]; open && !taken {
				add(Start)
			}
			add(Die)
		case running, stopping:
			add(End)
			add(Die)
		case parked, closed:
			add(Die)
		}
	}
	if len(p.slots) > 0 {
		out = append(out, Move{Kind: Lose})
	}
	return out
}

func (s *slot) takes() bool {
	h, w := s.have, s.want.Assignment
	if h.phase == none || h.phase == ended || w.Seq <= h.seq {
		return false
	}
	if s.want.Swap != h.swap && w.End == nil {
		return false
	}
	return h.phase != running && h.phase != stopping || h.phase == running && w.Stop && w.Token == h.task.Token
}

func (p *Pod) gate(needs []protocol.Need) (open, shut bool) {
	open = true
	for _, n := range needs {
		r, ok := p.results[n.Token]
		switch {
		case !ok:
			open = false
		case !n.Any && !r.Succeeded():
			return false, true
		}
	}
	return open, false
}

// Do makes a move happen at the given time. Result is the outcome of an attempt that ends by End; its token and times
// are filled in.
func (p *Pod) Do(m Move, now time.Time, result protocol.Result) {
	if m.Kind == Lose {
		p.lost = true
		return
	}
	s := p.slots[m.Slot]
	switch m.Kind {
	case Up:
		s.have = container{swap: s.want.Swap}
		s.take(p, now)
	case Refuse:
		s.refused = &plan.Problem{Swap: s.want.Swap, Seq: s.want.Assignment.Seq, Reason: "ImageUnavailable", Message: "image " + s.want.Image + " is not there"}
	case Take:
		s.take(p, now)
	case Shut:
		s.have.phase = closed
	case Start:
		if _, ok := p.claims[s.have.task.Token]; ok {
			p.violate("%s started twice", s.have.task.Token)
		}
		p.claims[s.have.task.Token] = protocol.Claim{Slot: s.want.Name, StartedAt: now}
		p.Started = append(p.Started, s.have.task.Token)
		s.have.phase = running
	case End:
		if s.have.phase == stopping {
			result = protocol.Result{ExitCode: 143, Reason: protocol.Stopped}
		}
		p.finish(s, now, result)
	case Die:
		s.death = &plan.Death{Swap: s.have.swap, Message: "killed from outside"}
		s.have = container{swap: s.have.swap}
		s.take(p, now)
	}
}

func (p *Pod) finish(s *slot, now time.Time, r protocol.Result) {
	r.Token, r.FinishedAt = s.have.task.Token, now
	r.StartedAt = p.claims[r.Token].StartedAt
	p.results[r.Token] = r
	s.have.phase = parked
}

// take makes the shim of a slot take up the slot's assignment.
func (s *slot) take(p *Pod, now time.Time) {
	if s.have.phase == running {
		s.have.phase, s.have.seq = stopping, s.want.Assignment.Seq
		return
	}
	s.have.task, s.have.seq, s.have.phase = s.want.Assignment, s.want.Assignment.Seq, parked
	switch t := s.have.task; {
	case t.End != nil:
		s.have.phase = ended
	case t.Token == "":
	default:
		_, done := p.results[t.Token]
		claim, begun := p.claims[t.Token]
		switch {
		case done:
		case begun && claim.Slot == s.want.Name:
			p.finish(s, now, protocol.Result{ExitCode: 137, Reason: protocol.Interrupted})
		case t.Stop:
		default:
			s.have.phase = waiting
		}
	}
}

// Running lists the tokens of the attempts that run now, sorted.
func (p *Pod) Running() []string {
	var out []string
	for _, s := range p.slots {
		if s.have.phase == running || s.have.phase == stopping {
			out = append(out, s.have.task.Token)
		}
	}
	slices.Sort(out)
	return out
}
