// Package drive owns the loop that takes one drive from its first step to its end on one engine:
// observe → plan.Step → save → apply → tell, again whenever something changes.
//
// It decides nothing; every decision is package plan's.
package drive

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
	"github.com/nohuddle/nohuddle/internal/engine"
	"github.com/nohuddle/nohuddle/internal/plan"
	"github.com/nohuddle/nohuddle/internal/playbook"
)

// Options are what a drive runs on and whom it tells.
type Options struct {
	// Name of the drive.
	Name    string
	Program *playbook.Program
	Engine  engine.Engine
	// Save stores a changed status before the pod that follows from it is applied. Its error ends the loop.
	Save func(v1alpha1.DriveStatus) error
	// Tell takes each event once its status is saved. May be nil.
	Tell func(plan.Event)
	// Watch takes every status and observation, changed or not, for live views; it must not block. May be nil.
	Watch func(v1alpha1.DriveStatus, plan.Observed)
}

// Run takes a drive to its end and returns its last status. Intents received on the channel replace the one before;
// the first is Run. When ctx is done, Run returns its error at once: what still runs is the caller's to close.
func Run(ctx context.Context, o Options, intents <-chan v1alpha1.Intent) (v1alpha1.DriveStatus, error) {
	var status v1alpha1.DriveStatus
	intent := v1alpha1.IntentRun
	for {
		seen, err := o.Engine.Observe(ctx)
		if err != nil {
			return status, fmt.Errorf("observe the pod: %w", err)
		}
		out := plan.Step(plan.Input{
			Now: time.Now(), Name: o.Name, Intent: intent, Program: o.Program, Status: status, Observed: seen,
		})
		if err := o.carry(ctx, &status, out, seen); err != nil {
			return status, err
		}
		if status.Phase.Terminal() {
			return status, nil
		}
		if intent, err = o.wait(ctx, out.Wake, intent, intents); err != nil {
			return status, err
		}
	}
}

// carry stores, applies and tells what a step has decided.
func (o *Options) carry(ctx context.Context, status *v1alpha1.DriveStatus, out plan.Output, seen plan.Observed) error {
	if !equality.Semantic.DeepEqual(*status, out.Status) {
		if err := o.Save(out.Status); err != nil {
			return err // it says what could not be saved, and where
		}
	}
	*status = out.Status
	if !status.Phase.Terminal() {
		if err := o.Engine.Apply(ctx, out.Pod); err != nil {
			return fmt.Errorf("change the pod: %w", err)
		}
	}
	if o.Tell != nil {
		for _, e := range out.Events {
			o.Tell(e)
		}
	}
	if o.Watch != nil {
		o.Watch(*status, seen)
	}
	return nil
}

// wait returns the intent once there is a reason for another step.
func (o *Options) wait(ctx context.Context, wake time.Time, intent v1alpha1.Intent, intents <-chan v1alpha1.Intent) (v1alpha1.Intent, error) {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer := time.NewTimer(time.Until(wake))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
		return intent, ctx.Err()
	case next := <-intents:
		return next, nil
	case <-o.Engine.Changed():
	case <-alarm:
	}
	return intent, nil
}
