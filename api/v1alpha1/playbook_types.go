package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Playbook is a reusable definition of a run: which plays, in what order, through how many slots.
//
// +kubebuilder:object:root=true
type Playbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the definition. Immutable for a drive once it has started: the drive runs the text that it began with.
	Spec PlaybookSpec `json:"spec"`
}

// PlaybookSpec defines plays and the pod that they run in.
type PlaybookSpec struct {
	// Params are the values that a drive can set. Default: none.
	// +optional
	Params []Param `json:"params,omitempty"`

	// Slots are the container positions of the pod, in groups of one shape.
	// Default: one group named "slot" with two slots.
	// +optional
	Slots []SlotGroup `json:"slots,omitempty"`

	// Scratch is the volume that every play sees. Default: a directory at /scratch without a size limit.
	// +optional
	Scratch *Scratch `json:"scratch,omitempty"`

	// Plays are the stages, at least one. A play without needs follows the play before it.
	Plays []Play `json:"plays"`

	// Finally are plays that run one after the other once the others have ended, however they ended: after success,
	// failure and cancellation. One that fails does not keep the next from running, but the drive has failed then.
	// +optional
	Finally []Play `json:"finally,omitempty"`
}

// Param is one value that a drive can set; plays read it as ${{ params.<name> }}.
type Param struct {
	// Name is a CEL identifier: letters, digits and underscores, not starting with a digit.
	Name string `json:"name"`

	// Description says what the value is for.
	// +optional
	Description string `json:"description,omitempty"`

	// Default is the value of a drive that sets none. Without a default, every drive must set the param.
	// +optional
	Default *string `json:"default,omitempty"`
}

// SlotGroup is a number of slots of one shape.
type SlotGroup struct {
	// Name is a DNS label. The slots of the group are named <name>-0, <name>-1 and so on.
	Name string `json:"name"`

	// Count is the number of slots, 1 to 16. Default: 1 (the group that stands in for absent slots has 2).
	// +optional
	Count *int32 `json:"count,omitempty"`

	// Resources is what the slots of this group can give a play at the most: a play whose limits are higher, or that
	// asks for an extended resource which the group lacks, does not run here. Default: no bound, and no extended resource.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// Scratch is the volume that the plays share.
type Scratch struct {
	// MountPath is where every play sees the volume. Default: /scratch.
	// +optional
	MountPath string `json:"mountPath,omitempty"`

	// SizeLimit ends the drive as failed when the volume holds more. Default: no limit.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`

	// Medium is where the bytes are: "" for the node's disk, Memory for a tmpfs, which counts as memory of the pod.
	// +optional
	Medium corev1.StorageMedium `json:"medium,omitempty"`
}

// OnError says what a play's final failure means for the drive.
type OnError string

const (
	// OnErrorStop fails the drive: no further play starts, those that run are left to end, then finally runs. The default.
	OnErrorStop OnError = "Stop"
	// OnErrorContinue records the failure and goes on: plays that need this one run as if it had succeeded.
	OnErrorContinue OnError = "Continue"
)

// Play is one stage: an image and what to run in it.
type Play struct {
	// Name is a DNS label (at most 63 of a-z, 0-9 and -), unique among plays and finally.
	Name string `json:"name"`

	// Image is the container image. It can hold ${{ }}.
	Image string `json:"image"`

	// Command replaces the image's ENTRYPOINT, as in Kubernetes. Default: the image's. Its strings can hold ${{ }}.
	// Unlike Kubernetes, $(NAME) and $$ are left as they stand.
	// +optional
	Command []string `json:"command,omitempty"`

	// Args replace the image's CMD, as in Kubernetes. Default: the image's, unless command is set. Can hold ${{ }}.
	// +optional
	Args []string `json:"args,omitempty"`

	// Script is written to a file and executed, instead of command and args. Without a #! line, /bin/sh runs it.
	// It can hold ${{ }}; everything else is kept byte for byte.
	// +optional
	Script string `json:"script,omitempty"`

	// Env is added to the image's environment. Values can hold ${{ }}. Default: none.
	// +optional
	Env []EnvVar `json:"env,omitempty"`

	// WorkingDir is made if it doesn't exist. Default: the image's. Can hold ${{ }}.
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// Needs names the plays that must have ended before this one starts: succeeded, been skipped, or failed with
	// onError: Continue. Default: the play before this one in the list; [] starts at once.
	// Not allowed under finally, whose plays run in the order of the list.
	// +optional
	Needs *[]string `json:"needs,omitempty"`

	// When is a CEL expression that yields a bool; the play is skipped where it is false. Default: true.
	// +optional
	When string `json:"when,omitempty"`

	// ForEach runs the play once for each item, side by side as far as slots are free. The item is ${{ item }}.
	// +optional
	ForEach *ForEach `json:"forEach,omitempty"`

	// Retries says how often and when a failed attempt is tried again. Default: never.
	// +optional
	Retries *Retries `json:"retries,omitempty"`

	// Timeout bounds one attempt, from the start of its process. Default: none.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// OnError is Stop or Continue. Default: Stop.
	// +optional
	OnError OnError `json:"onError,omitempty"`

	// Resources of the play. The memory limit bounds the container of the play; requests count towards the pod's request
	// while the play runs or is staged. Default: none.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// GracePeriodSeconds is the time between SIGTERM and SIGKILL when the play is stopped (cancel, timeout).
	// 0 to 3600, default 30.
	// +optional
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`

	// Reuse lets the play run in the container of the play that its slot ran before, where that has the same image and
	// limits; what that play left in the container's own file system is still there then. Default: false, a fresh container.
	// +optional
	Reuse bool `json:"reuse,omitempty"`

	// Slot names the group of slots to run in. Default: the first group that has what the play's resources ask for,
	// those with the fewest extended resources first.
	// +optional
	Slot string `json:"slot,omitempty"`
}

// EnvVar is one environment variable: a value, or a reference to one.
type EnvVar struct {
	// Name of the variable.
	Name string `json:"name"`
	// Value can hold ${{ }}. Default: "".
	// +optional
	Value string `json:"value,omitempty"`
	// ValueFrom takes the value from elsewhere; value must be empty then.
	// +optional
	ValueFrom *EnvVarSource `json:"valueFrom,omitempty"`
}

// EnvVarSource is where a variable's value comes from.
type EnvVarSource struct {
	// SecretKeyRef selects a key of a Secret. Its value appears in no status, event, assignment or stored log.
	SecretKeyRef *corev1.SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// Retries says how often and when a failed attempt is tried again.
type Retries struct {
	// Limit is the number of further attempts, 0 to 100.
	Limit int32 `json:"limit"`
	// Backoff is the pause before each further attempt. Default: 0s.
	// +optional
	Backoff *metav1.Duration `json:"backoff,omitempty"`
	// ExitCodes are the codes that are tried again, 1 to 255. Default: every failure is, whatever its code.
	// +optional
	ExitCodes []int32 `json:"exitCodes,omitempty"`
}
