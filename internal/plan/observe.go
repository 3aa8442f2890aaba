package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// observe takes up what the slots' shims and the engine tell of the attempts in the slots.
func (s *step) observe() {
	if s.in.Observed.Phase == PodLost {
		s.podLost()
		return
	}
	for i := range s.slots {
		if s.slots[i].unit != nil {
			s.observeSlot(&s.slots[i])
		}
	}
}

func (s *step) observeSlot(sl *slot) {
	u, seen := sl.unit, s.in.Observed.Slots[sl.Name]
	if r, ok := s.in.Observed.Results[u.token()]; ok {
		s.finished(sl, r, seen.Death)
		return
	}
	if c, ok := s.in.Observed.Claims[u.token()]; ok {
		s.started(sl, c)
		if sl.Recall == v1alpha1.RecallRevoke { // too late; and a shim that is restarted must be told the token again
			sl.Recall = ""
			sl.Seq++
		}
		return
	}
	switch {
	case sl.Recall != "":
		if s.broken(sl) || seen.State.Swap == sl.Swap && seen.State.Seq >= sl.Seq {
			s.recalled(sl)
		}
	case s.broken(sl) && s.needsDone(u.node):
		// Not before: how a drive ends must not depend on how early a play could be staged.
		s.refused(sl, seen.Problem)
	}
}

// broken says whether the engine could not make the slot's container, so that no shim is there to answer.
func (s *step) broken(sl *slot) bool {
	p := s.in.Observed.Slots[sl.Name].Problem
	return p != nil && p.Swap == sl.Swap
}

// recall takes a slot's attempt back, unless that is under way in this or a stronger way.
func (s *step) recall(sl *slot, how v1alpha1.Recall) {
	if sl.Recall == how || sl.Recall == v1alpha1.RecallStop {
		return
	}
	sl.Recall = how
	sl.Seq++
	if s.broken(sl) {
		s.recalled(sl)
	}
}

func (s *step) started(sl *slot, c protocol.Claim) {
	u := sl.unit
	sl.Used = true
	if u.status.Phase == v1alpha1.PlayRunning {
		return
	}
	u.status.Phase, u.status.StartedAt = v1alpha1.PlayRunning, micro(c.StartedAt)
	s.tell(Normal, EventPlayStarted, u, "")
}

// finished takes up a result: the attempt has ended, its slot is free.
func (s *step) finished(sl *slot, r protocol.Result, death *Death) {
	u := sl.unit
	if u.status.Phase != v1alpha1.PlayRunning { // ended between two looks
		s.started(sl, protocol.Claim{StartedAt: r.StartedAt})
	}
	code := int32(r.ExitCode)
	u.status.ExitCode, u.status.FinishedAt = &code, micro(r.FinishedAt)
	u.status.Reason, u.status.Message = string(r.Reason), r.Message
	u.status.Outputs = r.Outputs
	if r.PeakMemory > 0 {
		u.status.PeakMemory = bytes(r.PeakMemory)
	}
	if r.Reason == protocol.Interrupted && death != nil && death.Swap == sl.Swap {
		if death.OOM {
			u.status.Reason = v1alpha1.ReasonOOMKilled
		}
		u.status.Message = death.Message
	}
	sl.Used = true
	sl.free()
	if r.Succeeded() {
		u.status.Phase = v1alpha1.PlaySucceeded
		s.tell(Normal, EventPlaySucceeded, u, "")
		return
	}
	if u.status.Reason == "" {
		u.status.Reason = v1alpha1.ReasonError
	}
	opened := func(dependent *unit) bool { return opensAnyway(u, u.status.Attempt, dependent) }
	s.failed(u, opened)
}

// refused takes up that an attempt could not be started at all. Trying again would not help: the engine has.
func (s *step) refused(sl *slot, p *Problem) {
	u := sl.unit
	sl.Used = true
	sl.free()
	s.fail(u, p.Reason, p.Message)
}

// fail ends a unit that could not be started.
func (s *step) fail(u *unit, reason, message string) {
	u.status.Reason, u.status.Message, u.status.FinishedAt = reason, message, s.now()
	u.status.Phase, u.status.RetryAt = v1alpha1.PlayFailed, nil
	s.tell(Warning, EventPlayFailed, u, message)
	s.shut(u, nil)
	s.judge(u)
}

// failed decides what becomes of a unit whose attempt ended in failure: another attempt, or the end of the unit.
func (s *step) failed(u *unit, opened func(*unit) bool) {
	s.shut(u, opened)
	if s.verdict == v1alpha1.ReasonCancelled && !u.node.play.Finally {
		u.status.Phase = v1alpha1.PlayCancelled
		s.tell(Normal, EventPlayCancelled, u, u.status.Message)
		return
	}
	if s.retries(u) {
		s.retry(u)
		return
	}
	u.status.Phase = v1alpha1.PlayFailed
	s.tell(Warning, EventPlayFailed, u, why(u.status))
	s.judge(u)
}

// judge lets the drive fail with a unit.
func (s *step) judge(u *unit) {
	if u.node.play.Spec.OnError == v1alpha1.OnErrorContinue || s.verdict != "" {
		return
	}
	s.verdict = v1alpha1.ReasonPlayFailed
	s.status.Message = fmt.Sprintf("play %s failed: %s", u.status.Name, why(u.status))
}

