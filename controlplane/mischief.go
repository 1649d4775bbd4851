package controlplane

import (
	"context"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/rent/allocation"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// Point is an attempt at a stage of a job.
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
	MishapRefused     Mishap = "refused"     // what the stage needs says no
	MishapKilled      Mishap = "killed"      // the worker dies: no answer, no record
	// delivered again, to somebody who knows nothing of the first time; only Before
	MishapTwice Mishap = "twice"
)

// Mischief makes stages of jobs go wrong, in simulations of faults.
type Mischief interface {
	// Before is asked before a stage is run.
	Before(ctx context.Context, at Point) Mishap
	// After is asked when a stage has had its effect and nothing is recorded yet.
	After(ctx context.Context, at Point) Mishap
}

// mischief makes stages go wrong as a Mischief wants it.
type mischief struct{ plan Mischief }

// mischief is nil when nothing is to go wrong.
func (p *parts) mischief() job.Mischief[*bringup.Work] {
	if p.opts.Mischief == nil {
		return nil
	}
	return mischief{p.opts.Mischief}
}

// Around implements job.Mischief.
func (m mischief) Around(ctx context.Context, call durable.StageCall, w *bringup.Work, stage bringup.Stage) (
	result job.Result, err error,
) {
	first := *w
	err = m.around(ctx, Point(call), func() error {
		_, err := stage(ctx, &first)
		return err
	}, func() error {
		result, err = stage(ctx, w)
		return err
	})
	return result, err
}

// around runs a stage as its plan wants it; first is what an earlier delivery of it
// did.
func (m mischief) around(ctx context.Context, at Point, first, stage func() error) error {
	mishap := m.plan.Before(ctx, at)
	if mishap == MishapTwice {
		if err := first(); err != nil {
			return err
		}
	} else if err := mishap.err(); err != nil {
		return err
	}
	if err := stage(); err != nil {
		return err
	}
	return m.plan.After(ctx, at).err()
}

// rentMischief makes stages of allocations go wrong as a Mischief wants it.
type rentMischief struct{ mischief }

// Around implements allocation.Mischief.
func (m rentMischief) Around(ctx context.Context, of id.Allocation, at allocation.Stage,
	stage func(context.Context) error,
) error {
	run := func() error { return stage(ctx) }
	return m.around(ctx, Point{Job: of.String(), Stage: string(at)}, run, run)
}

func (m Mishap) err() error {
	switch m {
	case MishapUnavailable:
		return fault.New(fault.Unavailable, "simulated_outage",
			"a simulated outage").WithRemedy("it ends by itself; try again")
	case MishapAmbiguous:
		return fault.New(fault.Ambiguous, "simulated_timeout", "a simulated time-out: nobody knows whether it happened")
	case MishapRefused:
		return fault.New(fault.Forbidden, "simulated_refusal",
			"a simulated refusal").WithRemedy("let it be done; then try again")
	case MishapKilled:
		return job.ErrKilled
	case MishapNone, MishapTwice:
	}
	return nil
}

// hurried is the back-off of simulations.
func hurried(int) time.Duration { return 20 * time.Millisecond }

// hurriedPatience is how long tasks of simulated nodes may wait to be fetched,
// and their machines may take to be seen off.
const hurriedPatience = 10 * time.Second
