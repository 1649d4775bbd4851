package job_test

import (
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/durable/durabletest"
	"gpuaas/controlplane/internal/work/job"
)

// Whoever reaches Temporal can start a workflow of their own that calls any
// activity with any arguments.
func TestAttackAForeignWorkflowActsForAJob(t *testing.T) {
	for name, c := range map[string]struct {
		workflow string // that calls
		activity string
		args     []any
		want     string
	}{
		"reads and starts it": {"mine", "next", []any{"chore-1"}, "job_of_another_workflow"},
		"runs its stage": {"mine", "chore.begin", []any{
			durable.StageCall{Job: "chore-1", Stage: "begin", Attempt: 1, Epoch: 1},
		}, "job_of_another_workflow"},
		"calls its stage lost": {"mine", "lost", []any{
			durable.StageCall{Job: "chore-1", Stage: "begin", Attempt: 1, Epoch: 1}, durable.StageLoss{Code: "x"},
		}, "job_of_another_workflow"},
		"under its name, another stage": {"wf-1", "chore.finish", []any{
			durable.StageCall{Job: "chore-1", Stage: "finish", Attempt: 1, Epoch: 1},
		}, durable.CodeSuperseded},
		"under its name, an old epoch": {"wf-1", "chore.begin", []any{
			durable.StageCall{Job: "chore-1", Stage: "begin", Attempt: 1, Epoch: 0},
		}, durable.CodeSuperseded},
		"under its name, a stage through the activity of another": {"wf-1", "chore.finish", []any{
			durable.StageCall{Job: "chore-1", Stage: "begin", Attempt: 1, Epoch: 1},
		}, "stage_not_called"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			row := d.put(t, runningChore())
			performed := 0
			d.perform = func(string, *toil) (job.Result, error) { performed++; return job.Result{}, nil }
			env := durabletest.New(t, func(w worker.Registry) {
				d.runner.RegisterWorker(w, func(workflow.Context) error { return nil })
			})
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: c.workflow})
			env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
				})
				err := workflow.ExecuteActivity(ctx, c.activity, c.args...).Get(ctx, nil)
				return fault.CodeOf(durable.FromTemporal(err)), nil
			})
			var code string
			if err := env.GetWorkflowResult(&code); err != nil || code != c.want {
				t.Errorf("%q %v, want %q", code, err, c.want)
			}
			if now, events := d.read(t); performed > 0 || len(events) > 0 || now.Status != row.Status ||
				now.Attempt != row.Attempt {
				t.Errorf("it had an effect: %+v %+v", now.Job, events)
			}
		})
	}
}