func why(p *v1alpha1.PlayStatus) string {
	switch {
	case p.Message != "" && p.ExitCode != nil && *p.ExitCode != 0:
		return fmt.Sprintf("exit code %d: %s", *p.ExitCode, p.Message)
	case p.Message != "":
		return p.Message
	case p.ExitCode != nil && p.Reason != v1alpha1.ReasonError && p.Reason != "":
		return fmt.Sprintf("%s, exit code %d", p.Reason, *p.ExitCode)
	case p.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	return p.Reason
}

// retries says whether the attempt that has just failed is tried again.
func (s *step) retries(u *unit) bool {
	r := u.node.play.Spec.Retries
	if r == nil || u.status.Attempt > r.Limit || s.verdict != "" && !u.node.play.Finally {
		return false
	}
	return len(r.ExitCodes) == 0 || slices.Contains(r.ExitCodes, *u.status.ExitCode)
}

// retry files the attempt and waits for the next.
func (s *step) retry(u *unit) {
	st := u.status
	st.Attempts = append(slices.Clip(st.Attempts), v1alpha1.AttemptStatus{
		Attempt: st.Attempt, Slot: st.Slot, ExitCode: st.ExitCode, Reason: st.Reason, Message: st.Message,
		StartedAt: st.StartedAt, FinishedAt: st.FinishedAt,
	})
	var backoff time.Duration
	if b := u.node.play.Spec.Retries.Backoff; b != nil {
		backoff = b.Duration
	}
	s.tell(Warning, EventPlayRetried, u, fmt.Sprintf("attempt %d failed (%s), next in %s", st.Attempt, why(st), backoff))
	st.RetryAt = micro(s.in.Now.Add(backoff))
	st.Phase, st.Reason, st.Message = v1alpha1.PlayPending, v1alpha1.ReasonReady, ""
	st.ExitCode, st.StartedAt, st.FinishedAt, st.PeakMemory, st.Outputs = nil, nil, nil, nil, nil
}

// recalled takes up that an attempt was taken back before it started.
func (s *step) recalled(sl *slot) {
	u, how := sl.unit, sl.Recall
	sl.Used = sl.Used || s.broken(sl)
	sl.free()
	s.unstage(u)
	if how == v1alpha1.RecallStop {
		s.end(u, v1alpha1.PlayCancelled, v1alpha1.ReasonCancelled)
	}
}

// unstage makes a staged unit pending again; its attempt was not consumed.
func (s *step) unstage(u *unit) {
	u.status.Phase, u.status.Slot = v1alpha1.PlayPending, ""
	u.status.Attempt = int32(len(u.status.Attempts))
	s.shut(u, nil)
}

// end ends a unit that has not run.
func (s *step) end(u *unit, phase v1alpha1.PlayPhase, reason string) {
	u.status.Phase, u.status.Reason, u.status.RetryAt = phase, reason, nil
	switch reason {
	case v1alpha1.ReasonNotReached, v1alpha1.ReasonCancelled:
		u.status.Message = s.status.Message
	}
	s.tellEnd(u)
}

// shut takes the units whose gates wait for u's present attempt, and can't open by it any more, out of their slots, to
// be staged anew. That is safe without asking the shims: a gate that lacks a result stays shut, so none of them started.
// opened says for which units the attempt's result opens the gate; nil if the attempt has no result.
func (s *step) shut(u *unit, opened func(dependent *unit) bool) {
	for i := range s.slots {
		sl := &s.slots[i]
		d := sl.unit
		if d == nil || d.status.Phase != v1alpha1.PlayStaged || !s.waitsFor(d.node, u.node) {
			continue
		}
		if opened == nil || !opened(d) {
			sl.free()
			s.unstage(d)
		}
	}
}

// opensAnyway says whether dependent's gate opens by the result of u's attempt even if that is a failure.
func opensAnyway(u *unit, attempt int32, dependent *unit) bool {
	spec := u.node.play.Spec
	if spec.Retries != nil && attempt <= spec.Retries.Limit {
		return false // it may be tried again
	}
	return spec.OnError == v1alpha1.OnErrorContinue || dependent.node.play.Finally
}

// podLost ends the drive: nothing can run any more, finally neither.
func (s *step) podLost() {
	if s.allDone() {
		return
	}
	s.verdict = v1alpha1.ReasonPodLost
	s.status.Message = fmt.Sprintf("the pod was lost (%s): %s", s.in.Observed.Reason, s.in.Observed.Message)
	for i := range s.slots {
		if u := s.slots[i].unit; u != nil && u.status.Phase == v1alpha1.PlayRunning {
			u.status.Phase, u.status.Reason, u.status.Message = v1alpha1.PlayFailed, v1alpha1.ReasonPodLost, s.status.Message
			u.status.FinishedAt = s.now()
			s.tell(Warning, EventPlayFailed, u, s.status.Message)
		} else if u != nil {
			u.status.Phase, u.status.Slot = v1alpha1.PlayPending, ""
			u.status.Attempt = int32(len(u.status.Attempts))
		}
		s.slots[i].free()
	}
	for i := range s.nodes {
		s.giveUpNode(&s.nodes[i], v1alpha1.PlaySkipped, v1alpha1.ReasonNotReached)
	}
}
