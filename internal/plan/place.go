package plan

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// LogLimit bounds what is kept of one attempt's output, in bytes. The container's own log is not bounded by it.
const LogLimit = 64 << 20

// DefaultGrace is the time between SIGTERM and SIGKILL of a play that names none, as Kubernetes has it.
const DefaultGrace = 30 * time.Second

// place fills free slots: first with plays whose turn it is, in the order of the playbook, then ahead of their turn with
// plays whose needs all run or are staged, so that their gates start them without another step.
func (s *step) place() {
	if s.suspended() {
		return
	}
	free := 0
	for i := range s.slots {
		if s.slots[i].Play == "" {
			free++
		}
	}
	for i := 0; i < len(s.order) && free > 0; i++ {
		n := &s.nodes[s.order[i]]
		if n.admitted() {
			free -= s.fill(n)
		}
	}
	for i := 0; i < len(s.order) && free > 0; i++ {
		if n := &s.nodes[s.order[i]]; s.stageable(n) {
			free -= s.fill(n)
		}
	}
}

// fill puts as many units of a play as there are slots for into them, and returns how many that were.
func (s *step) fill(n *node) int {
	placed := 0
	for _, u := range n.units {
		if u.status.Phase != v1alpha1.PlayPending || !s.due(u) {
			continue
		}
		if s.awaitsContainer(u) {
			continue
		}
		sl := s.choose(u)
		if sl == nil {
			break
		}
		if s.put(u, sl) {
			placed++
		}
	}
	return placed
}

// due says whether the pause before a unit's next attempt is over; if not, the drive is woken then.
func (s *step) due(u *unit) bool {
	at := u.status.RetryAt
	if at == nil || !at.After(s.in.Now) {
		return true
	}
	if s.wake.IsZero() || at.Time.Before(s.wake) {
		s.wake = at.Time
	}
	return false
}

// stageable says whether a play can be put into a slot before its needs have ended: they all run or are staged, and
// nothing about the play hangs on what they yield.
func (s *step) stageable(n *node) bool {
	if n.status.Phase.Terminal() || n.units == nil || n.play.ReadsDrive {
		return false
	}
	waiting := false
	if !s.waits(n, func(need *node) bool {
		waiting = waiting || !need.status.Phase.Terminal()
		return need.placed()
	}) || !waiting {
		return false
	}
	refs := n.play.TextRefs
	if n.play.Spec.When != "" {
		refs = n.play.Refs
	}
	for _, r := range refs {
		if !s.nodes[r].status.Phase.Terminal() {
			return false
		}
	}
	ok, err := n.play.When(s.scope())
	return ok && err == nil
}

// placed says whether a play has ended, or all that is left of it is in slots.
func (n *node) placed() bool {
	if n.status.Phase.Terminal() {
		return true
	}
	for _, u := range n.units {
		if u.status.Phase == v1alpha1.PlayPending {
			return false
		}
	}
	return len(n.units) > 0
}

// awaitsContainer says whether a unit does better to wait for the end of a need that runs in a container which the unit
// is to reuse.
func (s *step) awaitsContainer(u *unit) bool {
	if !u.node.play.Spec.Reuse {
		return false
	}
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.unit != nil && s.waitsFor(u.node, sl.unit.node) && s.sameContainer(sl, u) {
			return true
		}
	}
	return false
}

