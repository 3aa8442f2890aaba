package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drive is one run of a playbook.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Drive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user asks for.
	Spec DriveSpec `json:"spec"`
	// Status is what has happened; nohuddle alone writes it.
	// +optional
	Status DriveStatus `json:"status,omitempty"`
}

// Intent is what the user wants of a drive now.
type Intent string

const (
	// IntentRun lets the drive go on. The default.
	IntentRun Intent = "Run"
	// IntentSuspend starts no further play; those that run are left to end.
	IntentSuspend Intent = "Suspend"
	// IntentCancel stops the plays that run, skips the others and runs finally. It can't be taken back.
	IntentCancel Intent = "Cancel"
)

// DriveSpec says which playbook runs with which values.
type DriveSpec struct {
	// Params are values for the playbook's params, by name. Immutable.
	// +optional
	Params map[string]string `json:"params,omitempty"`

	// Intent is Run, Suspend or Cancel. Default: Run. The only field of the spec that can change.
	// +optional
	Intent Intent `json:"intent,omitempty"`

	// Playbook is the definition, inline. Immutable.
	Playbook *PlaybookSpec `json:"playbook,omitempty"`
}

// DrivePhase is where a drive stands.
type DrivePhase string

// The phases of a drive. Succeeded, Failed and Cancelled are terminal.
const (
	// DrivePending: accepted, nothing has run yet.
	DrivePending DrivePhase = "Pending"
	// DriveRunning: plays run, or are about to.
	DriveRunning DrivePhase = "Running"
	// DriveSuspended: the intent is Suspend and no play runs any more.
	DriveSuspended DrivePhase = "Suspended"
	// DriveSucceeded: every play succeeded, was skipped by its when, or failed with onError: Continue.
	DriveSucceeded DrivePhase = "Succeeded"
	// DriveFailed: a play failed, or the pod was lost.
	DriveFailed DrivePhase = "Failed"
	// DriveCancelled: the intent became Cancel before the plays had ended.
	DriveCancelled DrivePhase = "Cancelled"
)

// Terminal says whether a drive in this phase never changes any more.
func (p DrivePhase) Terminal() bool {
	return p == DriveSucceeded || p == DriveFailed || p == DriveCancelled
}

// PlayPhase is where a play stands.
type PlayPhase string

// The phases of a play. Succeeded, Failed, Skipped and Cancelled are terminal.
const (
	// PlayPending: has needs that have not ended, waits for a slot, or for the pause before its next attempt.
	PlayPending PlayPhase = "Pending"
	// PlayStaged: its image and assignment are put into a slot; it starts there as soon as its gate opens.
	PlayStaged PlayPhase = "Staged"
	// PlayRunning: its process runs.
	PlayRunning PlayPhase = "Running"
	// PlaySucceeded: its process ended with 0. A forEach play: each of its items succeeded.
	PlaySucceeded PlayPhase = "Succeeded"
	// PlayFailed: its last attempt failed.
	PlayFailed PlayPhase = "Failed"
	// PlaySkipped: its when was false, or the drive failed before its turn came.
	PlaySkipped PlayPhase = "Skipped"
	// PlayCancelled: the drive was cancelled while the play ran or before its turn came.
	PlayCancelled PlayPhase = "Cancelled"
)

// Terminal says whether a play in this phase never changes any more.
func (p PlayPhase) Terminal() bool {
	switch p {
	case PlaySucceeded, PlayFailed, PlaySkipped, PlayCancelled:
		return true
	}
	return false
}

// DriveStatus is what has happened so far.
type DriveStatus struct {
	// Phase is where the drive stands. Default: Pending.
	// +optional
	Phase DrivePhase `json:"phase,omitempty"`
	// Reason is one PascalCase word for why the phase is what it is, set with Failed, Cancelled and Suspended.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says the same in a sentence, naming the play at fault.
	// +optional
	Message string `json:"message,omitempty"`
	// StartedAt is when the pod was asked for.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// FinishedAt is when the phase became terminal.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// PeakMemory is the most memory that the pod held at any moment, as its cgroup counted it (page cache included).
	// Absent where the machine doesn't count.
	// +optional
	PeakMemory *resource.Quantity `json:"peakMemory,omitempty"`
	// Plays has an entry for each play in the order of the playbook, those of finally last. The entry of a play with
	// forEach sums up its items, whose own entries follow it.
	// +optional
	Plays []PlayStatus `json:"plays,omitempty"`
	// Slots is what each slot holds.
	// +optional
	Slots []SlotStatus `json:"slots,omitempty"`
}

