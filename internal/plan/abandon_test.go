package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

func TestAbandonEndsEveryPlay(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	status := v1alpha1.DriveStatus{
		Phase: v1alpha1.DriveRunning,
		Plays: []v1alpha1.PlayStatus{
			{Name: "done", Phase: v1alpha1.PlaySucceeded, FinishedAt: micro(now.Add(-time.Hour))},
			{Name: "each", Phase: v1alpha1.PlayRunning, Items: new(int32(2))},
			{Name: "each.0", Phase: v1alpha1.PlayRunning, Attempt: 1, StartedAt: micro(now.Add(-time.Minute))},
			{Name: "each.1", Phase: v1alpha1.PlayStaged, Attempt: 1},
			{Name: "retried", Phase: v1alpha1.PlayPending, Attempt: 1, RetryAt: micro(now.Add(time.Minute))},
		},
		Slots: []v1alpha1.SlotStatus{{Name: "slot-0", Image: "a", Swap: 2, Seq: 2, Play: "each.0", Attempt: 1, Recall: v1alpha1.RecallStop}},
	}
	for phase, want := range map[v1alpha1.DrivePhase][]v1alpha1.PlayPhase{
		v1alpha1.DriveFailed: {
			v1alpha1.PlaySucceeded, v1alpha1.PlayFailed, v1alpha1.PlayFailed, v1alpha1.PlaySkipped, v1alpha1.PlaySkipped,
		},
		v1alpha1.DriveCancelled: {
			v1alpha1.PlaySucceeded, v1alpha1.PlayCancelled, v1alpha1.PlayCancelled, v1alpha1.PlayCancelled, v1alpha1.PlayCancelled,
		},
	} {
		got := Abandon(status, now, phase, "Killed", "the process was killed")
		var phases []v1alpha1.PlayPhase
		for _, p := range got.Plays {
			phases = append(phases, p.Phase)
			if p.RetryAt != nil || p.StartedAt != nil && p.FinishedAt == nil {
				t.Errorf("%s: play %s has ended and waits: %+v", phase, p.Name, p)
			}
		}
		if diff := cmp.Diff(want, phases); diff != "" {
			t.Errorf("%s: %s", phase, diff)
		}
		if got.Phase != phase || got.Reason != "Killed" || got.FinishedAt == nil || got.Slots[0].Play != "" {
			t.Errorf("%s: the drive is %+v", phase, got)
		}
	}
	if status.Phase != v1alpha1.DriveRunning || status.Plays[2].Phase != v1alpha1.PlayRunning || status.Slots[0].Play == "" {
		t.Error("the status that was handed in has changed")
	}
}
