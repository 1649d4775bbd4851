package job

import (
	"context"
	"maps"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
)

// heartbeatEvery is how often a stage that is at work says so.
const heartbeatEvery = 5 * time.Second

// RegisterWorker adds the workflow of a job, given as the family wrote it, and
// its activities to a worker: one activity for each stage, so that histories can
// be read. Each activity refuses the call of a workflow that is not the job's.
func (r *Runner[R, W]) RegisterWorker(w worker.Registry, run any) {
	w.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: r.names.Type})
	w.RegisterActivityWithOptions(func(ctx context.Context, job string) (durable.Turn, error) {
		if err := r.calledByItsWorkflow(ctx, job); err != nil {
			return durable.Turn{}, err
		}
		return r.NextTurn(ctx, job)
	}, activity.RegisterOptions{Name: r.names.Next})
	w.RegisterActivityWithOptions(func(ctx context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn,
		error,
	) {
		if err := r.calledByItsWorkflow(ctx, call.Job); err != nil {
			return durable.Turn{}, err
		}
		return r.LoseStage(ctx, call, loss)
	}, activity.RegisterOptions{Name: r.names.Lost})
	if r.names.Wake != "" {
		w.RegisterActivityWithOptions(func(ctx context.Context, job string) error {
			if err := r.calledByItsWorkflow(ctx, job); err != nil {
				return err
			}
			return r.Wake(ctx, job)
		}, activity.RegisterOptions{Name: r.names.Wake})
	}
	for _, stage := range r.stages {
		w.RegisterActivityWithOptions(func(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
			if err := r.calledByItsWorkflow(ctx, call.Job); err != nil {
				return durable.Turn{}, err
			}
			if call.Stage != stage {
				return durable.Turn{}, fault.New(fault.Forbidden, "stage_not_called",
					"the activity of stage %s was called for stage %s", stage, call.Stage)
			}
			return r.RunStage(ctx, call)
		}, activity.RegisterOptions{Name: r.names.Stage(stage)})
	}
}

// calledByItsWorkflow refuses a call for a job that does not exist, and one that
// another workflow than the job's own makes. Whoever reaches Temporal can
// schedule any activity with any arguments. What remains for them, the row
// decides: begin takes only the stage, attempt and epoch that it expects.
func (r *Runner[R, W]) calledByItsWorkflow(ctx context.Context, job string) error {
	row, err := r.store.Get(ctx, job)
	if err != nil {
		return err
	}
	if caller := activity.GetInfo(ctx).WorkflowExecution.ID; caller != row.Common().WorkflowID {
		r.logger.WarnContext(ctx, "a workflow acted for a job that is not its own", r.family.Noun+"_id", job, "workflow_id",
			caller)
		return fault.New(fault.Forbidden, "job_of_another_workflow", "%s %s is not carried out by workflow %s", r.family.Noun,
			job, caller).
			WithRemedy("find out who starts workflows in Temporal, and take their access away")
	}
	return nil
}