// PlayStatus is what happened to one play, or to one item of a play with forEach.
type PlayStatus struct {
	// Name of the play; items are named <play>.<index>, from 0.
	Name string `json:"name"`
	// Item is the text that ${{ item }} stands for; set for items only.
	// +optional
	Item *string `json:"item,omitempty"`
	// Items is how many items the play has; set for plays with forEach once the list is known.
	// +optional
	Items *int32 `json:"items,omitempty"`
	// Phase is where the play stands.
	Phase PlayPhase `json:"phase"`
	// Reason is one PascalCase word for why, absent when the phase says it all.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says the same in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Attempt is the number of the current or last attempt, from 1; 0 before the first.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Slot that the current or last attempt was put into.
	// +optional
	Slot string `json:"slot,omitempty"`
	// ExitCode of the last attempt's process: 0–125 its own, 126 not executable, 127 not found, 128+n killed by signal n.
	// Absent where no process ended.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// StartedAt is when the last attempt's process was started.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// FinishedAt is when the last attempt's process had ended.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// RetryAt is when the next attempt may start; set while the play waits for it.
	// +optional
	RetryAt *metav1.MicroTime `json:"retryAt,omitempty"`
	// PeakMemory of the container that the last attempt ran in. Absent where the machine doesn't count.
	// +optional
	PeakMemory *resource.Quantity `json:"peakMemory,omitempty"`
	// Outputs are what the last attempt wrote to $NOHUDDLE_OUTPUT.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// Attempts are the earlier attempts, oldest first.
	// +optional
	Attempts []AttemptStatus `json:"attempts,omitempty"`
}

// AttemptStatus is how an earlier attempt of a play ended.
type AttemptStatus struct {
	// Attempt is its number, from 1.
	Attempt int32 `json:"attempt"`
	// Slot it was put into.
	// +optional
	Slot string `json:"slot,omitempty"`
	// ExitCode as in PlayStatus.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Reason as in PlayStatus.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message as in PlayStatus.
	// +optional
	Message string `json:"message,omitempty"`
	// StartedAt as in PlayStatus.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// FinishedAt as in PlayStatus.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// SlotStatus is what a slot holds: the planner's own memory between two steps.
type SlotStatus struct {
	// Name of the slot, <group>-<index>.
	Name string `json:"name"`
	// Image that the slot's container is, or is to become; "" before the first.
	// +optional
	Image string `json:"image,omitempty"`
	// Swap counts the containers of the slot; it grows with each substitution.
	// +optional
	Swap int64 `json:"swap,omitempty"`
	// Seq counts the assignments of the slot; it grows with each new one.
	// +optional
	Seq int64 `json:"seq,omitempty"`
	// Owner is the play that the present container was made for; its resources are the container's.
	// +optional
	Owner string `json:"owner,omitempty"`
	// Used says that an attempt has run in the present container, or that it could not be made.
	// +optional
	Used bool `json:"used,omitempty"`
	// Play is the name of the play (or item) whose attempt the slot holds; "" when it holds none.
	// +optional
	Play string `json:"play,omitempty"`
	// Attempt of the play.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Recall is how the attempt is being taken back: "" not, Revoke unless it runs already, Stop even then.
	// +optional
	Recall Recall `json:"recall,omitempty"`
}

// Recall is how a slot's attempt is being taken back.
type Recall string

const (
	// RecallRevoke takes back an attempt that has not started; one that has is left to end.
	RecallRevoke Recall = "Revoke"
	// RecallStop takes back an attempt that has not started and stops one that has.
	RecallStop Recall = "Stop"
)

// The reasons that Reason fields hold, and what they mean.
const (
	// ReasonError: the process ended with a code other than 0.
	ReasonError = "Error"
	// ReasonTimeout: the attempt ran for longer than its timeout and was stopped.
	ReasonTimeout = "Timeout"
	// ReasonOOMKilled: the kernel killed a process of the attempt because the container was out of memory.
	ReasonOOMKilled = "OOMKilled"
	// ReasonInterrupted: the container died while the attempt ran; it is not known how far the attempt came.
	ReasonInterrupted = "Interrupted"
	// ReasonStopped: the attempt was stopped because the drive was cancelled.
	ReasonStopped = "Stopped"
	// ReasonReady: the play's needs have ended and its when is true; it waits for a slot.
	ReasonReady = "Ready"
	// ReasonImage: the image can't be had or can't be used; the message names it and what the registry answered.
	ReasonImage = "ImageUnavailable"
	// ReasonSlot: the slot's container could not be made or started.
	ReasonSlot = "SlotFailed"
	// ReasonOutput: what the play wrote to $NOHUDDLE_OUTPUT is malformed or too large.
	ReasonOutput = "OutputInvalid"
	// ReasonExpression: an expression could not be evaluated; the message names it.
	ReasonExpression = "ExpressionFailed"
	// ReasonTooLarge: arguments, environment or script are larger than an assignment can carry.
	ReasonTooLarge = "AssignmentTooLarge"
	// ReasonWhen: the play's when was false.
	ReasonWhen = "WhenFalse"
	// ReasonNotReached: the drive failed before the play's turn came.
	ReasonNotReached = "NotReached"
	// ReasonItemFailed: an item of the play failed.
	ReasonItemFailed = "ItemFailed"
	// ReasonPlayFailed: the drive failed because a play did.
	ReasonPlayFailed = "PlayFailed"
	// ReasonPodLost: the pod ended or vanished before the drive was done.
	ReasonPodLost = "PodLost"
	// ReasonCancelled: the user asked for it.
	ReasonCancelled = "Cancelled"
	// ReasonSuspended: the user asked for it.
	ReasonSuspended = "Suspended"
)
