package plan

import (
	"fmt"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// settle decides, in the order of needs, which plays have become ready, which are skipped, and what forEach yields.
func (s *step) settle() {
	for _, i := range s.order {
		n := &s.nodes[i]
		if n.status.Phase.Terminal() {
			continue
		}
		s.expand(n)
		if open := n.status.Phase == v1alpha1.PlayPending || n.play.Spec.ForEach != nil; open && !n.admitted() && s.needsDone(n) {
			s.admit(n)
		}
		n.sumUp()
	}
}

// waitsFor says whether n directly waits for other.
func (s *step) waitsFor(n, other *node) bool {
	if n.play.Finally {
		return !other.play.Finally || other.play.Index == n.play.Index-1
	}
	for _, i := range n.play.Needs {
		if i == other.play.Index {
			return true
		}
	}
	return false
}

// waits calls f with each node that n directly waits for, until f returns false; it says whether f never did.
// The first play of finally waits for all plays before finally, each further one for the one before it.
func (s *step) waits(n *node, f func(*node) bool) bool {
	if !n.play.Finally {
		for _, i := range n.play.Needs {
			if !f(&s.nodes[i]) {
				return false
			}
		}
		return true
	}
	if n.play.Index > s.in.Program.Main {
		return f(&s.nodes[n.play.Index-1])
	}
	for i := range s.nodes[:s.in.Program.Main] {
		if !f(&s.nodes[i]) {
			return false
		}
	}
	return true
}

func (s *step) needsDone(n *node) bool {
	return s.waits(n, func(need *node) bool { return need.status.Phase.Terminal() })
}

// expand makes the units of a play with forEach: a list that is known at once, one that expressions yield when the
// play's needs have ended.
func (s *step) expand(n *node) {
	f := n.play.Spec.ForEach
	if f == nil || n.units != nil || n.play.ItemsWait && !s.needsDone(n) {
		return
	}
	items, err := n.play.Items(s.scope())
	if err != nil {
		s.fail(&unit{node: n, status: n.status}, v1alpha1.ReasonExpression, err.Error())
		return
	}
	count := int32(len(items))
	n.status.Items = &count
	n.units, s.plays = make([]*unit, len(items)), nil
	for k, item := range items {
		st := &v1alpha1.PlayStatus{Name: fmt.Sprintf("%s.%d", n.play.Spec.Name, k), Item: &item, Phase: v1alpha1.PlayPending}
		n.units[k] = &unit{node: n, status: st}
	}
}

// admitted says whether admit has found the play ready: a play keeps the mark until it is staged, one with forEach until
// it ends.
func (n *node) admitted() bool { return n.status.Reason == v1alpha1.ReasonReady }

// admit decides on a play whose needs have ended: it is ready, or skipped by its when.
func (s *step) admit(n *node) {
	if n.status.Phase.Terminal() {
		return
	}
	whole := &unit{node: n, status: n.status}
	ok, err := n.play.When(s.scope())
	switch {
	case err != nil:
		s.fail(whole, v1alpha1.ReasonExpression, err.Error())
	case !ok:
		n.status.Message = "its when is false"
		s.end(whole, v1alpha1.PlaySkipped, v1alpha1.ReasonWhen)
	default:
		n.status.Reason = v1alpha1.ReasonReady
		return
	}
	if n.play.Spec.ForEach != nil {
		n.units, n.status.Items, s.plays = nil, nil, nil
	}
}

// sumUp makes the status of a play with forEach from those of its items.
func (n *node) sumUp() {
	if n.play.Spec.ForEach == nil || n.units == nil || n.status.Phase.Terminal() {
		return
	}
	if len(n.units) == 0 {
		if n.admitted() {
			n.status.Phase, n.status.Reason, n.status.Message = v1alpha1.PlaySucceeded, "", "the list is empty"
		}
		return
	}
	count, bad := n.tally()
	ended := count[v1alpha1.PlaySucceeded] + count[v1alpha1.PlayFailed] + count[v1alpha1.PlaySkipped] + count[v1alpha1.PlayCancelled]
	if ended < len(n.units) {
		switch {
		case n.status.StartedAt != nil:
			n.status.Phase = v1alpha1.PlayRunning
		case count[v1alpha1.PlayStaged] == len(n.units):
			n.status.Phase = v1alpha1.PlayStaged
		default:
			n.status.Phase = v1alpha1.PlayPending
		}
		return
	}
	for _, u := range n.units {
		if at := u.status.FinishedAt; at != nil && (n.status.FinishedAt == nil || n.status.FinishedAt.Before(at)) {
			n.status.FinishedAt = at
		}
	}
	n.status.Reason, n.status.Message = "", ""
	switch {
	case bad != nil:
		n.status.Phase, n.status.Reason, n.status.ExitCode = v1alpha1.PlayFailed, v1alpha1.ReasonItemFailed, bad.status.ExitCode
		n.status.Message = fmt.Sprintf("%d of %d items failed, the first is %s", count[v1alpha1.PlayFailed], len(n.units), bad.status.Name)
	case count[v1alpha1.PlayCancelled] > 0:
		n.status.Phase, n.status.Reason = v1alpha1.PlayCancelled, v1alpha1.ReasonCancelled
	case count[v1alpha1.PlaySkipped] > 0:
		n.status.Phase, n.status.Reason = v1alpha1.PlaySkipped, v1alpha1.ReasonNotReached
	default:
		n.status.Phase = v1alpha1.PlaySucceeded
	}
}

// tally counts the items by phase, finds the first that failed, and notes when the first was started.
func (n *node) tally() (count map[v1alpha1.PlayPhase]int, bad *unit) {
	count = map[v1alpha1.PlayPhase]int{}
	for _, u := range n.units {
		count[u.status.Phase]++
		if at := u.status.StartedAt; at != nil && (n.status.StartedAt == nil || at.Before(n.status.StartedAt)) {
			n.status.StartedAt = at
		}
		if u.status.Phase == v1alpha1.PlayFailed && bad == nil {
			bad = u
		}
	}
	return count, bad
}

// scope is what expressions see.
type scope struct{ s *step }

func (s *step) scope() playbook.Scope { return scope{s} }

func (sc scope) DriveName() string { return sc.s.in.Name }

// DrivePhase is the outcome once the plays before finally have ended; that of finally itself doesn't change it.
func (sc scope) DrivePhase() string {
	if !sc.s.mainDone() {
		return string(v1alpha1.DriveRunning)
	}
	if sc.s.verdict == v1alpha1.ReasonCancelled {
		return string(v1alpha1.DriveCancelled)
	}
	for i := range sc.s.nodes[:sc.s.in.Program.Main] {
		n := &sc.s.nodes[i]
		if n.status.Phase == v1alpha1.PlayFailed && n.play.Spec.OnError != v1alpha1.OnErrorContinue {
			return string(v1alpha1.DriveFailed)
		}
	}
	return string(v1alpha1.DriveSucceeded)
}

func (sc scope) Play(index int) playbook.PlayValue {
	n := &sc.s.nodes[index]
	v := value(n.status)
	if n.play.Spec.ForEach != nil {
		v.Items = make([]playbook.PlayValue, len(n.units))
		for k, u := range n.units {
			v.Items[k] = value(u.status)
		}
	}
	return v
}

func value(p *v1alpha1.PlayStatus) playbook.PlayValue {
	v := playbook.PlayValue{Phase: string(p.Phase), Outputs: p.Outputs}
	if p.ExitCode != nil {
		v.ExitCode = int64(*p.ExitCode)
	}
	if p.Item != nil {
		v.Item = *p.Item
	}
	return v
}
