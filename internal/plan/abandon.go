package plan

import (
	"slices"
	"time"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

// Abandon ends a drive that no step can end any more, because whoever ran it was killed or has killed its pod: the plays
// that ran, and those that had not begun, get the end that goes with the drive's phase, which must be terminal.
// status is not changed.
func Abandon(status v1alpha1.DriveStatus, now time.Time, phase v1alpha1.DrivePhase, reason, message string) v1alpha1.DriveStatus {
	status.Phase, status.Reason, status.Message, status.FinishedAt = phase, reason, message, micro(now)
	status.Plays, status.Slots = slices.Clone(status.Plays), slices.Clone(status.Slots)
	for i := range status.Plays {
		p := &status.Plays[i]
		if p.Phase.Terminal() {
			continue
		}
		running := p.Phase == v1alpha1.PlayRunning
		switch {
		case phase == v1alpha1.DriveCancelled:
			p.Phase, p.Reason, p.Message = v1alpha1.PlayCancelled, v1alpha1.ReasonCancelled, message
		case running && p.Items != nil:
			p.Phase, p.Reason, p.Message = v1alpha1.PlayFailed, v1alpha1.ReasonItemFailed, message
		case running:
			p.Phase, p.Reason, p.Message = v1alpha1.PlayFailed, v1alpha1.ReasonInterrupted, message
		default:
			p.Phase, p.Reason, p.Message = v1alpha1.PlaySkipped, v1alpha1.ReasonNotReached, ""
		}
		if running {
			p.FinishedAt = micro(now)
		}
		p.RetryAt = nil
	}
	for i := range status.Slots {
		status.Slots[i].Play, status.Slots[i].Attempt, status.Slots[i].Recall = "", 0, ""
	}
	return status
}