// NextTurn is the activity that reads the row of a job and says what comes next. The
// first stages of a job that begins follow in the same activity where they wait for
// nothing, as those after another stage do. Whatever becomes of them, the row says
// what comes next.
func (r *Runner[R, W]) NextTurn(ctx context.Context, job string) (durable.Turn, error) {
	run := runOf(ctx)
	turn, begun, err := r.next(ctx, job, run)
	if err != nil || begun == nil || !begun.startsAtOnce(turn) {
		return turn, err
	}
	stop := beat(ctx)
	defer stop()
	after, err := r.RunStage(ctx, durable.StageCall{
		Job: job, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return durable.Turn{}, interrupted(ctx)
	case err != nil:
		r.logger.WarnContext(ctx, "the first stages were not carried out at once; the workflow goes on", r.family.Noun+"_id",
			job, "error", err)
		turn, _, err = r.next(ctx, job, run)
		return turn, err
	}
	marks := maps.Clone(turn.Marks)
	maps.Copy(marks, after.Marks)
	after.Marks = marks
	return after, nil
}

// startsAtOnce says whether the activity that began a job takes its first stage.
func (t Table) startsAtOnce(turn durable.Turn) bool {
	first, ok := t.Of(turn.Stage)
	return ok && turn.Do == durable.TurnRun && first.brief()
}

// LoseStage is the activity that records that a stage brought no answer: a
// defect of ours, or a refusal that nobody expected. What the stage did is seen
// by the next attempt.
func (r *Runner[R, W]) LoseStage(ctx context.Context, call durable.StageCall, loss durable.StageLoss) (durable.Turn,
	error,
) {
	a, err := r.begin(ctx, call, runOf(ctx), false)
	if fault.CodeOf(err) == durable.CodeSuperseded { // it was recorded after all, or somebody acted
		return r.NextTurn(ctx, call.Job)
	}
	if err != nil {
		return durable.Turn{}, err
	}
	a.err = fault.New(loss.Kind, loss.Code, "%s", loss.Message)
	return r.record(ctx, a)
}

// RunStage is the activity of every stage: one attempt at it, and at those that
// follow it and wait for nothing: each is recorded, and so many fewer round trips
// to Temporal are half of what a job costs. A worker that dies meanwhile has left
// a row that is further than its call; whoever repeats the call is superseded and
// asks.
func (r *Runner[R, W]) RunStage(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	began := time.Now()
	for chained := false; ; chained = true {
		turn, table, err := r.runOne(ctx, call, chained)
		if err != nil || !table.goesOn(ctx, turn, began) {
			return shown(turn), err
		}
		call = durable.StageCall{Job: call.Job, Stage: turn.Stage, Attempt: turn.Attempt, Epoch: turn.Epoch}
	}
}

// RunOne is one attempt at one stage, and nothing after it.
func (r *Runner[R, W]) RunOne(ctx context.Context, call durable.StageCall) (durable.Turn, error) {
	turn, _, err := r.runOne(ctx, call, false)
	return turn, err
}

// goesOn says whether the same activity takes the next stage: one that waits for
// nothing, while there is plenty of the activity's own time left.
func (t Table) goesOn(ctx context.Context, turn durable.Turn, began time.Time) bool {
	next, ok := t.Of(turn.Stage)
	if !ok || turn.Do != durable.TurnRun || len(turn.Marks) > 0 || !next.brief() {
		return false
	}
	deadline := deadlineOf(ctx)
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

// runOne is one attempt at one stage, with the table that tells what follows.
func (r *Runner[R, W]) runOne(ctx context.Context, call durable.StageCall, chained bool) (durable.Turn, Table, error) {
	a, err := r.begin(ctx, call, runOf(ctx), chained)
	switch {
	case err != nil && ctx.Err() != nil:
		return durable.Turn{}, nil, interrupted(ctx)
	case err != nil:
		return durable.Turn{}, nil, err
	case a.before.Takes > maxTakes:
		a.err = codeLost.Failed("the stage was taken up %d times, and never ended: it takes too long, or its workers die",
			maxTakes).ForGood()
	default:
		if a.result, a.err, err = r.execute(ctx, a); err != nil {
			return durable.Turn{}, nil, err
		}
	}
	turn, err := r.record(ctx, a)
	return turn, a.table, err
}

// execute runs a stage. There is nothing to record when lost is set.
func (r *Runner[R, W]) execute(ctx context.Context, a attempt[R, W]) (result Result, failed, lost error) {
	a.work.Common().Heartbeat = func() { heartbeat(ctx) }
	stop := beat(ctx)
	result, failed = r.attempt(ctx, a)
	stop()
	switch {
	case fault.CodeOf(failed) == durable.CodeSuperseded:
		return result, nil, r.superseded(a.before.ID)
	case ctx.Err() != nil:
		return result, nil, interrupted(ctx)
	case fault.CodeOf(failed) == codeKilled.Name:
		return result, nil, failed
	}
	if failed != nil {
		r.logger.WarnContext(ctx, "stage failed",
			r.family.Noun+"_id", a.call.Job, "hostname", a.before.Subject, "stage", a.call.Stage, "attempt", a.call.Attempt,
			"error", failed)
	}
	return result, failed, nil
}

// attempt runs the stage, with what is to go wrong around it.
func (r *Runner[R, W]) attempt(ctx context.Context, a attempt[R, W]) (result Result, err error) {
	defer func() {
		if met := recover(); met != nil { // or the job would run on for ever, and nobody would know why
			r.logger.ErrorContext(ctx, "stage panicked", "stage", a.call.Stage, "panic", met, "stack", string(debug.Stack()))
			err = codeDefect.Failed("the stage met a defect of the control plane; see the worker's log").ForGood()
		}
	}()
	if err := r.equip(ctx, a); err != nil {
		return Result{}, err
	}
	return r.mischief.Around(ctx, a.call, a.work, func(ctx context.Context, w W) (Result, error) {
		return r.hooks.Perform(ctx, a.row, a.call.Stage, w)
	})
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
				heartbeat(ctx)
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
	case <-stopping(ctx):
		return fault.New(fault.Unavailable, "worker_stopping", "the worker was stopped in the middle of a stage")
	default:
		return temporal.NewCanceledError()
	}
}