// choose picks the free slot for a unit: of the first group that has one, the slot whose container it can have as it is,
// else the first.
func (s *step) choose(u *unit) *slot {
	for _, g := range u.node.play.Groups {
		var first *slot
		for i := range s.slots {
			sl := &s.slots[i]
			if sl.group != g || sl.Play != "" {
				continue
			}
			if s.fits(sl, u) {
				return sl
			}
			if first == nil {
				first = sl
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// fits says whether a unit can have a slot's container as it is: nothing has run in it, or the play reuses it.
func (s *step) fits(sl *slot, u *unit) bool {
	return (!sl.Used || u.node.play.Spec.Reuse && len(u.status.Attempts) == 0) && s.sameContainer(sl, u)
}

// sameContainer says whether a slot's container is of the image and the resources that a unit needs.
func (s *step) sameContainer(sl *slot, u *unit) bool {
	if sl.Swap == 0 {
		return false
	}
	image := u.node.play.Spec.Image
	if text, err := s.render(u); err == nil {
		image = text.Image
	}
	return sl.Image == image && equality.Semantic.DeepEqual(s.resources(sl), u.node.play.Spec.Resources)
}

func (s *step) resources(sl *slot) corev1.ResourceRequirements {
	if i, ok := s.in.Program.Index(sl.Owner); ok {
		return s.in.Program.Plays[i].Spec.Resources
	}
	return corev1.ResourceRequirements{}
}

// put puts a unit into a slot; false if its text can't be made, which ends it.
func (s *step) put(u *unit, sl *slot) bool {
	text, err := s.render(u)
	if err != nil {
		reason := v1alpha1.ReasonExpression
		if tooLarge := (*playbook.TooLargeError)(nil); errors.As(err, &tooLarge) {
			reason = v1alpha1.ReasonTooLarge
		}
		s.fail(u, reason, err.Error())
		return false
	}
	if !s.fits(sl, u) {
		sl.Swap++
		sl.Image, sl.Owner, sl.Used = text.Image, u.node.play.Spec.Name, false
	}
	sl.Seq++
	sl.unit, sl.Play, sl.Attempt, sl.Recall = u, u.status.Name, int32(len(u.status.Attempts)+1), ""
	st := u.status
	st.Phase, st.Slot, st.Attempt = v1alpha1.PlayStaged, sl.Name, sl.Attempt
	st.Reason, st.Message, st.RetryAt = "", "", nil
	s.tell(Normal, EventPlayStaged, u, text.Image)
	return true
}

func (s *step) render(u *unit) (playbook.Text, error) {
	return u.node.play.Render(s.scope(), u.status.Item)
}

// pod is what the pod should be, given what the slots hold.
func (s *step) pod() Pod {
	if s.status.Phase.Terminal() {
		return Pod{}
	}
	pod := Pod{Slots: make([]Slot, len(s.slots))}
	for i := range s.slots {
		pod.Slots[i] = s.slotOf(&s.slots[i])
	}
	return pod
}

func (s *step) slotOf(sl *slot) Slot {
	out := Slot{Name: sl.Name, Swap: sl.Swap, Image: sl.Image, Resources: s.resources(sl)}
	out.Assignment.Seq = sl.Seq
	if s.ending {
		code := protocol.ExitDone
		if s.outcome() == v1alpha1.DriveFailed {
			code = protocol.ExitFailed
		}
		out.Assignment.Seq, out.Assignment.End = sl.Seq+1, &code
		return out
	}
	if sl.unit == nil || sl.Recall == v1alpha1.RecallRevoke {
		return out
	}
	text, err := s.render(sl.unit)
	if err != nil { // it could be rendered when it was put here, from the same values
		return out
	}
	spec := sl.unit.node.play.Spec
	out.Command, out.Args = text.Command, text.Args
	out.Assignment = protocol.Assignment{
		Seq: sl.Seq, Token: sl.unit.token(), Drive: s.in.Name, Play: sl.Play, Attempt: sl.Attempt,
		Gate: s.gate(sl.unit), Script: text.Script, Env: text.Env, WorkingDir: text.WorkingDir,
		GraceMillis: DefaultGrace.Milliseconds(), LogLimit: LogLimit, Stop: sl.Recall == v1alpha1.RecallStop,
	}
	if g := spec.GracePeriodSeconds; g != nil {
		out.Assignment.GraceMillis = *g * 1000
	}
	if t := spec.Timeout; t != nil {
		out.Assignment.TimeoutMillis = t.Milliseconds()
	}
	return out
}

// gate is what a unit has to wait for: the attempts of its needs that are in slots.
func (s *step) gate(u *unit) []protocol.Need {
	var gate []protocol.Need
	s.waits(u.node, func(need *node) bool {
		if need.status.Phase.Terminal() {
			return true
		}
		for _, w := range need.units {
			if !w.status.Phase.Terminal() {
				gate = append(gate, protocol.Need{Token: w.token(), Any: opensAnyway(w, w.status.Attempt, u)})
			}
		}
		return true
	})
	return gate
}
