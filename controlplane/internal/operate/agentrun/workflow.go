package agentrun

import (
	"context"
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/durable"
	"gpuaas/controlplane/internal/engine/outbox"
)

const (
	workflowType = "RunAgentLifecycle"
	queue        = durable.TaskQueue
	signalName   = "agent-run-changed"
	// turnsPerRun bounds the history of one workflow run.
	turnsPerRun = 500
)

func workflowID(of id.AgentRun) string { return "agent-run-" + of.String() }

// start is the workflow of a run. Whoever acts starts it again, should Temporal have
// lost it.
func start(of id.AgentRun) *outbox.WorkflowStart {
	return &outbox.WorkflowStart{ID: workflowID(of), Queue: queue, Type: workflowType, Input: Input{ID: of}}
}

// Input says which run a workflow drives.
type Input struct {
	ID id.AgentRun `json:"id"`
}

// Turn is how a run stands after a look.
type Turn struct {
	Done bool          `json:"done"`
	Wait time.Duration `json:"wait"`
}

// Activities are what the workflow of a run calls. Each may be repeated.
type Activities struct{ *Service }

// RegisterWorker adds the workflow and its activity to a worker.
func (s *Service) RegisterWorker(w worker.Registry) {
	w.RegisterWorkflowWithOptions(Drive, workflow.RegisterOptions{Name: workflowType})
	w.RegisterActivity((&Activities{s}).DriveAgentRun)
}

// DriveAgentRun looks at a run once.
func (a *Activities) DriveAgentRun(ctx context.Context, of id.AgentRun) (Turn, error) {
	done, wait, err := a.Look(ctx, of)
	return Turn{Done: done, Wait: wait}, err
}

// Drive looks at a run again and again until it is over. The activity decides, and the
// rows keep what was decided.
func Drive(ctx workflow.Context, in Input) error {
	var a *Activities
	changed := workflow.GetSignalChannel(ctx, signalName)
	for range turnsPerRun {
		for changed.ReceiveAsync(nil) { // what was told until now, the look sees
		}
		var turn Turn
		err := durable.Insist(ctx, func(ctx workflow.Context) error {
			return workflow.ExecuteActivity(ctx, a.DriveAgentRun, in.ID).Get(ctx, &turn)
		})
		if err != nil || turn.Done {
			return err
		}
		wait, stop := workflow.WithCancel(ctx)
		workflow.NewSelector(ctx).AddFuture(workflow.NewTimer(wait, turn.Wait), func(workflow.Future) {}).
			AddReceive(changed, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
			AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).Select(ctx)
		stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, Drive, in)
}
