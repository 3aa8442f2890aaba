package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nohuddle/nohuddle/internal/shim/protocol"
)

// Pod is what a drive's pod should be. Engines converge on the newest one; applying the same twice changes nothing.
type Pod struct {
	Slots []Slot
}

// Slot is what one slot should be.
type Slot struct {
	Name string
	// Swap is the number of the slot's container: a higher one than before asks for a fresh container, the same one for
	// the present container to be left alone and given the assignment, if that is new.
	Swap int64
	// Image of the container; "" where the slot has nothing to run yet and no container of a play (a placeholder).
	Image string
	// Resources of the container.
	Resources corev1.ResourceRequirements
	// Command and Args are a play's own, nil where it has none: the engine completes Assignment.Argv from them and the
	// image, by Kubernetes' rules, unless Assignment.Script is set or the assignment has no token.
	Command, Args []string
	// Assignment for the shim, complete but for Argv. One with End ends the slot whatever container it holds, also if the
	// one with this Swap never came to be. While it has not, an engine may answer an assignment that takes an attempt back
	// (without a token, or with Stop) itself, with the State that the shim would tell.
	Assignment protocol.Assignment
}

// PodPhase is where a pod stands, as an engine sees it.
type PodPhase string

// The phases of a pod.
const (
	// PodAbsent: there is none, or not yet.
	PodAbsent PodPhase = ""
	// PodUp: it exists; its slots may still be on their way.
	PodUp PodPhase = "Up"
	// PodEnded: every slot has ended because its assignment said so.
	PodEnded PodPhase = "Ended"
	// PodLost: it ended or vanished without having been told to; Reason and Message of Observed say why.
	PodLost PodPhase = "Lost"
)

// Observed is what an engine sees of a drive's pod.
type Observed struct {
	Phase PodPhase
	// Reason (PascalCase) and Message say why the pod was lost.
	Reason, Message string
	// Slots by name.
	Slots map[string]ObservedSlot
	// Claims and Results by token; at least those of the tokens that are in the slots.
	// They must have been read after the slots' states, so that a token which a shim has given up is not missed.
	Claims  map[string]protocol.Claim
	Results map[string]protocol.Result
	// PeakMemory is the most that the pod has held so far, in bytes; 0 where that isn't counted.
	PeakMemory int64
}

// ObservedSlot is what an engine sees of a slot.
type ObservedSlot struct {
	// State is the newest that the slot's shim told; zero before the first.
	State protocol.State
	// Death is how the slot's container last died without being told to; nil if it didn't.
	Death *Death
	// Problem is why the slot can't become what Pod asks; nil if it can, or is about to.
	Problem *Problem
	// Doing is what the engine is busy with, for people: "pulling example.com/a:1". "" when it is done.
	Doing string
}

// Death is the unexpected end of a slot's container. The engine makes the container anew by itself.
type Death struct {
	// Swap of the container that died.
	Swap int64
	// OOM says that the kernel killed it because its memory limit was reached.
	OOM bool
	// Message says what is known, in a sentence.
	Message string
}

// Problem is why a slot can't become what was asked.
type Problem struct {
	// Swap and Seq of the plan.Slot that can't be had.
	Swap, Seq int64
	// Reason is one of the API's: ReasonImage, ReasonSlot, ReasonTooLarge.
	Reason string
	// Message is one sentence: the object, the cause, the next step.
	Message string
}
