package onboarding

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/bringup"
	"gpuaas/controlplane/internal/durable"
	"gpuaas/controlplane/internal/fault"
	"gpuaas/controlplane/internal/id"
)

// heartbeatEvery is how often a stage that is at work says so.
const heartbeatEvery = 5 * time.Second

// RegisterWorker adds the workflows and their activities to a worker: one
// activity for each stage, so that histories can be read.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: workflowType})
	w.RegisterWorkflowWithOptions(BatchWorkflow, workflow.RegisterOptions{Name: batchWorkflowType})
	w.RegisterActivityWithOptions(s.nextTurn, activity.RegisterOptions{Name: nextActivity})
	w.RegisterActivityWithOptions(s.loseStage, activity.RegisterOptions{Name: lostActivity})
	w.RegisterActivityWithOptions(s.admit, activity.RegisterOptions{Name: admitActivity})
	for _, list := range [][]Stage{stages, pseudoStages} {
		for _, stage := range list {
			w.RegisterActivityWithOptions(s.runStage, activity.RegisterOptions{Name: stageActivity(stage.Name)})
		}
	}
}

func (s *Service) nextTurn(ctx context.Context, job string) (durable.Turn, error) {
	of, err := id.Parse[id.Onboarding](job)
	if err != nil {
		return durable.Turn{}, fault.Wrap(err, fault.Internal, "onboarding_id_malformed", "%q is not the id of an onboarding", job)
	}
	return s.next(ctx, of, activity.GetInfo(ctx).WorkflowExecution.RunID)
}

func (s *Service) admit(ctx context.Context, batch id.OnboardingBatch) (Admission, error) {
	return s.admitBatch(ctx, batch)
}

// loseStage records that a stage brought no answer: a defect of ours, or a
// refusal that nobody expected. What the stage did is seen by the next attempt.
func (s *Service) loseStage(ctx context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn, error) {
	a, err := s.begin(ctx, call, activity.GetInfo(ctx).WorkflowExecution.RunID, false)
	if fault.CodeOf(err) == durable.CodeSuperseded { // it was recorded after all, or somebody acted
		return s.nextTurn(ctx, call.Job)
	}
	if err != nil {
		return durable.Turn{}, err
	}
	a.err = fault.New(loss.Kind, loss.Code, "%s", loss.Message)
	return s.record(ctx, a)
}

// runStage is one attempt at a stage, and at those that follow it and wait for
// nothing: each is recorded, and so many fewer round trips to Temporal are half
// of what an onboarding costs. A worker that dies meanwhile has left a row that
// is further than its call; whoever repeats the call is superseded and asks.
func (s *Service) runStage(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	began := time.Now()
	for chained := false; ; chained = true {
		turn, err := s.runOne(ctx, call, chained)
		if err != nil || !goesOn(ctx, turn, began) {
			return shown(turn), err
		}
		call = durable.StageCall{Job: call.Job, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch}
	}
}

// goesOn says whether the same activity takes the next stage: one that waits for
// nothing, while there is plenty of the activity's own time left.
func goesOn(ctx context.Context, turn durable.Turn, began time.Time) bool {
	next, ok := StageOf(turn.Stage)
	if !ok || turn.Do != durable.TurnRun || len(turn.Marks) > 0 || !next.brief() {
		return false
	}
	deadline := activity.GetInfo(ctx).Deadline
	return deadline.IsZero() || time.Now().Before(began.Add(deadline.Sub(began)/2))
}

// shown lets people find the job in Temporal by the stage that comes next.
func shown(turn durable.Turn) durable.Turn {
	if turn.Do == durable.TurnRun && len(turn.Marks) == 0 {
		turn.Marks = map[string]string{durable.MarkStage: turn.Stage}
	}
	return turn
}

// maxTakes is how often an attempt is taken up before it counts as one that no
// worker survives, or that never ends in its time.
const maxTakes = 100

