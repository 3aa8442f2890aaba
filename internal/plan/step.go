package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// Input is all that a step depends on.
type Input struct {
	Now time.Time
	// Name of the drive.
	Name string
	// Intent of the drive; "" is Run.
	Intent  v1alpha1.Intent
	Program *playbook.Program
	// Status that the last step returned; zero before the first. It is not changed.
	Status v1alpha1.DriveStatus
	// Observed after the last step's Pod was applied, or at any earlier time: a step never acts on what it doesn't see.
	Observed Observed
}

// Output is what a step decides.
type Output struct {
	// Status to store before Pod is applied.
	Status v1alpha1.DriveStatus
	// Pod as it should be from now on; without slots once the drive is over.
	Pod Pod
	// Events to tell, in order, once Status is stored.
	Events []Event
	// Wake is when to step again even if nothing changes; zero if there is no such time.
	Wake time.Time
}

// Step computes what comes next. It is a pure function: the same input gives the same output, and a step upon its own
// output with nothing new observed changes nothing.
func Step(in Input) Output {
	if in.Status.Phase.Terminal() {
		return Output{Status: in.Status}
	}
	s := load(in)
	for s.again = true; s.again; { // until nothing happens any more: one play's end may decide on another's
		s.again = false
		s.observe()
		s.direct()
		s.settle()
		s.place()
	}
	for i := range s.nodes {
		s.nodes[i].sumUp()
	}
	s.conclude()
	return Output{Status: s.save(), Pod: s.pod(), Events: s.events, Wake: s.wake}
}

// direct takes up the user's intent and the drive's own failure: plays whose turn has not come get their end, staged
// ones are recalled.
func (s *step) direct() {
	if s.in.Intent == v1alpha1.IntentCancel && s.verdict != v1alpha1.ReasonCancelled && !s.mainDone() {
		s.verdict, s.status.Message = v1alpha1.ReasonCancelled, "cancelled by the user"
		s.tell(Warning, v1alpha1.ReasonCancelled, nil, "cancelling: plays that run are stopped, then finally runs")
	}
	switch {
	case s.verdict == v1alpha1.ReasonCancelled:
		s.giveUp(v1alpha1.PlayCancelled, v1alpha1.ReasonCancelled, v1alpha1.RecallStop)
	case s.verdict != "":
		s.giveUp(v1alpha1.PlaySkipped, v1alpha1.ReasonNotReached, v1alpha1.RecallRevoke)
	}
	if s.suspended() {
		for i := range s.slots {
			if u := s.slots[i].unit; u != nil && u.status.Phase == v1alpha1.PlayStaged {
				s.recall(&s.slots[i], v1alpha1.RecallRevoke)
			}
		}
	}
}

func (s *step) suspended() bool { return s.in.Intent == v1alpha1.IntentSuspend }

// giveUp ends the plays before finally that have not started, and recalls those that are in slots.
func (s *step) giveUp(phase v1alpha1.PlayPhase, reason string, how v1alpha1.Recall) {
	for i := range s.slots {
		u := s.slots[i].unit
		if u != nil && !u.node.play.Finally && (how == v1alpha1.RecallStop || u.status.Phase == v1alpha1.PlayStaged) {
			s.recall(&s.slots[i], how)
		}
	}
	for i := range s.nodes[:s.in.Program.Main] {
		s.giveUpNode(&s.nodes[i], phase, reason)
	}
}

// giveUpNode ends what has not started of a play.
func (s *step) giveUpNode(n *node, phase v1alpha1.PlayPhase, reason string) {
	for _, u := range n.units {
		if u.status.Phase == v1alpha1.PlayPending {
			s.end(u, phase, reason)
		}
	}
	if n.units == nil && n.status.Phase == v1alpha1.PlayPending {
		s.end(&unit{node: n, status: n.status}, phase, reason)
	}
}

// conclude ends the drive once every play has, and its pod with it.
func (s *step) conclude() {
	if s.status.Phase == "" {
		s.status.Phase = v1alpha1.DrivePending
	}
	if s.in.Observed.PeakMemory > 0 {
		s.status.PeakMemory = bytes(s.in.Observed.PeakMemory)
	}
	if !s.allDone() {
		s.status.Phase = v1alpha1.DriveRunning
		if s.suspended() && !s.busy() {
			s.status.Phase = v1alpha1.DriveSuspended
		}
		return
	}
	s.ending = true
	if s.in.Observed.Phase == PodUp {
		s.status.Phase = v1alpha1.DriveRunning
		return
	}
	s.status.Phase = s.outcome()
	s.status.FinishedAt = s.now()
	kind := Normal
	if s.status.Phase != v1alpha1.DriveSucceeded {
		kind = Warning
	}
	s.tell(kind, "Drive"+string(s.status.Phase), nil, s.status.Message)
}

// outcome is the phase that the drive ends with as things stand.
func (s *step) outcome() v1alpha1.DrivePhase {
	switch s.verdict {
	case "":
		return v1alpha1.DriveSucceeded
	case v1alpha1.ReasonCancelled:
		return v1alpha1.DriveCancelled
	}
	return v1alpha1.DriveFailed
}

func (s *step) now() *metav1.MicroTime { return micro(s.in.Now) }

// micro cuts a time to what the status can hold, so that a status is the same before and after it is stored.
func micro(t time.Time) *metav1.MicroTime {
	m := metav1.NewMicroTime(t.UTC().Truncate(time.Microsecond))
	return &m
}
