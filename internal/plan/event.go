package plan

import (
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// The types of events, as Kubernetes has them.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Event is something that happened, told to people.
type Event struct {
	Time time.Time
	// Type is Normal or Warning.
	Type string
	// Reason is one PascalCase word.
	Reason string
	// Play (or item), Attempt and Slot that it is about; zero where it is about the drive.
	Play    string
	Attempt int32
	Slot    string
	// Message is one sentence or clause.
	Message string
}

// The reasons of events, besides those of the API.
const (
	EventDriveStarted  = "DriveStarted"
	EventPlayStaged    = "PlayStaged"
	EventPlayStarted   = "PlayStarted"
	EventPlaySucceeded = "PlaySucceeded"
	EventPlayFailed    = "PlayFailed"
	EventPlayRetried   = "PlayRetried"
	EventPlaySkipped   = "PlaySkipped"
	EventPlayCancelled = "PlayCancelled"
)

func (s *step) tell(kind, reason string, u *unit, message string) {
	e := Event{Time: s.in.Now, Type: kind, Reason: reason, Message: message}
	if u != nil {
		e.Play, e.Attempt, e.Slot = u.status.Name, u.status.Attempt, u.status.Slot
	}
	s.events = append(s.events, e)
	s.again = true
}

// tellEnd tells of a play that ended without having run.
func (s *step) tellEnd(u *unit) {
	reason := EventPlaySkipped
	if u.status.Phase == v1alpha1.PlayCancelled {
		reason = EventPlayCancelled
	}
	s.tell(Normal, reason, u, u.status.Message)
}