// runOne is one attempt at one stage.
func (s *Service) runOne(ctx context.Context, call durable.StageCall, chained bool) (durable.Turn, error) {
	a, err := s.begin(ctx, call, activity.GetInfo(ctx).WorkflowExecution.RunID, chained)
	switch {
	case err != nil && ctx.Err() != nil:
		return durable.Turn{}, interrupted(ctx)
	case err != nil:
		return durable.Turn{}, err
	case a.before.takes > maxTakes:
		a.err = &bringup.Failure{
			Class: durable.StateAmbiguity, Code: "stage_lost", Final: true,
			Message: fmt.Sprintf("the stage was taken up %d times, and never ended: it takes too long, or its workers die", maxTakes),
			Remedy:  "look at the logs of the workers, then retry",
		}
		return s.record(ctx, a)
	}
	a.work.Heartbeat = func() { activity.RecordHeartbeat(ctx) }
	stop := beat(ctx)
	a.result, a.err = s.attempt(ctx, a)
	stop()
	switch {
	case fault.CodeOf(a.err) == durable.CodeSuperseded:
		return durable.Turn{}, superseded(a.before.ID)
	case ctx.Err() != nil:
		return durable.Turn{}, interrupted(ctx)
	case fault.CodeOf(a.err) == codeKilled:
		return durable.Turn{}, a.err
	}
	if a.err != nil {
		s.logger.WarnContext(ctx, "stage failed", "onboarding_id", call.Job, "hostname", a.before.Hostname, "stage", call.Stage, "attempt", call.Attempt, "error", a.err)
	}
	return s.record(ctx, a)
}

// ErrKilled is what Mischief returns to play a worker that dies at this very
// moment: nothing is recorded, and Temporal gives the stage to another one.
var ErrKilled = fault.New(fault.Unavailable, codeKilled, "the worker was killed in the middle of a stage")

const codeKilled = "worker_killed"

// attempt runs the stage, with what is to go wrong around it.
func (s *Service) attempt(ctx context.Context, a attempt) (result bringup.Result, err error) {
	defer func() {
		if r := recover(); r != nil { // or the job would run on for ever, and nobody would know why
			s.logger.ErrorContext(ctx, "stage panicked", "stage", a.call.Stage, "panic", r, "stack", string(debug.Stack()))
			err = &bringup.Failure{
				Class: durable.StateAmbiguity, Code: "stage_defect", Message: "the stage met a defect of the control plane; see the worker's log", Final: true,
			}
		}
	}()
	if err := s.equip(ctx, a); err != nil {
		return bringup.Result{}, err
	}
	if err := s.mischief.Before(ctx, a.call); err != nil {
		return bringup.Result{}, err
	}
	result, err = s.perform(ctx, a)
	if replaced := s.mischief.After(ctx, a.call, err); replaced != nil {
		err = replaced
	}
	return result, err
}

func (s *Service) perform(ctx context.Context, a attempt) (bringup.Result, error) {
	switch a.call.Stage {
	case StageCompensate:
		return bringup.Result{}, s.bringup.Compensate(ctx, a.work)
	case StageAdopt:
		return s.bringup.Adopt(ctx, a.work)
	}
	stage, ok := s.bringup.Stages()[a.call.Stage]
	if !ok {
		return bringup.Result{}, fault.New(fault.Internal, "stage_unknown", "there is no stage %s", a.call.Stage)
	}
	return stage(ctx, a.work)
}

// beat says that a stage is at work until it is told to stop.
func beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ticker := time.NewTicker(heartbeatEvery)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return cancel
}

// interrupted is the end of a stage that was told to stop: by its workflow,
// because an operator acted, or because its worker is being stopped, in which
// case another one takes it up.
func interrupted(ctx context.Context) error {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return fault.New(fault.Unavailable, "worker_stopping", "the worker was stopped in the middle of a stage")
	default:
		return temporal.NewCanceledError()
	}
}
