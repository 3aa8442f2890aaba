// Package engine owns the interface between a drive's plan and what carries it out: containers on this machine (local),
// a pod of a cluster (kube), or a simulation (fake). The contract is held by package enginetest, which every engine passes.
//
// An engine decides nothing: it makes the pod what it is told and tells what it sees.
package engine

import (
	"context"
	"io"

	"github.com/nohuddle/nohuddle/internal/plan"
)

// Engine carries out the plan of one drive.
type Engine interface {
	// Apply makes the pod what it should be. It returns at once; the newest pod wins; the same one twice changes nothing.
	// An error means that nothing can be carried out any more (not: that one slot failed, which Observe tells).
	Apply(ctx context.Context, pod plan.Pod) error
	// Observe tells what the pod is now.
	Observe(ctx context.Context) (plan.Observed, error)
	// Changed receives a value after something that Observe tells has changed; bursts are merged into one.
	Changed() <-chan struct{}
	// Log opens what the attempt with this token has written so far; fs.ErrNotExist before it began.
	Log(token string) (io.ReadCloser, error)
	// Close kills whatever still runs and removes the pod and all that it holds, logs excepted. It can be called at any
	// time and twice, and when it returns nothing of the pod is left.
	Close(ctx context.Context) error
}
