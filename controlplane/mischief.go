package controlplane

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/job"
	"gpuaas/controlplane/internal/onboarding"
)

// Point is an attempt at a stage of an onboarding.
type Point struct {
	Job, Stage string
	Attempt    int
	Epoch      int64
}

// Mishap is what goes wrong at a point.
type Mishap string

// The mishaps.
const (
	MishapNone        Mishap = ""
	MishapUnavailable Mishap = "unavailable" // proven not accepted
	MishapAmbiguous   Mishap = "ambiguous"   // nobody knows whether it happened
	MishapKilled      Mishap = "killed"      // the worker dies: no answer, no record
	MishapTwice       Mishap = "twice"       // delivered again, to somebody who knows nothing of the first time; only Before
)

// Mischief makes stages of onboardings go wrong, in simulations of faults.
type Mischief interface {
	// Before is asked before a stage is run.
	Before(ctx context.Context, at Point) Mishap
	// After is asked when a stage has had its effect and nothing is recorded yet.
	After(ctx context.Context, at Point) Mishap
}

// mischief puts a Mischief between an onboarding and its stages.
type mischief struct {
	*bringup.Bringup
	plan Mischief
}

func point(w *bringup.Work, stage string) Point {
	return Point{Job: w.Job, Stage: stage, Attempt: w.Attempt, Epoch: w.Epoch}
}

func (m mischief) Stages() map[string]bringup.Stage {
	stages := m.Bringup.Stages()
	for name, stage := range stages {
		stages[name] = func(ctx context.Context, w *bringup.Work) (bringup.Result, error) {
			mishap := m.plan.Before(ctx, point(w, name))
			if mishap == MishapTwice {
				first := *w
				if _, err := stage(ctx, &first); err != nil {
					return bringup.Result{}, err
				}
			} else if err := mishap.err(); err != nil {
				return bringup.Result{}, err
			}
			result, err := stage(ctx, w)
			if err != nil {
				return result, err
			}
			return result, m.plan.After(ctx, point(w, name)).err()
		}
	}
	return stages
}

func (m Mishap) err() error {
	switch m {
	case MishapUnavailable:
		return fault.New(fault.Unavailable, "simulated_outage", "a simulated outage").WithRemedy("it ends by itself; try again")
	case MishapAmbiguous:
		return fault.New(fault.Ambiguous, "simulated_timeout", "a simulated time-out: nobody knows whether it happened")
	case MishapKilled:
		return job.ErrKilled
	case MishapNone, MishapTwice:
	}
	return nil
}

var _ onboarding.Bringup = mischief{}

// hurried is the back-off of simulations.
func hurried(int) time.Duration { return 20 * time.Millisecond }
